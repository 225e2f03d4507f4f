//! Running scores: some documents are scored ahead of their task, for those who watch a run. A document that is asked about
//! several times is scored by the repeats that have arrived, and again as others do.
//!
//! The final scores do not depend on it. The thread works a hundredth of the time: if documents arrive faster than that
//! allows, most of them are skipped, so that watching does not slow a run down.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_core::DocId;
use lmeval_pycompat::Value;
use lmeval_scoring::scorers::{AnsweredDocument, TaskScorer};

use crate::event::{Event, Events};
use crate::plan::PlannedTask;

/// Documents that wait to be scored ahead.
const WAITING: usize = 64;

/// For each second of work, the thread rests this long.
const REST: u32 = 99;

/// The longest rest.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// How often a resting thread looks whether the run has ended.
const NAP: Duration = Duration::from_millis(20);

/// The mean of a metric over the documents that were scored ahead.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewScore {
    /// The name of the filter pipeline.
    pub filter: Arc<str>,
    /// The name of the metric.
    pub metric: Arc<str>,
    /// The number of documents with a number.
    pub count: usize,
    /// The mean of the numbers.
    pub mean: f64,
    /// The sum of squared deviations from the mean.
    squares: f64,
}

impl PreviewScore {
    /// The standard error of the mean; NaN for fewer than two documents.
    pub fn stderr(&self) -> f64 {
        let count = self.count as f64;
        if self.count < 2 { f64::NAN } else { (self.squares / (count - 1.0) / count).sqrt() }
    }

    /// Adds a value, by Welford's method.
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// Removes a value that was added.
    fn remove(&mut self, value: f64) {
        let after = value - self.mean;
        self.count -= 1;
        self.mean = if self.count == 0 { 0.0 } else { self.mean - after / self.count as f64 };
        self.squares = if self.count < 2 { 0.0 } else { self.squares - after * (value - self.mean) };
    }
}

/// A document on its way to the thread that scores ahead.
struct Ahead {
    task: usize,
    document: Box<AnsweredDocument>,
    /// Whether all repeats have arrived.
    is_complete: bool,
}

/// Passes documents on to the thread that scores them ahead.
pub(crate) struct PreviewSender<'a> {
    events: &'a dyn Events,
    keys: Vec<String>,
    waiting: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
    documents: mpsc::Sender<Ahead>,
}

impl Drop for PreviewSender<'_> {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

impl PreviewSender<'_> {
    /// Reports that a document is complete; `None` if it failed.
    pub(crate) fn settled(&self, task: usize, document: Option<&AnsweredDocument>) {
        self.events.event(Event::DocumentDone { task: &self.keys[task] });
        if let Some(document) = document {
            self.send(task, true, || Some(document.clone()));
        }
    }

    /// Reports that another repeat of a document is complete, and others are not.
    pub(crate) fn repeated(&self, task: usize, document: impl FnOnce() -> Option<AnsweredDocument>) {
        self.send(task, false, document);
    }

    fn send(&self, task: usize, is_complete: bool, document: impl FnOnce() -> Option<AnsweredDocument>) {
        if self.waiting.load(Ordering::Relaxed) >= WAITING {
            return;
        }
        let Some(document) = document() else { return };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread ends only with the run.
        let _ = self.documents.send(Ahead { task, document: Box::new(document), is_complete });
    }
}

/// Scores documents ahead of their tasks.
pub(crate) struct Preview<'a> {
    events: &'a dyn Events,
    tasks: Vec<PreviewedTask>,
    waiting: Arc<AtomicUsize>,
    has_ended: Arc<AtomicBool>,
    documents: mpsc::Receiver<Ahead>,
}

struct PreviewedTask {
    key: String,
    /// `None` if scoring needs all documents together or runs Python code: such scores come at the end.
    scorer: Option<TaskScorer>,
    scores: Vec<PreviewScore>,
    /// What documents with some of their repeats have added: indices of scores, and values.
    partial: HashMap<DocId, Vec<(usize, f64)>>,
}

