//! Opens the files of a plan.

use std::sync::Arc;

use lmeval_core::DatasetRequest;
use lmeval_pycompat::{Dict, MediaKind, Value};

use crate::columnar;
use crate::csv::{self, CsvOptions};
use crate::error::{Error, ErrorKind};
use crate::file::DataFile;
use crate::folder::{self, Labels};
use crate::formats::{self, Format};
use crate::json;
use crate::plan::Plan;
use crate::slice::{self, SliceTerm};
use crate::source::{Opened, Source};
use crate::split::{DatasetDict, Split};
use crate::text::{self, TextOptions};
use crate::tree::Location;
use crate::types::Schema;

/// A format with its options.
enum Reader {
    Json { field: Option<String> },
    Csv(Arc<CsvOptions>),
    Parquet { columns: Option<Vec<String>> },
    Arrow,
    Text(TextOptions),
    Files(MediaKind),
}

/// Options that affect the speed of reading but not the rows.
const WITHOUT_EFFECT: [&str; 8] = [
    "chunksize",
    "use_threads",
    "block_size",
    "on_mixed_types",
    "engine",
    "low_memory",
    "batch_size",
    "memory_map",
];

impl Reader {
    fn new(format: Format, options: &Dict) -> Result<Self, Error> {
        let known: &[&str] = match format {
            Format::Json => &["field", "encoding"],
            Format::Csv => &CsvOptions::NAMES,
            Format::Parquet => &["columns"],
            Format::Arrow => &[],
            Format::Text => &TextOptions::NAMES,
            Format::Files(_) => &["drop_labels", "drop_metadata"],
        };
        let unknown = options
            .keys()
            .filter_map(Value::as_str)
            .find(|name| !known.contains(name) && !WITHOUT_EFFECT.contains(name));
        if let Some(name) = unknown {
            let message = format!("is unknown or not supported; supported: {}", known.join(", "));
            return Err(Error::option(format.name(), name, message));
        }
        Ok(match format {
            Format::Json => {
                let encoding = options.get_str("encoding").and_then(Value::as_str).unwrap_or("utf-8");
                if !csv::is_utf8(encoding) {
                    return Err(Error::option(
                        "json",
                        "encoding",
                        "only UTF-8 is supported; convert the file",
                    ));
                }
                Self::Json { field: options.get_str("field").map(lmeval_pycompat::repr::str) }
            }
            Format::Csv => Self::Csv(Arc::new(CsvOptions::new(options)?)),
            Format::Parquet => {
                let columns = options
                    .get_str("columns")
                    .and_then(Value::as_list)
                    .map(|names| names.iter().map(lmeval_pycompat::repr::str).collect());
                Self::Parquet { columns }
            }
            Format::Arrow => Self::Arrow,
            Format::Text => Self::Text(TextOptions::new(options)?),
            Format::Files(kind) => Self::Files(kind),
        })
    }

    /// Opens a file, or all files of an archive.
    fn open(&self, location: &Location, first: bool) -> Result<Vec<Opened>, Error> {
        let file = location.open()?;
        let unpacked = |file: DataFile| Ok::<_, Error>(file.decompress()?.into_iter());
        match self {
            Self::Parquet { .. } => Ok(vec![columnar::open_parquet(file)?]),
            Self::Arrow => Ok(vec![columnar::open_arrow(file)?]),
            Self::Json { field } => unpacked(file)?
                .enumerate()
                .map(|(index, file)| json::open(&file, field.as_deref(), first && index == 0))
                .collect(),
            Self::Csv(options) => unpacked(file)?.map(|file| csv::open(file, options)).collect(),
            Self::Text(options) => unpacked(file)?.map(|file| text::open(file, *options)).collect(),
            // Opened by `open_folder`, split by split.
            Self::Files(_) => Ok(Vec::new()),
        }
    }
}

