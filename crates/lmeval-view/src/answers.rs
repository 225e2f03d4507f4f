//! Journals: answers without documents.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;

use lmeval_core::{Diagnostic, secrets};
use lmeval_pycompat::{Value, json as python_json};
use serde_json::{Number, Value as Json};

use crate::api::{AnswerPage, JournalHeader, RunDetail, StoredAnswer, TaskDetail, TaskSummary, Text};
use crate::samples::Page;
use crate::search::{Needle, Places};
use crate::viewer::{Parameters, Refusal, get};
use crate::wire::{self, MEDIUM};

/// Answers from the end of a journal that can be reached.
const REACH: usize = 20_000;

/// Adds what a journal contains to the description of a run.
pub(crate) fn describe(path: &Path, detail: &mut RunDetail) -> Result<(), Refusal> {
    let listing = lmeval_journal::list(path).map_err(|error| unreadable(path, error))?;
    let failed: usize = listing.models.iter().map(|model| model.failed).sum();
    let models: Vec<String> = listing
        .models
        .iter()
        .map(|model| model.identity.clone().unwrap_or_else(|| model.fingerprint.to_string()))
        .collect();
    let task = |name: &str| TaskDetail {
        summary: TaskSummary {
            task: name.to_owned(),
            alias: name.to_owned(),
            is_group: false,
            depth: 0,
            main: None,
            documents: None,
            failed: Number::from(0),
            has_samples: false,
        },
        scores: Vec::new(),
        version: Json::Null,
        num_fewshot: Json::Null,
        audit: Vec::new(),
        config: Json::Null,
    };
    detail.journal = Some(JournalHeader {
        answers: listing.models.iter().map(|model| model.answered).sum(),
        model: secrets::mask(&models.join("; ")).into_owned(),
        bytes: listing.bytes,
    });
    detail.head.failed_requests = Number::from(failed);
    let tasks = listing.models.iter().flat_map(|model| &model.tasks);
    detail.tasks = tasks.map(|found| task(found.task.as_deref().unwrap_or("(from an old cache)"))).collect();
    Ok(())
}

/// The newest answers of a journal first.
pub(crate) fn page(path: &Path, parameters: &Parameters, page: &Page) -> Result<AnswerPage, Refusal> {
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
    let rows = newest
        .kept
        .iter()
        .rev()
        .skip(page.offset)
        .take(page.limit)
        .filter_map(|(at, line)| row(*at, line))
        .collect();
    Ok(AnswerPage { total: newest.total, matched: newest.matched, offset: page.offset, rows })
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

fn row(index: u64, line: &str) -> Option<StoredAnswer> {
    let value = python_json::loads(line).ok()?;
    let entry = value.as_dict()?;
    let text = |name: &str| Some(secrets::mask_data(entry.get_str(name)?.as_str()?).into_owned());
    let number = |name: &str| entry.get_str(name).and_then(Value::as_i64);
    let shown = |name: &str| entry.get_str(name).map(|answer| Text::start_of(&wire::plain(answer), MEDIUM));
    Some(StoredAnswer {
        index,
        task: text("task"),
        doc_id: number("doc_id"),
        request: number("idx"),
        repeat: number("repeat").unwrap_or(0),
        kind: text("type"),
        answer: shown("response"),
        truncated: entry.get_str("truncated").and_then(Value::as_bool).unwrap_or(false),
        error: shown("error").map(|error| error.text),
    })
}
