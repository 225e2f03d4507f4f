//! Handles the engine's events: counts, notes and sample records.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lmeval_claims::receipt::AnswerDigests;
use lmeval_core::{Diagnostic, Dialect, Finish, Level, RequestType};
use lmeval_engine::{DocumentCounts, Evaluated, Event, Events};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::{Layout, SampleOptions, SamplesWriter, WrittenSamples};
use lmeval_scoring::results::TaskResult;
use lmeval_scoring::scorers::{AnsweredDocument, ScoringPipeline};

use crate::printer::Notes;
use crate::progress::{RequestCounts, describe_first};
use crate::report;
use crate::run::live::LiveView;
use crate::run::lock::LockRecorder;
use crate::run::shard::ShardWriter;
use crate::words::{counted, for_count, skip_reason};

/// Where sample records are written.
pub(crate) struct Records {
    pub layout: Layout,
    /// The time stamp in file names.
    pub stamp: String,
    pub options: SampleOptions,
}

/// The event handler of a run.
pub(crate) struct RunEvents {
    counts: Arc<RequestCounts>,
    notes: Notes,
    /// Whether events are printed as JSON.
    pub(crate) json: bool,
    /// Prints the first prompts by the rules of this dialect.
    pub(crate) write_out: Option<Dialect>,
    /// The page that follows the run.
    pub(crate) live: Option<LiveView>,
    /// The files of the shard, with its answered documents.
    pub(crate) shard: Option<ShardWriter>,
    /// Collects what the lock of the run needs.
    pub(crate) lock: Option<Arc<LockRecorder>>,
    /// Collects the answers for the receipt of the run.
    pub(crate) answers: Option<Arc<AnswerDigests>>,
    records: Option<Records>,
    observer: Option<Arc<dyn Events>>,
    written: Mutex<Vec<(String, WrittenSamples)>>,
    saved_before: AtomicUsize,
    skipped: AtomicUsize,
    /// Whether the run has started over with another model; notes about tasks are not repeated.
    is_restarted: AtomicBool,
    /// The first generations of each task: how many there were, and how many were cut off.
    first: Mutex<HashMap<Arc<str>, (usize, usize)>>,
    /// Whether a token limit that is too low is reported early.
    pub(crate) warns_of_limits: bool,
}

/// The number of generations after which a task's token limit is judged.
const FIRST: usize = 20;
/// With as many of them cut off, it is too low.
const TOO_MANY_CUT: usize = 3;

/// The number of skipped documents that are listed.
const SHOWN_SKIPPED: usize = 10;

impl RunEvents {
    /// A handler that writes records, and passes values on to the observer.
    pub(crate) fn new(
        counts: Arc<RequestCounts>,
        notes: Notes,
        records: Option<Records>,
        observer: Option<Arc<dyn Events>>,
    ) -> Self {
        Self {
            counts,
            notes,
            json: false,
            write_out: None,
            live: None,
            shard: None,
            lock: None,
            answers: None,
            records,
            observer,
            written: Mutex::default(),
            saved_before: AtomicUsize::new(0),
            skipped: AtomicUsize::new(0),
            is_restarted: AtomicBool::new(false),
            first: Mutex::default(),
            warns_of_limits: false,
        }
    }

