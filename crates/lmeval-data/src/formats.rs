//! File formats and their detection by file name.

use std::collections::HashMap;

use lmeval_pycompat::{Dict, MediaKind, Value};

use crate::error::{Error, ErrorKind};
use crate::folder;

/// A supported format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Csv,
    Parquet,
    Arrow,
    Text,
    /// A folder of images or sounds.
    Files(MediaKind),
}

/// Supported file extensions.
const EXTENSIONS: [(&str, Format); 23] = [
    ("csv", Format::Csv),
    ("tsv", Format::Csv),
    ("json", Format::Json),
    ("jsonl", Format::Json),
    ("ndjson", Format::Json),
    ("parquet", Format::Parquet),
    ("geoparquet", Format::Parquet),
    ("gpq", Format::Parquet),
    ("arrow", Format::Arrow),
    ("txt", Format::Text),
    ("png", Format::Files(MediaKind::Image)),
    ("jpg", Format::Files(MediaKind::Image)),
    ("jpeg", Format::Files(MediaKind::Image)),
    ("gif", Format::Files(MediaKind::Image)),
    ("webp", Format::Files(MediaKind::Image)),
    ("bmp", Format::Files(MediaKind::Image)),
    ("tif", Format::Files(MediaKind::Image)),
    ("tiff", Format::Files(MediaKind::Image)),
    ("wav", Format::Files(MediaKind::Audio)),
    ("mp3", Format::Files(MediaKind::Audio)),
    ("flac", Format::Files(MediaKind::Audio)),
    ("ogg", Format::Files(MediaKind::Audio)),
    ("opus", Format::Files(MediaKind::Audio)),
];

/// Extensions of unsupported kinds of datasets.
const UNSUPPORTED_EXTENSIONS: [&str; 11] =
    ["tar", "xml", "hdf5", "h5", "eval", "lance", "conll", "conllu", "mp4", "pdf", "zarr"];

impl Format {
    /// The format of a loader name.
    pub(crate) fn from_loader(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "csv" | "tsv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            "arrow" => Some(Self::Arrow),
            "text" => Some(Self::Text),
            "imagefolder" => Some(Self::Files(MediaKind::Image)),
            "audiofolder" => Some(Self::Files(MediaKind::Audio)),
            _ => None,
        }
    }

    /// The name of the loader.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Text => "text",
            Self::Files(MediaKind::Image) => "imagefolder",
            Self::Files(_) => "audiofolder",
        }
    }
}

/// The extensions in a file name: all parts that follow dots.
fn extensions(path: &str) -> impl Iterator<Item = &str> {
    path.rsplit('/').next().unwrap_or(path).split('.').skip(1)
}

/// The format of a metadata file.
pub(crate) fn of_name(path: &str) -> Format {
    let known = extensions(path).last().and_then(|last| EXTENSIONS.iter().find(|(known, _)| *known == last));
    known.map_or(Format::Json, |(_, format)| *format)
}

/// Whether a file name looks like data of any kind.
pub(crate) fn is_data(path: &str) -> bool {
    is_media(path)
        || extensions(path).any(|extension| {
            extension == "zip"
                || EXTENSIONS.iter().any(|(known, _)| *known == extension)
                || UNSUPPORTED_EXTENSIONS.contains(&extension)
        })
}

/// Whether a file name looks like that of an image or a sound.
fn is_media(path: &str) -> bool {
    let extension = extensions(path).last().unwrap_or_default().to_lowercase();
    EXTENSIONS.iter().any(|(known, format)| *known == extension && matches!(format, Format::Files(_)))
}

/// Whether a file has a format, compressed or not.
pub(crate) fn belongs(path: &str, format: Format) -> bool {
    if let Format::Files(_) = format {
        let extension = extensions(path).last().unwrap_or_default().to_lowercase();
        return folder::is_metadata(path) || EXTENSIONS.contains(&(extension.as_str(), format));
    }
    extensions(path).any(|extension| extension == "zip" || EXTENSIONS.contains(&(extension, format)))
}

