//! Scores answered documents, on a separate thread.
//!
//! A task whose scoring needs all documents together is scored when the last one is answered. The documents of
//! other tasks are scored in blocks, in order, while the run continues, and only their values are retained.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::HostError;
use lmeval_scoring::results::TaskResult;
use lmeval_scoring::scorers::{AnsweredDocument, ScoreError};
use lmeval_tasks::scoring::{task_result, unscored_result};

use crate::backlog::Backlog;
use crate::cancel::Cancel;
use crate::error::EngineError;
use crate::event::{DocumentCounts, Event, Events};
use crate::options::EvaluateOptions;
use crate::plan::PlannedTask;

/// Work for the scoring thread.
pub(crate) enum Work {
    /// The first answered document of a task. It is also part of a later message.
    First { task: usize, document: Box<AnsweredDocument> },
    /// The next documents of a task that is scored in blocks.
    Next { task: usize, documents: Vec<AnsweredDocument> },
    /// The remaining documents of a task, or all of them.
    Last { task: usize, documents: Vec<AnsweredDocument>, counts: DocumentCounts },
}

/// The first error of a run, which also stops it.
pub(crate) struct FirstError<'a> {
    stop: &'a Cancel,
    error: Mutex<Option<EngineError>>,
}

impl<'a> FirstError<'a> {
    pub(crate) fn new(stop: &'a Cancel) -> Self {
        Self { stop, error: Mutex::new(None) }
    }

    /// Stores the first error and stops the run; requests in flight are still awaited and saved.
    ///
    /// All tasks share the workers, so a Python function that hangs can fail other tasks first. Its own error
    /// replaces theirs.
    pub(crate) fn fail(&self, error: EngineError) {
        self.stop.cancel();
        let mut known = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let is_abandoned = |error: &EngineError| error.host_error().is_some_and(HostError::is_abandoned);
        let stays = known.as_ref().is_some_and(|known| !is_abandoned(known) || is_abandoned(&error));
        if !stays {
            *known = Some(error);
        }
    }

    /// Runs a stage. A panic stops the run like any other error; otherwise earlier stages would block, or keep sending
    /// requests whose answers are never scored.
    pub(crate) fn guard<T>(&self, stage: &str, work: impl FnOnce() -> T) -> Option<T> {
        let done = EngineError::guard(|| stage.to_owned(), || Ok(work()));
        done.map_err(|error| self.fail(error)).ok()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn into_error(self) -> Option<EngineError> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scoring state of a task.
struct TaskState {
    planned: PlannedTask,
    /// The number of documents scored so far.
    scored: usize,
}

/// Scores documents in the order they arrive.
pub(crate) struct Grader<'a> {
    options: &'a EvaluateOptions,
    events: &'a dyn Events,
    first_error: &'a FirstError<'a>,
    backlog: &'a Backlog,
    tasks: Vec<Option<TaskState>>,
    results: Vec<Option<TaskResult>>,
    code_limits: Dict,
}

impl<'a> Grader<'a> {
    pub(crate) fn new(
        planned: Vec<PlannedTask>,
        options: &'a EvaluateOptions,
        events: &'a dyn Events,
        first_error: &'a FirstError<'a>,
        backlog: &'a Backlog,
    ) -> Self {
        let results = planned.iter().map(|_| None).collect();
        let tasks = planned.into_iter().map(|planned| Some(TaskState { planned, scored: 0 })).collect();
        Self { options, events, first_error, backlog, tasks, results, code_limits: Dict::new() }
    }

    /// Scores until all senders are gone. Returns the results, and per task the limits on programs.
    pub(crate) fn run(mut self, todo: &mpsc::Receiver<Work>) -> (Vec<TaskResult>, Dict) {
        for work in todo {
            let counted = if let Work::Next { documents, .. } = &work { documents.len() } else { 0 };
            if !self.first_error.has_failed() {
                let stage = self.stage(&work);
                if let Err(error) = EngineError::guard(|| stage, || self.take(work)) {
                    self.first_error.fail(error);
                }
            }
            self.backlog.leave(counted);
        }
        (self.results.into_iter().flatten().collect(), self.code_limits)
    }

    /// Describes work for the message of a panic.
    fn stage(&self, work: &Work) -> String {
        let (task, documents) = match work {
            Work::First { task, document } => (*task, std::slice::from_ref(&**document)),
            Work::Next { task, documents } | Work::Last { task, documents, .. } => (*task, &documents[..]),
        };
        let key = self.tasks[task].as_ref().map_or("", |state| &state.planned.key);
        match documents {
            [] => format!("Scoring `{key}`"),
            [only] => format!("Scoring document {} of `{key}`", only.doc_id),
            [first, .., last] => {
                format!("Scoring documents {} to {} of `{key}`", first.doc_id, last.doc_id)
            }
        }
    }

    fn take(&mut self, work: Work) -> Result<(), EngineError> {
        match work {
            Work::First { task, document } => {
                let Some(TaskState { planned, .. }) = &mut self.tasks[task] else { return Ok(()) };
                planned.scorer.check_first(&document).map_err(|source| failed(planned, source))
            }
            Work::Next { task, documents } => {
                let Some(TaskState { planned, scored }) = &mut self.tasks[task] else { return Ok(()) };
                *scored += documents.len();
                self.events
                    .answered(&planned.key, &documents, None)
                    .map_err(|source| EngineError::Records { task: planned.key.clone(), source })?;
                planned.scorer.score_next(&documents).map_err(|source| failed(planned, source))
            }
            Work::Last { task, documents, counts } => {
                let Some(state) = self.tasks[task].take() else { return Ok(()) };
                self.finish(task, state, documents, &counts)
            }
        }
    }

