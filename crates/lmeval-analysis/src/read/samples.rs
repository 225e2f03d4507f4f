//! Samples files: one scored document per line and filter pipeline.

use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Value, json};
use lmeval_scoring::results::LinesChecksum;
use rustc_hash::FxHashMap;

use super::blocks::{lines, parse_blocks};
use super::fields::Fields;
use super::number::number;
use crate::Error;

/// Fields of a sample that are not scores, for files that do not name their metrics.
pub const NOT_SCORES: [&str; 16] = [
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
    "finish_reasons",
    "reasoning",
    "scores_per_repeat",
    "judgements",
    "repeats",
];

/// Identifies a document in both runs: the first half of its hash, or its id where a file has no hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocKey {
    /// The first 16 bytes of `doc_hash`.
    Hash(u128),
    /// `doc_id`.
    Id(i64),
}

/// One scored document, without its prompt and answers.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its identity across runs.
    pub key: DocKey,
    /// `doc_id`.
    pub doc_id: i64,
    /// The first 8 bytes of `prompt_hash`; 0 without one.
    pub prompt: u64,
    /// The offset of its line.
    pub offset: u64,
    /// Indices of its labels in [`Pipeline::labels`]; 0 for a field that was not asked for.
    pub labels: [u32; FIELDS],
}

/// The per-document values of one metric.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name of the metric.
    pub metric: String,
    /// One value per row.
    pub values: Values,
}

/// Values of a metric.
#[derive(Clone, Debug)]
pub enum Values {
    /// Numbers; NaN where a document has none.
    Numbers(Vec<f64>),
    /// Items that a corpus metric aggregates, such as pairs of strings.
    Items(Vec<Value>),
}

/// The documents of one task as scored by one filter pipeline.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// The name of the pipeline.
    pub filter: String,
    /// The documents, in the order of the file.
    pub rows: Vec<Row>,
    /// The metrics, in the order of the file.
    pub columns: Vec<Column>,
    /// The labels that each field of [`Wanted`] has.
    pub labels: [Vec<String>; FIELDS],
    label_index: [FxHashMap<String, u32>; FIELDS],
}

/// Fields of documents that can be read as labels.
const FIELDS: usize = 2;

/// Fields to read besides scores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Fields of the document whose values label it, for clusters and breakdowns.
    pub labels: [Option<&'a str>; FIELDS],
}

/// Reads the scores of a samples file, and the checksum of its lines. Prompts and answers stay in the file; see [`read_line`].
pub fn read_samples(path: &Path, wanted: Wanted<'_>) -> Result<(Vec<Pipeline>, LinesChecksum), Error> {
    let mut pipelines: Vec<Pipeline> = Vec::new();
    let mut checksum = LinesChecksum::default();
    let mut line_index = 0;
    let parse = |block: &[u8], start| parse_block(block, start, wanted);
    parse_blocks(path, parse, |(samples, part)| {
        checksum.append(part);
        for sample in samples {
            line_index += 1;
            let sample = sample.map_err(|wrong| wrong.diagnostic(path, line_index))?;
            add(&mut pipelines, sample);
        }
        Ok(())
    })?;
    Ok((pipelines, checksum))
}

/// Reads the whole line that starts at an offset.
pub fn read_line(file: &mut BufReader<fs::File>, offset: u64) -> std::io::Result<String> {
    file.seek(SeekFrom::Start(offset))?;
    let mut line = String::new();
    file.read_line(&mut line)?;
    Ok(line)
}

/// One line.
struct Parsed {
    row: Row,
    filter: String,
    scores: Vec<(Arc<str>, Score)>,
    labels: [Option<String>; FIELDS],
}

enum Score {
    Number(f64),
    Item(Value),
}

/// A line that cannot be used.
#[derive(Debug)]
pub(crate) enum Wrong {
    NotText,
    Malformed { at_end: bool, offset: usize },
    NoIdentity,
    NoField(String),
}

