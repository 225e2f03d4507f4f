//! Opens the files of a plan.

use std::sync::Arc;

use lmeval_core::DatasetRequest;
use lmeval_pycompat::{Dict, Value};

use crate::columnar;
use crate::csv::{self, CsvOptions};
use crate::error::{Error, ErrorKind};
use crate::file::DataFile;
use crate::formats::Format;
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
        for location in if is_wanted { &files[..] } else { &files[..files.len().min(1)] } {
            for file in reader.open(location, target.is_none())? {
                for schema in file.schemas {
                    if target.is_none() && !schema.columns.is_empty() {
                        target = Some((*schema).clone());
                    } else {
                        later.push(schema);
                    }
                }
                sources.push(file.source);
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
