//! The images and sounds of a sample, with the small versions that the run has written beside its samples file.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use lmeval_analysis::read::read_exact_at;
use lmeval_pycompat::{Dict, Value, json};
use rustc_hash::FxHashMap;

use crate::api::MediaFile;
use crate::record::Record;
use crate::wire;

/// The files of one sample at most.
const MOST: usize = 64;

/// A longer line is not a preview.
const LONGEST: u32 = 1 << 20;

/// Where the previews of a samples file are.
#[derive(Debug)]
pub(crate) struct Previews {
    path: PathBuf,
    lines: FxHashMap<String, (u64, u32)>,
}

impl Previews {
    /// Finds the lines of the file beside a samples file; `None` if there is none.
    pub(crate) fn beside(samples: &Path) -> Option<Self> {
        let name = samples.file_name()?.to_str()?.strip_prefix("samples_")?;
        let path = samples.with_file_name(format!("media_{name}"));
        let mut reader = BufReader::new(fs_err::File::open(&path).ok()?);
        let mut lines = FxHashMap::default();
        let (mut offset, mut line) = (0, Vec::new());
        while reader.read_until(b'\n', &mut line).ok()? > 0 {
            let digest = line.strip_prefix(b"{\"sha256\": \"").and_then(|rest| rest.get(..64));
            if let (Some(Ok(digest)), Ok(length)) = (digest.map(str::from_utf8), u32::try_from(line.len()))
                && length <= LONGEST
            {
                lines.insert(digest.to_owned(), (offset, length));
            }
            offset += line.len() as u64;
            line.clear();
        }
        Some(Self { path, lines })
    }

    /// The `data:` address of a file.
    fn url(&self, digest: &str) -> Option<String> {
        let (offset, length) = self.lines.get(digest)?;
        let mut line = vec![0; usize::try_from(*length).ok()?];
        let file: File = fs_err::File::open(&self.path).ok()?.into();
        read_exact_at(&file, &mut line, *offset).ok()?;
        let line = json::loads(str::from_utf8(&line).ok()?.trim_end()).ok()?;
        let url = line.as_dict()?.get_str("url")?.as_str()?;
        let is_media = url.starts_with("data:image/") || url.starts_with("data:audio/");
        is_media.then(|| url.to_owned())
    }
}

/// The files of the first request; of the document if requests have none.
pub(crate) fn files(record: &Record<'_>, previews: Option<&Previews>) -> Vec<MediaFile> {
    let mut found = Vec::new();
    if let Some(media) = record.requests.first().and_then(|request| request.media.as_ref()) {
        collect("", media, previews, &mut found);
    }
    if found.is_empty()
        && let Some(doc) = record.fields.value("doc")
    {
        collect("", &doc, previews, &mut found);
    }
    found
}

fn collect(name: &str, value: &Value, previews: Option<&Previews>, found: &mut Vec<MediaFile>) {
    if found.len() >= MOST {
        return;
    }
    match value {
        Value::Dict(dict) => {
            if let Some(file) = file(name, dict, previews) {
                found.push(file);
                return;
            }
            for (key, value) in dict.iter() {
                let key = wire::plain(key);
                collect(&if name.is_empty() { key } else { format!("{name}.{key}") }, value, previews, found);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let name = if items.len() == 1 { name.to_owned() } else { format!("{name} {}", index + 1) };
                collect(&name, item, previews, found);
            }
        }
        _ => {}
    }
}

/// The file that samples describe by its hash.
fn file(name: &str, dict: &Dict, previews: Option<&Previews>) -> Option<MediaFile> {
    let kind = ["image", "audio"].into_iter().find(|kind| dict.get_str(kind).is_some())?;
    let digest = dict.get_str(kind)?.as_str()?.strip_prefix("sha256:")?;
    let text = |key: &str| dict.get_str(key).map(wire::plain);
    let size = text("width").zip(text("height")).map(|(width, height)| format!("{width}×{height}"));
    let bytes = text("bytes").map(|bytes| format!("{bytes} bytes"));
    let detail: Vec<String> = [text("format"), size, bytes].into_iter().flatten().collect();
    Some(MediaFile {
        name: name.to_owned(),
        kind: kind.to_owned(),
        detail: detail.join(", "),
        url: previews.and_then(|previews| previews.url(digest)),
    })
}