/// Opens the files that a request needs.
pub(crate) fn read(plan: &Plan, request: &DatasetRequest) -> Result<DatasetDict, Error> {
    let wanted = wanted(plan, request)?;
    let reader = Reader::new(plan.format, &plan.options)?;
    let mut target = plan.features.clone();
    let mut opened: Vec<(&str, Vec<Arc<dyn Source>>)> = Vec::new();
    let mut later: Vec<Arc<Schema>> = Vec::new();
    for (index, (split, files)) in plan.splits.iter().enumerate() {
        let is_wanted = wanted.iter().any(|(_, parts)| parts.iter().any(|part| part.split == *split));
        // Reference: the first file of the first split determines the types of all, even if that split is not
        // requested.
        let decides = index == 0 && target.is_none() && matches!(plan.format, Format::Json | Format::Csv);
        if !is_wanted && !decides {
            continue;
        }
        let mut sources = Vec::new();
        if let Reader::Files(kind) = &reader {
            for file in open_folder(*kind, files, plan, target.is_none())? {
                sources.push(noted(file, &mut target, &mut later));
            }
        } else {
            for location in if is_wanted { &files[..] } else { &files[..files.len().min(1)] } {
                for file in reader.open(location, target.is_none())? {
                    sources.push(noted(file, &mut target, &mut later));
                }
            }
        }
        if is_wanted {
            opened.push((split, sources));
        }
    }
    let mut target = target.unwrap_or_default();
    for schema in later {
        target.widen(&schema);
    }
    if let Reader::Parquet { columns: Some(columns) } = &reader {
        target.columns.retain(|(name, _)| columns.iter().any(|column| **column == **name));
    }
    let target = Arc::new(target);
    let splits: Vec<(&str, Split)> =
        opened.into_iter().map(|(split, sources)| (split, Split::new(target.clone(), sources))).collect();
    let mut result = Vec::with_capacity(wanted.len());
    for (spec, parts) in wanted {
        let mut slices = Vec::with_capacity(parts.len());
        for part in &parts {
            let Some((_, split)) = splits.iter().find(|(name, _)| *name == part.split) else {
                continue;
            };
            let (from, to) = part.resolve(split.len())?;
            slices.push(split.slice(from..to));
        }
        match Split::concatenate(&slices) {
            Some(split) if !split.is_empty() => result.push((spec, split)),
            _ => {
                return Err(ErrorKind::NoRows { split: spec, dataset: plan.dataset.clone() }.into());
            }
        }
    }
    Ok(DatasetDict::new(result))
}

/// Notes the schemas of a file: the first one is the target of all.
fn noted(file: Opened, target: &mut Option<Schema>, later: &mut Vec<Arc<Schema>>) -> Arc<dyn Source> {
    for schema in file.schemas {
        if target.is_none() && !schema.columns.is_empty() {
            *target = Some((*schema).clone());
        } else {
            later.push(schema);
        }
    }
    file.source
}

/// Opens a split of a folder of images or sounds: the rows of its metadata files, or one row per file.
fn open_folder(kind: MediaKind, files: &[Location], plan: &Plan, first: bool) -> Result<Vec<Opened>, Error> {
    let is_set = |name: &str| plan.options.get_str(name).and_then(Value::as_bool);
    let (metadata, files): (Vec<&Location>, Vec<&Location>) =
        files.iter().partition(|file| folder::is_metadata(&file.name()));
    if metadata.is_empty() || is_set("drop_metadata") == Some(true) {
        let all = plan.splits.iter().flat_map(|(_, files)| files).map(Location::name);
        let all: Vec<String> = all.filter(|name| !folder::is_metadata(name)).collect();
        let labels = Labels::new(all.iter().map(String::as_str), is_set("drop_labels"));
        return Ok(vec![folder::open_files(kind, files.into_iter().cloned().collect(), &labels)]);
    }
    let mut opened = Vec::new();
    for file in metadata {
        let format = formats::of_name(&file.name());
        let reader = Reader::new(format, &Dict::new())?;
        for rows in reader.open(file, first && opened.is_empty())? {
            opened.push(folder::open_metadata(kind, rows, file.clone()));
        }
    }
    Ok(opened)
}

/// The requested splits, under the names that they will have.
fn wanted(plan: &Plan, request: &DatasetRequest) -> Result<Vec<(String, Vec<SliceTerm>)>, Error> {
    let limit = |part: SliceTerm| match request.limit_rows {
        Some(rows) => part.limit(rows),
        None => part,
    };
    if request.splits.is_empty() {
        let whole =
            |(split, _): &(String, Vec<Location>)| (split.clone(), vec![limit(SliceTerm::whole(split))]);
        return Ok(plan.splits.iter().map(whole).collect());
    }
    let mut wanted: Vec<(String, Vec<SliceTerm>)> = Vec::new();
    for spec in &request.splits {
        if wanted.iter().any(|(known, _)| known == spec) {
            continue;
        }
        let parts: Vec<SliceTerm> = slice::parse(spec)?.into_iter().map(limit).collect();
        for part in &parts {
            if !plan.splits.iter().any(|(split, _)| *split == part.split) {
                let available = plan.splits.iter().map(|(split, _)| split.clone()).collect();
                return Err(ErrorKind::UnknownSplit { split: part.split.clone(), available }.into());
            }
        }
        wanted.push((spec.clone(), parts));
    }
    Ok(wanted)
}
