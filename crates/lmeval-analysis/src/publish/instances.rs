//! The documents of a run as JSON lines of Every Eval Ever: one line per document and score.

use lmeval_pycompat::{Dict, Value};
use sha2::{Digest as _, Sha256};

use super::eee::{VERSION, result_id};
use super::output::{Output, Part, hex, json_text};
use super::parts::Document;
use super::record::Record;
use crate::Error;
use crate::read::number;
use crate::samples::{Sample, SampleReader};
use crate::summary::TaskSummary;

/// A file of documents.
pub(super) struct Written {
    /// Its SHA-256.
    pub checksum: String,
    /// Its lines.
    pub rows: i64,
}

/// Writes the documents of all tasks; `None` if the run has none.
pub(super) fn write(
    record: &Record,
    evaluation: &str,
    name: &str,
    output: &mut Output,
) -> Result<Option<Written>, Error> {
    let (mut part, mut rows) = (output.create(name)?, 0);
    for task in &record.summary.tasks {
        let Some(file) = record.run.samples_of(&task.name) else { continue };
        let mut reader = SampleReader::open(&record.run, file, None)?;
        while let Some(sample) = reader.read_next()? {
            rows += write_document(record, evaluation, task, &sample, &mut part)?;
        }
        let change = reader.checksum().and_then(|found| record.run.samples_change(file, found));
        output.notes.extend(change);
        output.notes.extend(reader.incomplete().map(ToString::to_string));
    }
    if rows == 0 {
        output.notes.push("The run has no documents: `--log_samples` writes them".to_owned());
        return Ok(None);
    }
    Ok(Some(Written { checksum: part.finish(output)?, rows }))
}

fn write_document(
    record: &Record,
    evaluation: &str,
    task: &TaskSummary,
    sample: &Sample<'_>,
    part: &mut Part,
) -> Result<i64, Error> {
    let (mut document, mut rows) = (None, 0);
    let filter = sample.filter();
    for score in task.scores.iter().filter(|score| score.filter == filter) {
        // A score of less is better says nothing about right and wrong.
        let value = sample.fields().raw(&score.metric).and_then(number).filter(|value| value.is_finite());
        let Some(value) = value.filter(|_| score.higher_is_better != Some(false)) else { continue };
        if document.is_none() {
            document = Some(Document::new(sample)?);
        }
        let Some(document) = &document else { continue };
        let line = line(record, evaluation, &task.name, (&score.metric, &filter, value), document);
        part.text(&(json_text(&line, None)? + "\n"))?;
        rows += 1;
    }
    Ok(rows)
}

fn line(
    record: &Record,
    evaluation: &str,
    task: &str,
    (metric, filter, value): (&str, &str, f64),
    document: &Document,
) -> Value {
    let strings = |items: &[String]| Value::list(items.iter().map(|item| Value::str(item.as_str())));
    let raw = document.prompt_text();
    let hash = Sha256::new_with_prefix(&raw).chain_update(document.targets.concat()).finalize();
    let mut input = Dict::new();
    input.insert("raw", raw);
    input.insert("reference", strings(&document.targets));
    if !document.options.is_empty() {
        input.insert("choices", strings(&document.options));
    }
    let mut answer = Dict::new();
    answer.insert("raw", strings(&document.answers));
    if !document.reasoning.is_empty() {
        answer.insert("reasoning_trace", strings(&document.reasoning));
    }
    let attribution = document.filtered.as_deref().map(|filtered| {
        Value::dict([
            ("turn_idx", Value::Int(0)),
            ("source", Value::str("output.raw")),
            ("extracted_value", Value::str(filtered)),
            ("extraction_method", Value::str(filter)),
            ("is_terminal", Value::Bool(true)),
        ])
    });
    Value::dict([
        ("schema_version", Value::str(VERSION)),
        ("evaluation_id", Value::str(evaluation)),
        ("model_id", Value::str(record.model())),
        ("evaluation_name", Value::str(task)),
        ("evaluation_result_id", Value::str(result_id(task, metric, filter))),
        ("sample_id", Value::str(document.id.as_str())),
        ("sample_hash", Value::str(hex(&hash))),
        ("interaction_type", Value::str("single_turn")),
        ("input", Value::from(input)),
        ("output", Value::from(answer)),
        ("answer_attribution", Value::list(attribution)),
        (
            "evaluation",
            Value::dict([("score", Value::Float(value)), ("is_correct", Value::Bool(value >= 1.0))]),
        ),
    ])
}