    fn finish(
        &mut self,
        index: usize,
        state: TaskState,
        documents: Vec<AnsweredDocument>,
        counts: &DocumentCounts,
    ) -> Result<(), EngineError> {
        let task = Arc::clone(&state.planned.task);
        let key = state.planned.key.clone();
        let python = self.options.data.python.as_ref().filter(|_| task.config.unsafe_code);
        // Programs that ran earlier, for another task or while building prompts, do not belong to this score.
        let _ = python.map(|python| python.take_code_limits());
        let result = self.result(state, documents, counts);
        if let Some(python) = python {
            self.code_limits.insert(key, code_limits(python.take_code_limits()));
        }
        self.results[index] = result?;
        Ok(())
    }

    /// The result of a task, or `None` if no document is fully answered.
    fn result(
        &self,
        TaskState { mut planned, scored }: TaskState,
        mut documents: Vec<AnsweredDocument>,
        counts: &DocumentCounts,
    ) -> Result<Option<TaskResult>, EngineError> {
        let records = |source| EngineError::Records { task: planned.key.clone(), source };
        self.events.answered(&planned.key, &documents, Some(counts.clone())).map_err(records)?;
        self.events.event(Event::Scoring { task: &planned.task });
        let answered = scored + documents.len();
        if answered == 0 {
            return Ok(None);
        }
        if planned.scores_in_blocks() {
            planned.scorer.score_next(&documents).map_err(|source| failed(&planned, source))?;
            documents.clear();
        } else {
            let scored = planned.scorer.score(&documents).map_err(|source| failed(&planned, source));
            // The merge makes the records of such tasks.
            if let Err(error) = scored {
                return self.not_scored(&planned.key, error).map(|()| None);
            }
        }
        let (draws, log) = (self.options.bootstrap_iters, planned.log_samples);
        let result = task_result(
            &planned.key,
            &planned.task,
            &planned.scorer,
            &documents,
            counts.original,
            draws,
            log,
        );
        let mut result = match result.map_err(|source| failed(&planned, source)) {
            Ok(result) => result,
            Err(error) => {
                self.not_scored(&planned.key, error)?;
                let PlannedTask { key, task, scorer, .. } = &planned;
                unscored_result(key, task, scorer, &documents, counts.original, log)
                    .map_err(|source| failed(&planned, source))?
            }
        };
        for (_, audit) in &mut result.audit {
            audit.errored = counts.built - answered;
        }
        self.events.values(&planned.key, planned.scorer.pipelines());
        let handled = self.events.scored(&result);
        handled.map_err(|source| EngineError::Records { task: planned.key.clone(), source })?;
        if !self.options.keep_samples {
            result.samples = None;
        }
        Ok(Some(result))
    }

    /// Reports that a part of a task cannot be scored, which is of no consequence: the whole is scored when the parts are
    /// merged. Without parts, it is the error of the run.
    fn not_scored(&self, task: &str, error: EngineError) -> Result<(), EngineError> {
        if self.options.part.is_none() {
            return Err(error);
        }
        self.events.event(Event::PartNotScored { task, error: &error });
        Ok(())
    }
}

fn failed(planned: &PlannedTask, source: ScoreError) -> EngineError {
    EngineError::Score { task: planned.key.clone(), source: Box::new(source) }
}

/// The entry about sandboxed programs in the results of a task.
fn code_limits((programs, limits): (usize, Dict)) -> Value {
    let mut entry = Dict::new();
    entry.insert("programs", programs as i64);
    if programs == 0 {
        entry.insert("note", "No program was run under limits; if the task runs code, its own functions do");
    } else {
        entry.insert("limits", limits);
    }
    Value::from(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(errors: Vec<HostError>) -> String {
        let stop = Cancel::new();
        let first_error = FirstError::new(&stop);
        for error in errors {
            first_error.fail(EngineError::Function { task: "t".to_owned(), source: Box::new(error) });
        }
        assert!(stop.is_cancelled() && first_error.has_failed());
        let error = first_error.into_error().expect("there were errors");
        std::error::Error::source(&error).expect("a function failed").to_string()
    }

    #[test]
    fn reports_the_function_that_hung() {
        let abandoned = |function: &str| {
            let (function, culprit) = (function.to_owned(), "utils.slow".to_owned());
            HostError::Abandoned { function, culprit, seconds: 1.0 }
        };
        let raised = |function: &str| {
            let (function, message) = (function.to_owned(), "no".to_owned());
            HostError::Failed { function, message, traceback: None, hint: None }
        };
        let first = outcome(vec![abandoned("a.f"), abandoned("b.f"), raised("utils.slow"), raised("c.f")]);
        assert!(first.contains("`utils.slow` failed"), "{first}");
        let first = outcome(vec![raised("utils.slow"), abandoned("a.f")]);
        assert!(first.contains("`utils.slow` failed"), "{first}");
        let only = outcome(vec![abandoned("a.f"), abandoned("b.f")]);
        assert!(only.contains("`a.f`") && only.contains("`utils.slow`"), "{only}");
    }
}
