//! From answered documents to results, beside the thread that collects answers.
//!
//! A task whose scoring needs its documents together is scored when the last of them is answered. Of all others the
//! documents are scored in blocks, in their order, while the run goes on, and only their values are kept.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use lmeval_core::HostError;
use lmeval_core::results::TaskResult;
use lmeval_core::scorers::{AnsweredDocument, ScoreError};
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::scoring::task_result;

use crate::backlog::Backlog;
use crate::cancel::Cancel;
use crate::error::EngineError;
use crate::event::{Event, Events};
use crate::options::EvaluateOptions;
use crate::plan::PlannedTask;

/// Something to be scored.
pub(crate) enum Work {
    /// The document of a task that was answered first. It is part of a later message, too.
    First { task: usize, document: Box<AnsweredDocument> },
    /// The next documents of a task whose documents are not needed together.
    Next { task: usize, documents: Vec<AnsweredDocument> },
    /// The other documents of a task, or all of them. It has `built` documents in all, its split has `original`.
    Last { task: usize, documents: Vec<AnsweredDocument>, built: usize, original: usize },
}

/// How a run ends, for all who can end it.
pub(crate) struct Ending<'a> {
    stop: &'a Cancel,
    error: Mutex<Option<EngineError>>,
}

impl<'a> Ending<'a> {
    pub(crate) fn new(stop: &'a Cancel) -> Self {
        Self { stop, error: Mutex::new(None) }
    }