    /// Warns early of a token limit that cuts answers off, before hours are spent on them.
    fn judge_limit(&self, task: &Arc<str>, finish: Finish) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, cut) = first.entry(Arc::clone(task)).or_default();
        if *count >= FIRST {
            return;
        }
        (*count, *cut) = (*count + 1, *cut + usize::from(finish == Finish::CutOff));
        if *count == FIRST && *cut >= TOO_MANY_CUT && !self.is_restarted() {
            self.notes.warn(&format!(
                "{cut} of the first {FIRST} answers to `{task}` were cut off at the token limit; set a higher one with \
                 `--gen_kwargs max_gen_toks=…`"
            ));
        }
    }

    /// The number of answers in the journal when it was opened.
    pub(crate) fn saved_before(&self) -> usize {
        self.saved_before.load(Ordering::Relaxed)
    }

    /// The hash of each task's sample records, in task order rather than in order of completion.
    pub(crate) fn task_hashes(&self, evaluation: &Evaluated) -> Dict {
        let written = self.written(evaluation).into_iter();
        written.map(|(task, file)| (Value::from(task), Value::from(file.hash))).collect()
    }

    /// The checksum of each task's samples file, in task order.
    pub(crate) fn checksums(&self, evaluation: &Evaluated) -> Dict {
        let written = self.written(evaluation).into_iter();
        written.map(|(task, file)| (Value::from(task), file.checksum.to_value())).collect()
    }

    /// The samples file of each task, in task order.
    pub(crate) fn sample_files(&self, evaluation: &Evaluated) -> Vec<(String, PathBuf)> {
        self.written(evaluation).into_iter().map(|(task, file)| (task, file.path)).collect()
    }

    /// The samples files written so far, in task order.
    fn written(&self, evaluation: &Evaluated) -> Vec<(String, WrittenSamples)> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let of_task = |key: &String| written.iter().find(|(task, _)| task == key);
        evaluation.tasks.iter().filter_map(|(key, _)| of_task(key).cloned()).collect()
    }

    /// Notes that the records of a task were written.
    pub(crate) fn add_records(&self, task: &str, written: WrittenSamples) {
        self.notes.wrote("samples", Some(task), &written.path);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push((task.to_owned(), written));
    }

    /// Reports at the start which saved answers can be reused, and where they are from.
    fn report_reuse(&self, answers: usize, from: &str, is_assumed: bool) {
        if answers > 0 {
            let them = counted(answers, "answer");
            let from = if from.is_empty() { String::new() } else { format!(", {from}") };
            let contact =
                if is_assumed { ". The server is contacted only if an answer is missing" } else { "" };
            self.notes.info(&format!(
                "The journal has {them} of this model{from}, which will be reused; `--fresh` starts over{contact}"
            ));
        }
    }

    /// Reports answers that cannot be reused.
    fn report_other_answers(&self, answers: usize, of_unknown_server: usize, of_others: usize) {
        if of_unknown_server > 0 {
            let them = counted(of_unknown_server, "answer");
            self.notes.warn(&format!("The journal has {them} of a model with this name, saved by an older version without the server's \
                 address. They may be from another model and are not used"
            ));
        }
        if answers == 0 && of_others > 0 {
            let them = counted(of_others, "answer");
            self.notes.info(&format!(
                "The journal has {them} of other models or servers but none of this one; `lm-eval journal ls` lists them"
            ));
        }
    }

    /// Discards everything that was counted and written from answers of another model.
    fn start_over(&self, level: Level, reason: &str) {
        self.is_restarted.store(true, Ordering::Relaxed);
        self.discard_records();
        if let Some(shard) = &self.shard {
            shard.start_over();
        }
        if let Some(answers) = &self.answers {
            answers.clear();
        }
        self.counts.reset();
        self.saved_before.store(0, Ordering::Relaxed);
        self.skipped.store(0, Ordering::Relaxed);
        self.notes.line(level, reason);
        if self.json {
            self.notes.object("restarted", &Dict::new());
        }
    }

    /// Deletes the sample records written so far.
    pub(crate) fn discard_records(&self) {
        for (_, file) in self.written.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The file may already be gone.
            let _ = fs_err::remove_file(file.path);
        }
    }

    fn is_restarted(&self) -> bool {
        self.is_restarted.load(Ordering::Relaxed)
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
        if let Some(lock) = &self.lock {
            lock.event(&event);
        }
        if let Some(live) = &self.live
            && !matches!(event, Event::Answered { .. } | Event::Built { .. } | Event::DocumentBuilt { .. })
        {
            live.event(&event);
        }
        match event {
            Event::ModelAssumed { serves } => self.notes.warn(&format!("The server does not report which model it runs (`/v1/models`); assuming `{serves}`, as before: saved \
                 answers of that model at this address are reused"
            )),
            Event::JournalOpened { answers, repaired_bytes, damage, is_exclusive } => {
                if !is_exclusive && !self.is_restarted() {
                    self.notes.warn("The file system of the journal has no locks; make sure that no other process, on any \
                         machine, writes to the same journal",
                    );
                }
                if let Some(first) = damage.first().filter(|_| !self.is_restarted()) {
                    let bytes: u64 = damage.iter().map(|part| part.bytes).sum();
                    let parts = if damage.len() == 1 { "part" } else { "parts" };
                    let diagnostic = Diagnostic::new(format!(
                        "The journal is damaged: {} {parts}, {bytes} bytes, the first at offset {}; the affected requests \
                         are sent again",
                        damage.len(),
                        first.offset
                    ));
                    let diagnostic = diagnostic.hint(
                        "`lm-eval journal verify` lists every damaged part, and `lm-eval journal compact` removes them",
                    );
                    self.notes.rendered(Level::Warning, &report::render(Level::Warning, &diagnostic));
                }
                self.saved_before.fetch_add(answers, Ordering::Relaxed);
                if let Some(bytes) = repaired_bytes {
                    self.notes.info(&format!(
                        "The journal ended in an incomplete record; {} cut off",
                        if bytes == 1 { "1 byte was".to_owned() } else { format!("{bytes} bytes were") }
                    ));
                }
            }
            Event::Reusing { answers, from, is_assumed, of_unknown_server, of_others } => {
                self.report_reuse(answers, from, is_assumed);
                self.report_other_answers(answers, of_unknown_server, of_others);
            }
            Event::OtherModel(identity) => self.start_over(Level::Warning, &format!(
                "The server runs another model than when the saved answers were given; they are not used, and the \
                 run starts over. Now: {identity}"
            )),
            Event::OtherProtocol { protocol } => self.start_over(Level::Info, &format!(
                "Saved log-likelihoods of another scoring protocol were used so far; the run starts over with `{}`",
                protocol.unwrap_or("echo")
            )),
            Event::Attributed { model, description } => {
                if let Some(shard) = &self.shard {
                    shard.set_model(model.to_string(), description.to_owned());
                }
            }
            Event::CacheImported { answers, skipped } => {
                self.saved_before.fetch_add(answers, Ordering::Relaxed);
                let skipped = match skipped {
                    0 => String::new(),
                    1 => ", skipped 1 entry that is not an answer".to_owned(),
                    several => format!(", skipped {several} entries that are not answers"),
                };
                self.notes.info(&format!(
                    "{} {} imported from the old response cache{skipped}",
                    counted(answers, "answer"),
                    for_count(answers, "was", "were")
                ));
            }
            Event::PartNotScored { task, error } => {
                let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
                let reason = causes.last().map(ToString::to_string).unwrap_or_default();
                self.notes.warn(&format!("This part of `{task}` has no scores of its own: {reason}. Its answers are stored, and \
                     `lm-eval merge` scores the whole"
                ));
            }
            Event::DataChanged { task } => {
                let diagnostic = Diagnostic::new(format!(
                    "The data of `{}` has changed since the answers in the journal were saved: other documents or \
                     few-shot examples",
                    task.name()
                ));
                let diagnostic = diagnostic.hint(if self.shard.is_some() {
                    "The scores are computed from the data as it is now; run the other shards again, too"
                } else {
                    "The scores are computed from the data as it is now; do not compare them with earlier ones"
                });
                self.notes.rendered(Level::Warning, &report::render(Level::Warning, &diagnostic));
            }
            Event::MissingColumn { .. }
            | Event::FirstDocument { .. }
            | Event::OtherScoring { .. }
            | Event::Choices { .. }
                if self.is_restarted() => {}
            Event::Choices { task, description } => self.notes.info(&format!("{task}: {description}")),
            Event::OtherScoring { protocol, other } => {
                let [now, before] = [protocol, other].map(|name| name.unwrap_or("echo"));
                self.notes.info(&format!(
                    "Log-likelihoods are scored with `{now}`; any that the journal has from `{before}` are not \
                     reused. The model argument `scoring` sets the protocol"
                ));
            }
            Event::MissingColumn { task, missing } => {
                self.notes.rendered(Level::Warning, &report::render(Level::Warning, &missing.diagnostic(task)));
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
                        self.notes.warn("more documents were skipped; they are not listed here");
                    }
                    return;
                }
                let reason = requests.skipped.map_or("it has no requests", skip_reason);
                self.notes.warn(&format!("document {} of `{}` is skipped: {reason}",
                    requests.doc_id,
                    task.name()
                ));
            }
            Event::Built { kind, count } => self.counts.built(kind, count),
            Event::AllBuilt => self.counts.all_built(),
            Event::Answered { task, kind, reused, usage, finish, is_judge } => {
                self.counts.working_on(task);
                self.counts.answered(kind, reused, usage);
                if kind == RequestType::GenerateUntil && !is_judge && self.warns_of_limits {
                    self.judge_limit(task, finish);
                }
            }
            Event::Failed { request, .. } => self.counts.failed(request.request_type()),
            Event::Scoring { task } => self.task_event("scoring", task.name(), None),
            _ => {}
        }
    }

    fn answered(
        &self,
        task: &str,
        documents: &[AnsweredDocument],
        last: Option<DocumentCounts>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if let Some(answers) = &self.answers {
            answers.add(task, documents);
        }
        self.shard.as_ref().map_or(Ok(()), |shard| shard.write(task, documents, last))
    }

    fn values(&self, task: &str, pipelines: &[ScoringPipeline]) {
        if let Some(observer) = &self.observer {
            observer.values(task, pipelines);
        }
    }

    fn scored(&self, result: &TaskResult) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (Some(records), Some(samples)) = (&self.records, &result.samples) else { return Ok(()) };
        let task = &result.entry.name;
        let mut writer = SamplesWriter::new(&records.layout, task, records.options)?;
        for sample in samples {
            writer.write(sample)?;
        }
        self.add_records(task, writer.finish(&records.stamp)?);
        Ok(())
    }
}
