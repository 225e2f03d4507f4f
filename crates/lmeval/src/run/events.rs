//! What the command does while the engine works: counts, notes, records.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lmeval_core::results::TaskResult;
use lmeval_core::{Diagnostic, Dialect};
use lmeval_engine::{Evaluated, Event, Events};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::{Layout, SampleOptions, SamplesWriter};
use lmeval_tasks::prompt::Skipped;

use crate::printer::Notes;
use crate::progress::{Board, describe_first};
use crate::report;
use crate::words::{counted, for_count};

/// Where the records of documents go.
pub(crate) struct Records {
    /// The folder.
    pub layout: Layout,
    /// The time stamp of the files.
    pub stamp: String,
    /// How they are written.
    pub options: SampleOptions,
}

/// Hears what happens in a run.
pub(crate) struct RunEvents {
    board: Arc<Board>,
    notes: Notes,
    json: bool,
    write_out: Option<Dialect>,
    records: Option<Records>,
    written: Mutex<Vec<(String, PathBuf, String)>>,
    kept_before: AtomicUsize,
    skipped: AtomicUsize,
}

/// How many documents that are left out are named.
const SHOWN_SKIPPED: usize = 10;

impl RunEvents {
    /// Hears for a run; `write_out` shows first prompts, with the rules of the dialect.
    pub(crate) fn new(
        board: Arc<Board>,
        notes: Notes,
        json: bool,
        write_out: Option<Dialect>,
        records: Option<Records>,
    ) -> Self {
        let written = Mutex::default();
        Self {
            board,
            notes,
            json,
            write_out,
            records,
            written,
            kept_before: AtomicUsize::new(0),
            skipped: AtomicUsize::new(0),
        }
    }

    /// Answers that were in the journal when it was opened.
    pub(crate) fn kept_before(&self) -> usize {
        self.kept_before.load(Ordering::Relaxed)
    }

    /// The hash of the records of each task, in the order of the tasks rather than of their ends.
    pub(crate) fn task_hashes(&self, evaluation: &Evaluated) -> Dict {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let of_task = |key: &String| written.iter().find(|(task, ..)| task == key);
        let in_order = evaluation.tasks.iter().filter_map(|(key, _)| of_task(key));
        in_order.map(|(task, _, hash)| (Value::str(task.as_str()), Value::str(hash.as_str()))).collect()
    }

    /// Says at the start what is not asked for again, and what cannot be used.
    fn tell_reuse(&self, answers: usize, of_unknown_server: usize, of_others: usize) {
        if answers > 0 {
            let them = counted(answers, "answer");
            self.notes.info(&format!(
                "The journal has {them} of this model, which will not be asked for again; `--fresh` starts over"
            ));
        }
        if of_unknown_server > 0 {
            let them = counted(of_unknown_server, "answer");
            self.notes.note(&format!(
                "warning: The journal has {them} of a model of this name, kept by an older version that did not note the \
                 address of the server. They may be of another model and are not used"
            ));
        }
        if answers == 0 && of_others > 0 {
            let them = counted(of_others, "answer");
            self.notes.info(&format!(
                "The journal has {them} of other models or servers and none of this one; `lm-eval journal ls` lists them"
            ));
        }
    }

    fn task_event(&self, event: &str, task: &str, documents: Option<usize>) {
        if self.json {
            let mut facts = Dict::new();
            facts.insert("task", task);
            if let Some(documents) = documents {
                facts.insert("documents", documents as i64);
            }
            self.notes.object(event, &facts);
        }
    }
}

impl Events for RunEvents {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::ModelAssumed { serves } => self.notes.note(&format!(
                "warning: The server does not say which model it runs (`/v1/models`); it is taken to be `{serves}`, as \
                 before: answers of that model at this address are used again"
            )),
            Event::JournalOpened { answers, repaired_bytes, damage } => {
                if let Some(first) = damage.first() {
                    let bytes: u64 = damage.iter().map(|part| part.bytes).sum();
                    let parts = if damage.len() == 1 { "part" } else { "parts" };
                    let told = Diagnostic::new(format!(
                        "The journal is damaged: {} {parts}, {bytes} bytes, the first at offset {}; requests whose \
                         answers were there are sent again",
                        damage.len(),
                        first.offset
                    ));
                    let told = told.hint(
                        "`lm-eval journal verify` names every damaged part, and `lm-eval journal compact` takes them out",
                    );
                    self.notes.styled(&report::render(report::Severity::Warning, &told));
                }
                self.kept_before.fetch_add(answers, Ordering::Relaxed);
                if let Some(bytes) = repaired_bytes {
                    self.notes.info(&format!(
                        "The journal ended in an unfinished record; {} cut off",
                        if bytes == 1 { "1 byte was".to_owned() } else { format!("{bytes} bytes were") }
                    ));
                }
            }
            Event::Reusing { answers, of_unknown_server, of_others } => {
                self.tell_reuse(answers, of_unknown_server, of_others);
            }
            Event::CacheImported { answers, skipped } => {
                self.kept_before.fetch_add(answers, Ordering::Relaxed);
                let skipped = match skipped {
                    0 => String::new(),
                    1 => ", 1 entry is no answer".to_owned(),
                    several => format!(", {several} entries are no answers"),
                };
                self.notes.info(&format!(
                    "{} {} taken over from the old response cache{skipped}",
                    counted(answers, "answer"),
                    for_count(answers, "was", "were")
                ));
            }
            Event::MissingColumn { task, missing } => {
                self.notes.styled(&report::render(report::Severity::Warning, &missing.diagnostic(task)));
            }
            Event::Prepared { task, documents } => self.task_event("prepared", task.name(), Some(documents)),
            Event::FirstDocument { task, requests } => {
                if let Some(dialect) = &self.write_out
                    && let Some(text) = describe_first(task, requests, dialect)
                {
                    self.notes.note(&text);
                }
            }
            Event::Skipped { task, requests } => {
                let before = self.skipped.fetch_add(1, Ordering::Relaxed);
                if before >= SHOWN_SKIPPED {
                    if before == SHOWN_SKIPPED {
                        self.notes.note("warning: more documents are left out; they are not named here");
                    }
                    return;
                }
                let reason = match requests.skipped {
                    Some(Skipped::NoOptions) => "it has no options",
                    Some(Skipped::NoTarget) => "it has no target",
                    _ => "options cannot follow a conversation",
                };
                self.notes.note(&format!(
                    "warning: document {} of `{}` is left out, because {reason}",
                    requests.doc_id,
                    task.name()
                ));
            }
            Event::Built { kind, count } => self.board.built(kind, count),
            Event::AllBuilt => self.board.all_built(),
            Event::Answered { kind, reused, usage } => self.board.answered(kind, reused, usage),
            Event::Failed { request, .. } => self.board.failed(request.request_type()),
            Event::Scoring { task } => self.task_event("scoring", task.name(), None),
            _ => {}
        }
    }

    fn scored(&self, result: &TaskResult) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (Some(records), Some(samples)) = (&self.records, &result.samples) else { return Ok(()) };
        let task = &result.entry.name;
        let mut writer = SamplesWriter::new(&records.layout, task, records.options)?;
        for sample in samples {
            writer.write(sample)?;
        }
        let (path, hash) = writer.finish(&records.stamp)?;
        self.notes.wrote("samples", Some(task), &path);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push((task.clone(), path, hash));
        Ok(())
    }
}