/// Both ends, if the run is watched.
pub(crate) fn preview<'a>(
    planned: &mut [PlannedTask],
    events: &'a dyn Events,
) -> (PreviewSender<'a>, Preview<'a>) {
    let (sender, receiver) = mpsc::channel();
    let (waiting, has_ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<PreviewedTask> = planned
        .iter_mut()
        .map(|planned| PreviewedTask {
            key: planned.key.clone(),
            scorer: planned.preview.take(),
            scores: Vec::new(),
            partial: HashMap::new(),
        })
        .collect();
    let keys = tasks.iter().map(|task| task.key.clone()).collect();
    (
        PreviewSender {
            events,
            keys,
            waiting: Arc::clone(&waiting),
            has_ended: Arc::clone(&has_ended),
            documents: sender,
        },
        Preview { events, tasks, waiting, has_ended, documents: receiver },
    )
}

impl Preview<'_> {
    /// Scores documents until the collector is gone.
    pub(crate) fn run(mut self) {
        while let Ok(Ahead { task, document, is_complete }) = self.documents.recv() {
            let started = Instant::now();
            self.tasks[task].add(&document, is_complete);
            let PreviewedTask { key, scores, .. } = &self.tasks[task];
            let document = is_complete.then_some(&*document);
            self.events.event(Event::Previewed { task: key, document, scores });
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let awake = Instant::now() + (started.elapsed() * REST).min(LONGEST_REST);
            while Instant::now() < awake && !self.has_ended.load(Ordering::Relaxed) {
                thread::sleep(awake.saturating_duration_since(Instant::now()).min(NAP));
            }
            if self.has_ended.load(Ordering::Relaxed) {
                // The final scores are about to come; what waits is not worth waiting for.
                return;
            }
        }
    }
}

impl PreviewedTask {
    /// Adds the values of a document, in place of those that it had with fewer repeats.
    fn add(&mut self, document: &AnsweredDocument, is_complete: bool) {
        let Some(scorer) = &mut self.scorer else { return };
        let before: Vec<usize> =
            scorer.pipelines().iter().map(|pipeline| pipeline.reduced_docs().len()).collect();
        if scorer.score_next(std::slice::from_ref(document)).is_err() {
            if is_complete {
                // The run itself reports it when the task is scored.
                self.scorer = None;
                return;
            }
            // Reductions such as `avg@4` need all repeats.
            let mut filled = document.clone();
            filled.answers.iter_mut().for_each(|answered| *answered = answered.cycled());
            if scorer.score_next(std::slice::from_ref(&filled)).is_err() {
                return;
            }
        }
        for (index, value) in self.partial.remove(&document.doc_id).unwrap_or_default() {
            self.scores[index].remove(value);
        }
        let mut added = Vec::new();
        for (pipeline, before) in scorer.pipelines().iter().zip(before) {
            for (metric, value) in
                pipeline.reduced_docs()[before..].iter().flat_map(|scored| scored.values.iter())
            {
                let number = match value {
                    Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_f64(),
                    _ => None,
                };
                let Some(number) = number.filter(|number| number.is_finite()) else { continue };
                let of = |score: &PreviewScore| score.metric == *metric && score.filter == *pipeline.name();
                let index = self.scores.iter().position(of).unwrap_or_else(|| {
                    let (filter, metric) = (Arc::clone(pipeline.name()), Arc::clone(metric));
                    self.scores.push(PreviewScore { filter, metric, count: 0, mean: 0.0, squares: 0.0 });
                    self.scores.len() - 1
                });
                self.scores[index].add(number);
                added.push((index, number));
            }
        }
        if !is_complete {
            self.partial.insert(document.doc_id, added);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_errors_are_those_of_the_values() {
        let mut score =
            PreviewScore { filter: "none".into(), metric: "acc".into(), count: 0, mean: 0.0, squares: 0.0 };
        score.add(1.0);
        assert!(score.stderr().is_nan());
        for value in [0.0, 1.0, 0.3, 1.0] {
            score.add(value);
        }
        score.remove(0.3);
        assert!((score.mean - 0.75).abs() < 1e-12);
        assert!((score.stderr() - 0.25).abs() < 1e-12);
        for value in [0.0, 1.0, 1.0, 1.0] {
            score.remove(value);
        }
        assert_eq!((score.count, score.mean, score.squares), (0, 0.0, 0.0));
    }
}