impl Wrong {
    pub(crate) fn diagnostic(self, path: &Path, line: usize) -> Diagnostic {
        self.diagnostic_at(&format!("line {line}"), path)
    }

    /// The error for a line described by `line`, such as `line 3`.
    pub(crate) fn diagnostic_at(self, line: &str, path: &Path) -> Diagnostic {
        let place = format!("{line} of `{}`", path.display());
        match self {
            Self::NotText => Diagnostic::new(format!("The {place} is not UTF-8")),
            Self::Malformed { at_end: true, .. } => {
                Diagnostic::new(format!("The {place} ends in the middle of a sample"))
                    .hint("The file was probably still being written; use the results of a finished run")
            }
            Self::Malformed { offset, .. } => Diagnostic::new(format!(
                "The {place} is not a JSON object: unexpected input at column {}",
                offset + 1
            )),
            Self::NoIdentity => Diagnostic::new(format!("The {place} has neither `doc_hash` nor `doc_id`"))
                .hint("Samples files are written by `lm-eval run --log_samples`"),
            Self::NoField(field) => {
                Diagnostic::new(format!("The document in {place} has no field `{field}`"))
            }
        }
    }
}

fn parse_block(block: &[u8], start: u64, wanted: Wanted<'_>) -> (Vec<Result<Parsed, Wrong>>, LinesChecksum) {
    let mut samples = Vec::with_capacity(block.len() / 512);
    let mut checksum = LinesChecksum::default();
    let mut names = MetricNames::default();
    for (offset, bytes) in lines(block, start) {
        let line = bytes.trim_ascii();
        if !line.is_empty() {
            checksum.add(line);
            samples.push(parse_line(line, offset, bytes.ends_with(b"\n"), wanted, &mut names));
        }
    }
    (samples, checksum)
}

/// The names of metrics of the last sample: nearly always those of the next one, too.
#[derive(Default)]
pub(crate) struct MetricNames {
    raw: String,
    names: Option<Arc<[Arc<str>]>>,
}

impl MetricNames {
    /// The names in the raw JSON of `metrics`; `None` if it is not a list.
    pub(crate) fn read(&mut self, raw: &str) -> Option<Arc<[Arc<str>]>> {
        if self.raw != raw {
            self.names = match json::loads(raw) {
                Ok(Value::List(names)) => {
                    Some(names.iter().filter_map(Value::as_str).map(Arc::from).collect())
                }
                _ => None,
            };
            raw.clone_into(&mut self.raw);
        }
        self.names.clone()
    }
}

fn parse_line(
    line: &[u8],
    offset: u64,
    is_complete: bool,
    wanted: Wanted<'_>,
    names: &mut MetricNames,
) -> Result<Parsed, Wrong> {
    let line = std::str::from_utf8(line).map_err(|_| Wrong::NotText)?;
    let fields = Fields::parse(line).map_err(|malformed| Wrong::Malformed {
        at_end: !is_complete && malformed.offset == line.len(),
        offset: malformed.offset,
    })?;
    let doc_id = fields.raw("doc_id").and_then(|raw| raw.parse().ok());
    let hash = fields.text("doc_hash").and_then(|hash| u128::from_str_radix(hash.get(..32)?, 16).ok());
    let key = match (hash, doc_id) {
        (Some(hash), _) => DocKey::Hash(hash),
        (None, Some(id)) => DocKey::Id(id),
        (None, None) => return Err(Wrong::NoIdentity),
    };
    let prompt = fields.text("prompt_hash").and_then(|hash| u64::from_str_radix(hash.get(..16)?, 16).ok());
    let mut labels = [const { None }; FIELDS];
    for (label, field) in labels.iter_mut().zip(wanted.labels) {
        *label = field.map(|field| label_of(&fields, field)).transpose()?;
    }
    Ok(Parsed {
        row: Row {
            key,
            doc_id: doc_id.unwrap_or(-1),
            prompt: prompt.unwrap_or(0),
            offset,
            labels: [0; FIELDS],
        },
        filter: fields.text("filter").map_or_else(|| "none".to_owned(), std::borrow::Cow::into_owned),
        scores: scores(&fields, names),
        labels,
    })
}

