//! Changes: scores before and after, and documents that flipped.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::BufReader;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use fs_err as fs;
use lmeval_analysis::answers::StoredScores;
use lmeval_analysis::read::{Fields, Run, SamplesFile, read_line};
use lmeval_engine::Events;
use lmeval_pycompat::{Value, repr};
use lmeval_scoring::results::{RunResults, SampleRecord, Score};
use lmeval_scoring::scorers::ScoringPipeline;

use crate::printer::{Printer, escape_controls};
use crate::stored::{Source, StoredModel};
use crate::table::Table;

/// Characters of a long string that are shown.
const SHOWN: usize = 300;

/// The documents of one score that changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    pub(crate) task: String,
    pub(crate) filter: String,
    pub(crate) metric: String,
    pub(super) up: usize,
    pub(super) down: usize,
    pub(crate) first: Vec<Flip>,
}

/// A document whose value changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flip {
    pub(crate) document: i64,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// The offset of its stored line.
    offset: u64,
}

/// Compares the values of each task with the stored ones, as soon as it is scored.
pub(crate) struct Comparison {
    run: Run,
    stored: Arc<StoredModel>,
    shown: usize,
    found: Mutex<ChangesSoFar>,
}

/// The comparison so far.
#[derive(Debug, Default)]
pub(crate) struct ChangesSoFar {
    pub(crate) changed: Vec<Changed>,
    /// Tasks with stored samples.
    pub(super) compared: Vec<String>,
    /// Why stored samples of a task cannot be compared.
    pub(super) problems: Vec<String>,
}

impl Comparison {
    pub(crate) fn new(run: &Run, stored: &Arc<StoredModel>, shown: usize) -> Self {
        Self { run: run.clone(), stored: Arc::clone(stored), shown, found: Mutex::default() }
    }

    /// Takes what was compared so far.
    pub(crate) fn take(&self) -> ChangesSoFar {
        std::mem::take(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Events for Comparison {
    fn values(&self, task: &str, pipelines: &[ScoringPipeline]) {
        let Some(file) = stored_samples(&self.run, task) else { return };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let read;
        let stored = match &self.stored.source {
            Source::Samples(samples) => samples.scores(&file.path).unwrap_or_default(),
            Source::Journal(_) => match StoredScores::read(&file.path) {
                Ok(scores) => {
                    read = scores;
                    &read
                }
                Err(error) => return found.problems.push(error.to_string()),
            },
        };
        found.compared.push(task.to_owned());
        for pipeline in pipelines {
            if let Some(before) = stored.iter().find(|stored| *stored.filter() == **pipeline.name()) {
                found.changed.extend(compare(task, before, pipeline, self.shown));
            }
        }
    }
}

/// The stored samples of a task. A run of one task may be scored by a task of another name.
fn stored_samples<'a>(run: &'a Run, task: &str) -> Option<&'a SamplesFile> {
    let only = || run.samples.first().filter(|_| run.samples.len() == 1);
    run.samples_of(task).or_else(only)
}

/// A value as a number; items of corpus metrics are none.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_f64(),
        _ => None,
    }
}

/// Whether two values differ by more than the rounding of another implementation.
fn differs(before: f64, after: f64) -> bool {
    if before.is_nan() || after.is_nan() {
        return before.is_nan() != after.is_nan();
    }
    before != after && (before - after).abs() > 1e-9 * before.abs().max(after.abs()).max(1.0)
}

fn compare(task: &str, stored: &StoredScores, pipeline: &ScoringPipeline, shown: usize) -> Vec<Changed> {
    let mut all: Vec<Changed> = Vec::new();
    for (index, document) in pipeline.reduced_docs().iter().enumerate() {
        let Some(row) = stored.row(document.doc_id.0, index) else { continue };
        for (metric, value) in document.values.iter() {
            let (Some(after), Some(before)) = (number(value), stored.values(metric)) else { continue };
            let before = before[row];
            let position = all.iter().position(|changed| *changed.metric == **metric).unwrap_or_else(|| {
                let (task, filter, metric) =
                    (task.to_owned(), stored.filter().to_owned(), metric.to_string());
                all.push(Changed { task, filter, metric, ..Changed::default() });
                all.len() - 1
            });
            if !differs(before, after) {
                continue;
            }
            let changed = &mut all[position];
            if after > before {
                changed.up += 1;
            } else {
                changed.down += 1;
            }
            if changed.first.len() < shown {
                let document = document.doc_id.0 as i64;
                changed.first.push(Flip { document, before, after, offset: stored.offset(row) });
            }
        }
    }
    all
}

/// A score of the stored run and of this one.
struct Rescored<'a> {
    score: Score<'a>,
    before: Option<f64>,
    after: f64,
}