    /// Keeps the first error and ends the run; requests in flight are still waited for and kept.
    ///
    /// All tasks share the workers, so a function of one task that gives no answer can fail others first. Their errors
    /// give way to its own.
    pub(crate) fn fail(&self, error: EngineError) {
        self.stop.cancel();
        let mut known = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let is_abandoned = |error: &EngineError| error.host_error().is_some_and(HostError::is_abandoned);
        let stays = known.as_ref().is_some_and(|known| !is_abandoned(known) || is_abandoned(&error));
        if !stays {
            *known = Some(error);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn into_error(self) -> Option<EngineError> {
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task on its way to being scored.
struct Unscored {
    planned: PlannedTask,
    /// Documents whose values the scorer has.
    scored: usize,
}

/// Scores what it is given, in that order.
pub(crate) struct Grader<'a> {
    options: &'a EvaluateOptions,
    events: &'a dyn Events,
    ending: &'a Ending<'a>,
    backlog: &'a Backlog,
    tasks: Vec<Option<Unscored>>,
    results: Vec<Option<TaskResult>>,
    code_limits: Dict,
}

impl<'a> Grader<'a> {
    pub(crate) fn new(
        planned: Vec<PlannedTask>,
        options: &'a EvaluateOptions,
        events: &'a dyn Events,
        ending: &'a Ending<'a>,
        backlog: &'a Backlog,
    ) -> Self {
        let results = planned.iter().map(|_| None).collect();
        let tasks = planned.into_iter().map(|planned| Some(Unscored { planned, scored: 0 })).collect();
        Self { options, events, ending, backlog, tasks, results, code_limits: Dict::new() }
    }

    /// Works until nobody has anything more to be scored. Returns the results, and the limits of programs by task.
    pub(crate) fn run(mut self, todo: &mpsc::Receiver<Work>) -> (Vec<TaskResult>, Dict) {
        for work in todo {
            let counted = if let Work::Next { documents, .. } = &work { documents.len() } else { 0 };
            if !self.ending.has_failed()
                && let Err(error) = self.take(work)
            {
                self.ending.fail(error);
            }
            self.backlog.leave(counted);
        }
        (self.results.into_iter().flatten().collect(), self.code_limits)
    }

    fn take(&mut self, work: Work) -> Result<(), EngineError> {
        match work {
            Work::First { task, document } => {
                let Some(Unscored { planned, .. }) = &mut self.tasks[task] else { return Ok(()) };
                planned.scorer.check_first(&document).map_err(|source| failed(planned, source))
            }
            Work::Next { task, documents } => {
                let Some(Unscored { planned, scored }) = &mut self.tasks[task] else { return Ok(()) };
                *scored += documents.len();
                planned.scorer.score_next(&documents).map_err(|source| failed(planned, source))
            }
            Work::Last { task, documents, built, original } => {
                let Some(unscored) = self.tasks[task].take() else { return Ok(()) };
                self.finish(task, unscored, documents, built, original)
            }
        }
    }

    fn finish(
        &mut self,
        place: usize,
        unscored: Unscored,
        documents: Vec<AnsweredDocument>,
        built: usize,
        original: usize,
    ) -> Result<(), EngineError> {
        let task = Arc::clone(&unscored.planned.task);
        let key = unscored.planned.key.clone();
        let python = self.options.data.python.as_ref().filter(|_| task.config.unsafe_code);
        // What ran before, for another task or for prompts, is not part of the score.
        let _ = python.map(|python| python.take_code_limits());
        let result = self.result(unscored, documents, built, original);
        if let Some(python) = python {
            self.code_limits.insert(key, code_limits(python.take_code_limits()));
        }
        self.results[place] = result?;
        Ok(())
    }

    /// The result of a task; none where no document has all its answers.
    fn result(
        &self,
        Unscored { mut planned, scored }: Unscored,
        mut documents: Vec<AnsweredDocument>,
        built: usize,
        original: usize,
    ) -> Result<Option<TaskResult>, EngineError> {
        self.events.event(Event::Scoring { task: &planned.task });
        let answered = scored + documents.len();
        if answered == 0 {
            return Ok(None);
        }
        if planned.scores_apart(self.options) {
            planned.scorer.score_next(&documents).map_err(|source| failed(&planned, source))?;
            documents.clear();
        } else {
            planned.scorer.score(&documents).map_err(|source| failed(&planned, source))?;
        }
        let (draws, log) = (self.options.bootstrap_iters, self.options.log_samples);
        let result =
            task_result(&planned.key, &planned.task, &planned.scorer, &documents, original, draws, log);
        let mut result = result.map_err(|source| failed(&planned, source))?;
        for (_, audit) in &mut result.audit {
            audit.errored = built - answered;
        }
        let told = self.events.scored(&result);
        told.map_err(|source| EngineError::Records { task: planned.key.clone(), source })?;
        if !self.options.keep_samples {
            result.samples = None;
        }
        Ok(Some(result))
    }
}

fn failed(planned: &PlannedTask, source: ScoreError) -> EngineError {
    EngineError::Score { task: planned.key.clone(), source: Box::new(source) }
}

/// What the results say of the programs that were run for a task.
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
        let ending = Ending::new(&stop);
        for source in errors {
            ending.fail(EngineError::Function { task: "t".to_owned(), source });
        }
        assert!(stop.is_cancelled() && ending.has_failed());
        let error = ending.into_error().expect("there were errors");
        std::error::Error::source(&error).expect("a function failed").to_string()
    }

    #[test]
    fn the_function_that_gave_no_answer_is_reported() {
        let abandoned = |function: &str| {
            let (function, culprit) = (function.to_owned(), "utils.slow".to_owned());
            HostError::Abandoned { function, culprit, seconds: 1.0 }
        };
        let raised = |function: &str| {
            let (function, message) = (function.to_owned(), "no".to_owned());
            HostError::Failed { function, message, traceback: None }
        };
        let first = outcome(vec![abandoned("a.f"), abandoned("b.f"), raised("utils.slow"), raised("c.f")]);
        assert!(first.contains("`utils.slow` failed"), "{first}");
        let first = outcome(vec![raised("utils.slow"), abandoned("a.f")]);
        assert!(first.contains("`utils.slow` failed"), "{first}");
        let only = outcome(vec![abandoned("a.f"), abandoned("b.f")]);
        assert!(only.contains("`a.f`") && only.contains("`utils.slow`"), "{only}");
    }
}
