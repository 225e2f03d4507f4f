//! Exports the answers of a journal as JSON Lines.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use lmeval_core::{Answer, Finish, Usage};
use lmeval_pycompat::json::{self, Options};
use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::key::Fingerprint;
use crate::record::{Outcome, Record, State, StoredEntry};
use crate::scan::scan;
use crate::survey::{open_for_reading, records, survey};

/// The counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Lines with an answer.
    pub answers: usize,
    /// Lines with an error.
    pub failures: usize,
}

/// Writes one line of JSON per request, in file order: its last answer, or its last error if it has no answer.
///
/// Reads only and takes no lock, so it is safe during a run. `output` gets many small writes.
pub fn export(path: &Path, output: &mut dyn Write) -> Result<Exported, Error> {
    let mut exported = Exported::default();
    let Some(file) = open_for_reading(path)? else { return Ok(exported) };
    let survey = survey(&file, path)?;
    // A model registered again after damage also identifies the answers before it.
    let mut models: FxHashMap<Fingerprint, String> = FxHashMap::default();
    let read = |source| Error::io("read", path, source);
    let collected = scan(records(&file, path)?, |_, bytes| {
        if let Some(Record::Model(model)) = Record::decode(bytes) {
            models.entry(model.fingerprint()).or_insert_with(|| model.to_string());
        }
    });
    collected.map_err(read)?;
    let mut written = Ok(());
    let scanned = scan(records(&file, path)?, |offset, bytes| {
        if written.is_ok()
            && let Some(Record::Entry(entry)) = Record::decode(bytes)
            && survey.index.is_live(&entry.key, offset)
        {
            let model = models.get(&entry.key.model).cloned();
            let count = match entry.state() {
                State::Answered => &mut exported.answers,
                State::Failed => &mut exported.failures,
                // A part of an answer is not for those who read answers.
                State::Begun => return,
            };
            *count += 1;
            written = write_line(output, entry, model);
        }
    });
    scanned.map_err(read)?;
    written.and_then(|()| output.flush()).map_err(|source| Error::io("export", path, source))?;
    Ok(exported)
}

fn write_line(output: &mut dyn Write, entry: StoredEntry, model: Option<String>) -> io::Result<()> {
    let mut line = Dict::new();
    line.insert("key", entry.key.to_string());
    line.insert("model", model.unwrap_or_else(|| entry.key.model.to_string()));
    let number = |number: usize| Value::Int(number as i64);
    match entry.origin {
        Some(origin) => {
            line.insert("task", Value::Str(origin.task));
            line.insert("doc_id", number(origin.doc_id));
            line.insert("idx", number(origin.idx));
            line.insert("repeat", number(origin.repeat));
            line.insert("type", origin.kind.name());
        }
        None => {
            for key in ["task", "doc_id", "idx"] {
                line.insert(key, Value::None);
            }
            line.insert("repeat", Value::Int(0));
            line.insert("type", Value::None);
        }
    }
    match entry.outcome {
        Outcome::Answered(answer) => {
            let Answer { response, finish, usage, .. } = &answer;
            let Usage { prompt_tokens, completion_tokens } = *usage;
            let mut tokens = Dict::new();
            tokens.insert("prompt_tokens", Value::Int(prompt_tokens as i64));
            tokens.insert("completion_tokens", Value::Int(completion_tokens as i64));
            line.insert("response", response.to_value());
            line.insert("truncated", *finish == Finish::CutOff);
            if *finish == Finish::Refused {
                line.insert("refused", true);
            }
            line.insert("usage", Value::from(tokens));
            if let Some(reasoning) = answer.reasoning() {
                line.insert("reasoning", Value::Str(Arc::clone(reasoning)));
            }
        }
        Outcome::Begun(_) => {}
        Outcome::Failed { message } => {
            line.insert("error", message);
        }
    }
    let options = Options { ensure_ascii: false, ..Options::default() };
    let mut text = json::dumps(&Value::from(line), &options).map_err(io::Error::other)?;
    text.push('\n');
    output.write_all(text.as_bytes())
}