/// The value of a field of the document, as a label.
fn label_of(fields: &Fields<'_>, field: &str) -> Result<String, Wrong> {
    let missing = || Wrong::NoField(field.to_owned());
    let doc = Fields::parse(fields.raw("doc").ok_or_else(missing)?).map_err(|_| missing())?;
    match doc.text(field) {
        Some(text) => Ok(text.into_owned()),
        None => doc.raw(field).map(str::to_owned).ok_or_else(missing),
    }
}

fn scores(fields: &Fields<'_>, names: &mut MetricNames) -> Vec<(Arc<str>, Score)> {
    let score = |raw: &str| match number(raw) {
        Some(value) => Some(Score::Number(value)),
        None => json::loads(raw).ok().map(Score::Item),
    };
    match fields.raw("metrics").and_then(|raw| names.read(raw)) {
        Some(names) => names
            .iter()
            .map(|name| {
                // A document can lack a metric that others have.
                let value = fields.raw(name).and_then(score).unwrap_or(Score::Number(f64::NAN));
                (Arc::clone(name), value)
            })
            .collect(),
        None => fields
            .iter()
            .filter(|(name, _)| !NOT_SCORES.contains(name))
            .filter_map(|(name, raw)| Some((Arc::from(name), score(raw)?)))
            .collect(),
    }
}

/// Appends a sample to its pipeline.
fn add(pipelines: &mut Vec<Pipeline>, sample: Parsed) {
    // Samples of a pipeline follow each other, so the last one is nearly always right.
    let position = match pipelines.iter().rposition(|pipeline| pipeline.filter == sample.filter) {
        Some(position) => position,
        None => {
            pipelines.push(Pipeline { filter: sample.filter.clone(), ..Pipeline::default() });
            pipelines.len() - 1
        }
    };
    let pipeline = &mut pipelines[position];
    let mut row = sample.row;
    for (field, label) in sample.labels.into_iter().enumerate() {
        let Some(label) = label else { continue };
        row.labels[field] = match pipeline.label_index[field].get(&label) {
            Some(index) => *index,
            None => {
                let index = pipeline.labels[field].len() as u32;
                pipeline.labels[field].push(label.clone());
                pipeline.label_index[field].insert(label, index);
                index
            }
        };
    }
    let before = pipeline.rows.len();
    pipeline.rows.push(row);
    for (metric, score) in sample.scores {
        let position = match pipeline.columns.iter().position(|column| *column.metric == *metric) {
            Some(position) => position,
            None => {
                let values = match score {
                    Score::Number(_) => Values::Numbers(vec![f64::NAN; before]),
                    Score::Item(_) => Values::Items(vec![Value::None; before]),
                };
                pipeline.columns.push(Column { metric: metric.to_string(), values });
                pipeline.columns.len() - 1
            }
        };
        push(&mut pipeline.columns[position].values, score);
    }
    for column in &mut pipeline.columns {
        match &mut column.values {
            Values::Numbers(numbers) if numbers.len() == before => numbers.push(f64::NAN),
            Values::Items(items) if items.len() == before => items.push(Value::None),
            _ => {}
        }
    }
}

/// Adds a score. A column that has numbers and items becomes one of items.
fn push(values: &mut Values, score: Score) {
    match (&mut *values, score) {
        (Values::Numbers(numbers), Score::Number(number)) => numbers.push(number),
        (Values::Items(items), Score::Item(item)) => items.push(item),
        (Values::Items(items), Score::Number(number)) => items.push(Value::Float(number)),
        (Values::Numbers(numbers), Score::Item(item)) => {
            let mut items: Vec<Value> = numbers.drain(..).map(Value::Float).collect();
            items.push(item);
            *values = Values::Items(items);
        }
    }
}
