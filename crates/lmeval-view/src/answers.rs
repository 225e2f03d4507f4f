//! Journals: answers without documents.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;

use lmeval_core::Diagnostic;
use lmeval_pycompat::{Value, json as python_json};
use serde_json::{Value as Json, json};

use crate::samples::Page;
use crate::search::{Needle, Places};
use crate::viewer::{Parameters, Refusal, get};
use crate::wire::{self, MEDIUM};

/// Answers from the end of a journal that can be reached.
const REACH: usize = 20_000;

/// Adds what a journal contains to the description of a run.
pub(crate) fn describe(path: &Path, detail: &mut Json) -> Result<(), Refusal> {
    let listing = lmeval_journal::list(path).map_err(|error| unreadable(path, error))?;
    let answers: usize = listing.models.iter().map(|model| model.answered).sum();
    let failed: usize = listing.models.iter().map(|model| model.failed).sum();
    let models: Vec<String> = listing
        .models
        .iter()
        .map(|model| model.identity.clone().unwrap_or_else(|| model.fingerprint.to_string()))
        .collect();
    let tasks: Vec<Json> = listing
        .models
        .iter()
        .flat_map(|model| &model.tasks)
        .map(|task| {
            let name = task.task.as_deref().unwrap_or("(from an old cache)");
            json!({
                "task": name, "alias": name, "is_group": false, "depth": 0, "main": null,
                "documents": null, "failed": 0, "has_samples": false, "scores": [], "version": null,
                "num_fewshot": null, "audit": [], "config": null,
            })
        })
        .collect();
    detail["journal"] = json!({
        "answers": answers,
        "model": lmeval_core::secrets::mask(&models.join("; ")),
        "bytes": listing.bytes,
    });
    detail["failed_requests"] = Json::from(failed);
    detail["tasks"] = Json::from(tasks);
    Ok(())
}

/// `AnswerPage` of the interface: the newest answers first.
pub(crate) fn page(path: &Path, parameters: &Parameters, page: &Page) -> Result<Json, Refusal> {
    let needle = match get(parameters, "text") {
        Some(text) => {
            let (is_regex, is_case) =
                (get(parameters, "regex") == Some("1"), get(parameters, "case") == Some("1"));
            Some(
                Needle::new(text, is_regex, is_case, Places::default())
                    .map_err(|error| Refusal { status: 400, error })?,
            )
        }
        None => None,
    };
    let capacity = page.offset.saturating_add(page.limit).min(REACH);
    let mut newest =
        Newest { line: Vec::new(), kept: VecDeque::new(), capacity, total: 0, matched: 0, needle };
    lmeval_journal::export(path, &mut newest).map_err(|error| unreadable(path, error))?;
    let rows: Vec<Json> = newest
        .kept
        .iter()
        .rev()
        .skip(page.offset)
        .take(page.limit)
        .filter_map(|(at, line)| row(*at, line))
        .collect();
    Ok(json!({
        "total": newest.total,
        "matched": newest.matched,
        "offset": page.offset,
        "rows": rows,
    }))
}

fn unreadable(path: &Path, error: lmeval_journal::Error) -> Refusal {
    Diagnostic::new(format!("Cannot read the journal `{}`", path.display())).caused_by(error).into()
}

/// Takes exported lines and keeps the last ones.
struct Newest {
    line: Vec<u8>,
    kept: VecDeque<(u64, String)>,
    capacity: usize,
    total: u64,
    matched: u64,
    needle: Option<Needle>,
}

impl Newest {
    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        let index = self.total;
        self.total += 1;
        let is_wanted = self.needle.as_ref().is_none_or(|needle| {
            let answer = python_json::loads(&line).ok().and_then(|line| answer_of(&line));
            answer.is_some_and(|answer| needle.matches(&answer))
        });
        if !is_wanted {
            return;
        }
        self.matched += 1;
        if self.kept.len() >= self.capacity.max(1) {
            self.kept.pop_front();
        }
        self.kept.push_back((index, line));
    }
}

impl Write for Newest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(end) => {
                    self.line.extend_from_slice(end);
                    self.end_line();
                }
                None => self.line.extend_from_slice(part),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn answer_of(line: &Value) -> Option<String> {
    let line = line.as_dict()?;
    line.get_str("response").or_else(|| line.get_str("error")).map(wire::plain)
}

fn row(index: u64, line: &str) -> Option<Json> {
    let value = python_json::loads(line).ok()?;
    let entry = value.as_dict()?;
    let field = |name: &str| entry.get_str(name).map_or(Json::Null, wire::json);
    let answer = entry.get_str("response").map(|answer| wire::text(&wire::plain(answer), MEDIUM));
    Some(json!({
        "index": index,
        "task": field("task"),
        "doc_id": field("doc_id"),
        "request": field("idx"),
        "repeat": field("repeat"),
        "kind": field("type"),
        "answer": answer,
        "truncated": entry.get_str("truncated").and_then(Value::as_bool).unwrap_or(false),
        "error": entry.get_str("error").map(|error| wire::text(&wire::plain(error), MEDIUM)["text"].clone()),
    }))
}