/// Scores before and after.
fn scores<'a>(run: &Run, after: &'a RunResults) -> Vec<Rescored<'a>> {
    let results = run.section("results");
    let only = || results?.values().next().filter(|_| results.is_some_and(|results| results.len() == 1));
    let rescored = |score: Score<'a>| {
        let stored = results.and_then(|results| results.get_str(score.task)).or_else(only);
        let key = format!("{},{}", score.metric, score.filter);
        let before = stored.and_then(Value::as_dict).and_then(|stored| stored.get_str(&key));
        Some(Rescored { score, before: before.and_then(number), after: number(score.value)? })
    };
    after.scores().filter_map(rescored).collect()
}

/// Prints the table of scores.
pub(super) fn print_scores(
    run: &Run,
    found: &ChangesSoFar,
    after: &RunResults,
    printer: &mut Printer,
) -> Result<()> {
    let rows = scores(run, after);
    let cells: Vec<[String; 6]> = rows
        .into_iter()
        .map(|Rescored { score: Score { task, filter, metric, .. }, before, after }| {
            let changed = found.changed.iter().find(|changed| {
                (changed.task.as_str(), changed.filter.as_str(), changed.metric.as_str())
                    == (task, filter, metric)
            });
            let flipped = changed.map_or_else(String::new, |changed| match (changed.up, changed.down) {
                (0, 0) => "0".to_owned(),
                (up, down) => format!("{} (+{up} −{down})", up + down),
            });
            let before = before.map_or_else(|| "–".to_owned(), |before| format!("{before:.4}"));
            [task.to_owned(), filter.to_owned(), metric.to_owned(), before, format!("{after:.4}"), flipped]
        })
        .collect();
    let mut table = Table::new(["Tasks", "Filter", "Metric", "Before", "After", "Flipped"]);
    for row in &cells {
        table.row(row.each_ref().map(String::as_str));
    }
    let mut text = Vec::new();
    table.write(&mut text)?;
    printer.table(&String::from_utf8_lossy(&text))?;
    Ok(())
}

/// Prints the first changed documents, with their filtered answers before and after.
pub(super) fn print_flips(
    run: &Run,
    found: &ChangesSoFar,
    records: &HashMap<String, Vec<SampleRecord>>,
    printer: &mut Printer,
) -> Result<()> {
    for changed in found.changed.iter().filter(|changed| !changed.first.is_empty()) {
        let Some(file) = stored_samples(run, &changed.task) else { continue };
        let mut stored = BufReader::new(fs::File::open(&file.path)?);
        for flip in &changed.first {
            let line = read_line(&mut stored, flip.offset)?;
            let Ok(fields) = Fields::parse(line.trim_end()) else { continue };
            let is_it = |record: &&SampleRecord| {
                record.doc_id.0 as i64 == flip.document && *record.filter == *changed.filter
            };
            let after = records.get(&changed.task).and_then(|records| records.iter().find(is_it));
            let mut text = format!(
                "\n{} document {}, {} ({}): {} → {}\n",
                changed.task, flip.document, changed.metric, changed.filter, flip.before, flip.after
            );
            for (title, value) in [
                ("target", fields.value("target")),
                ("answer", fields.value("resps")),
                ("filtered before", fields.value("filtered_resps")),
                ("filtered after", after.map(|record| record.filtered_resps.clone())),
            ] {
                if let Some(value) = value {
                    let _ = writeln!(text, "  {title}: {}", abbreviated(&shown(&value)));
                }
            }
            printer.result(&text)?;
        }
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        // One answer of one request is the usual case.
        Value::List(items) if items.len() == 1 => shown(&items[0]),
        other => repr::repr(other),
    }
}

/// One line, with the middle of a long one replaced by the number of characters there.
fn abbreviated(text: &str) -> String {
    let text = escape_controls(text).replace('\n', "\\n");
    let count = text.chars().count();
    if count <= SHOWN {
        return text;
    }
    let start: String = text.chars().take(SHOWN / 3).collect();
    let end: String = text.chars().skip(count - SHOWN / 2).collect();
    format!("{start} … {} characters … {end}", count - SHOWN / 3 - SHOWN / 2)
}

/// The changes for the results file.
pub(super) fn to_value(found: &ChangesSoFar) -> Value {
    Value::list(found.changed.iter().map(|changed| {
        Value::dict([
            ("task", Value::str(changed.task.as_str())),
            ("filter", Value::str(changed.filter.as_str())),
            ("metric", Value::str(changed.metric.as_str())),
            ("up", Value::Int(changed.up as i64)),
            ("down", Value::Int(changed.down as i64)),
        ])
    }))
}