/// The most common format of some files, with its options; ties are broken in the order Parquet, Arrow, JSON
/// lines, JSON, CSV.
fn of_files(files: &[String]) -> Option<(Option<Format>, Dict)> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    // A metadata file may be as common as the files it describes.
    let is_described = files.iter().any(|path| !folder::is_metadata(path) && is_media(path));
    let counted = files.iter().filter(|path| !is_described || !folder::is_metadata(path));
    for extension in counted.flat_map(|path| extensions(path)) {
        *counts.entry(extension.to_lowercase()).or_default() += 1;
    }
    let favour = |extension: &str| match extension {
        "parquet" => 5,
        "arrow" => 4,
        "jsonl" => 3,
        "json" => 2,
        "csv" => 1,
        _ => 0,
    };
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|(left, left_count), (right, right_count)| {
        (right_count, favour(right), right).cmp(&(left_count, favour(left), left))
    });
    for (extension, _) in counts {
        if let Some((_, format)) = EXTENSIONS.iter().find(|(known, _)| *known == extension) {
            let options = (extension == "tsv").then(|| (Value::str("sep"), Value::str("\t")));
            return Some((Some(*format), options.into_iter().collect()));
        }
        if UNSUPPORTED_EXTENSIONS.contains(&extension.as_str()) {
            return Some((None, Dict::new()));
        }
    }
    None
}

/// The single format of the files of all splits. An archive has the format of its first member, which `peek`
/// lists.
pub(crate) fn of_splits(
    splits: &[(String, Vec<String>)],
    location: &str,
    peek: &dyn Fn(&str) -> Result<Vec<String>, Error>,
) -> Result<(Format, Dict), Error> {
    let mut common: Option<(Option<Format>, Dict)> = None;
    for (_, files) in splits {
        let mut found = of_files(files);
        if found.is_none()
            && let Some(archive) = files.iter().find(|path| extensions(path).last() == Some("zip"))
        {
            found = of_files(&peek(archive)?);
        }
        match (&common, found) {
            (Some(known), Some(found)) if *known != found => return Err(differ(splits, location)),
            (Some(_), None) => return Err(differ(splits, location)),
            (_, found) => common = found.or(common),
        }
    }
    match common {
        Some((Some(format), options)) => Ok((format, options)),
        Some((None, _)) => {
            Err(ErrorKind::Unsupported { what: format!("The kind of files in `{location}`") }.into())
        }
        None => Err(ErrorKind::NoDataFiles {
            location: location.into(),
            message: "there are no JSON, CSV, Parquet, Arrow or text files, images or sounds".into(),
        }
        .into()),
    }
}

fn differ(splits: &[(String, Vec<String>)], location: &str) -> Error {
    let kinds = splits.iter().map(|(split, files)| {
        let format = of_files(files).and_then(|(format, _)| format).map_or("none", Format::name);
        format!("{split}: {format}")
    });
    let message = format!("splits have different formats ({})", kinds.collect::<Vec<_>>().join(", "));
    ErrorKind::NoDataFiles { location: location.into(), message }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_common_extension_wins() {
        let format = |names: &[&str]| {
            let files: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            of_files(&files).and_then(|(format, _)| format)
        };
        assert_eq!(format(&["a.csv", "b.json"]), Some(Format::Json));
        assert_eq!(format(&["a.csv", "b.csv", "c.parquet"]), Some(Format::Csv));
        assert_eq!(format(&["a.json.gz", "b.parquet"]), Some(Format::Parquet));
        assert_eq!(format(&["a.tsv"]), Some(Format::Csv));
        assert_eq!(format(&["a.png", "metadata.csv"]), Some(Format::Files(MediaKind::Image)));
        assert_eq!(format(&["a.mp4"]), None);
        assert_eq!(format(&["a"]), None);
    }
}
