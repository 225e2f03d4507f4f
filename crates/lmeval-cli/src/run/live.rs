//! The live page of `lm-eval run --view`: what the run's events say, on the server of the viewer.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use lmeval_analysis::stats::mean_interval;
use lmeval_core::{Arguments, Context, Model, secrets};
use lmeval_engine::{Event, PreviewScore};
use lmeval_pycompat::repr;
use lmeval_scoring::scorers::AnsweredDocument;
use lmeval_view::{
    Listen, Live, LiveAnswer, LiveLevel, LiveMessage, LiveRequests, LiveState, LiveTask, Num, Score, Server,
    Text, Viewer, run_id,
};

use crate::progress::{RequestCounts, Snapshot};

/// Answers and messages that the page shows.
const SHOWN: usize = 20;

/// Characters of a string on the page.
const LONGEST: usize = 2_000;

/// The time window of the rate.
const WINDOW: Duration = Duration::from_secs(10);

/// How long the server stays after the run, so that open pages learn of the end.
const FAREWELL: Duration = Duration::from_millis(1_200);

/// The server of a run that is watched.
pub(crate) struct LiveView {
    state: Arc<LiveRun>,
    server: Server,
}

impl LiveView {
    /// Starts the server. `folder` is where results go; without one, only the live page has content.
    pub(crate) fn start(
        name: String,
        folder: Option<&Path>,
        counts: &Arc<RequestCounts>,
        model: &Arc<dyn Model>,
    ) -> Result<Self> {
        let state = Arc::new(LiveRun {
            name,
            counts: Arc::clone(counts),
            model: Arc::clone(model),
            inner: Mutex::new(Inner { phase: "Loading data", ..Inner::default() }),
        });
        let paths: Vec<PathBuf> = folder.into_iter().map(Path::to_owned).collect();
        let viewer = Viewer::new(&paths)?.with_live(Arc::clone(&state) as Arc<dyn Live>);
        let server = Server::start(Arc::new(viewer), &Listen::default())?;
        Ok(Self { state, server })
    }

    /// The address of the live page.
    pub(crate) fn url(&self) -> String {
        format!("{}#/live", self.server.url())
    }

    /// Notes an event of the engine.
    pub(crate) fn event(&self, event: &Event<'_>) {
        let mut inner = self.state.lock();
        match event {
            Event::Prepared { task, documents } => {
                inner.phase = "Evaluating";
                inner.task(task.name()).total = Some(*documents);
            }
            Event::DocumentDone { task } => inner.task(task).done += 1,
            Event::Previewed { task, document, scores } => {
                if let Some(document) = document {
                    inner.answers.push_front(answer(task, document));
                    inner.answers.truncate(SHOWN);
                }
                inner.task(task).scores = scores.to_vec();
            }
            Event::Failed { request, error } => {
                let text = format!("{}: {error}", request.describe());
                inner.messages.push_front(LiveMessage {
                    level: LiveLevel::Error,
                    text: secrets::mask(&text).into_owned(),
                    elapsed: self.state.counts.snapshot().elapsed.as_secs_f64(),
                });
                inner.messages.truncate(SHOWN);
            }
            Event::Scoring { .. } => inner.phase = "Scoring",
            _ => {}
        }
    }

    /// Tells open pages that the run is over, and which run to open.
    pub(crate) fn finish(&self, results: Option<&Path>) {
        let mut inner = self.state.lock();
        inner.is_finished = true;
        inner.phase = "Finished";
        inner.run = results.and_then(run_id);
        drop(inner);
        if self.server.is_watched() {
            std::thread::sleep(FAREWELL);
        }
    }
}

/// The content of the page, kept up to date by events.
struct LiveRun {
    name: String,
    counts: Arc<RequestCounts>,
    model: Arc<dyn Model>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    phase: &'static str,
    tasks: Vec<TaskProgress>,
    answers: VecDeque<LiveAnswer>,
    messages: VecDeque<LiveMessage>,
    /// Time and completed requests.
    samples: VecDeque<(Instant, u64)>,
    is_finished: bool,
    run: Option<String>,
}

#[derive(Default)]
struct TaskProgress {
    task: String,
    done: usize,
    total: Option<usize>,
    scores: Vec<PreviewScore>,
}

impl Inner {
    /// The entry of a task. Data is loaded by name, results are kept by key, which may have a group in front.
    fn task(&mut self, name: &str) -> &mut TaskProgress {
        let is_same = |known: &TaskProgress| {
            known.task == name || name.rsplit_once("::").is_some_and(|(_, bare)| known.task == bare)
        };
        let position = self.tasks.iter().position(is_same).unwrap_or_else(|| {
            self.tasks.push(TaskProgress { task: name.to_owned(), ..TaskProgress::default() });
            self.tasks.len() - 1
        });
        &mut self.tasks[position]
    }

    /// Completed requests per second over the last seconds.
    fn rate(&mut self, now: &Snapshot) -> Option<f64> {
        let moment = Instant::now();
        self.samples.push_back((moment, now.done));
        while self.samples.len() > 2
            && self.samples.get(1).is_some_and(|(then, _)| moment.duration_since(*then) >= WINDOW)
        {
            self.samples.pop_front();
        }
        let (then, done) = *self.samples.front()?;
        let seconds = moment.duration_since(then).as_secs_f64();
        (seconds > 0.2).then(|| now.done.saturating_sub(done) as f64 / seconds)
    }
}

impl LiveRun {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live for LiveRun {
    fn state(&self) -> LiveState {
        let now = self.counts.snapshot();
        let retried = self.model.stats().map_or(0, |stats| stats.retries.load(Ordering::Relaxed));
        let mut inner = self.lock();
        let rate = inner.rate(&now);
        let left = now.total.saturating_sub(now.done) as f64;
        LiveState {
            model: self.name.clone(),
            elapsed: now.elapsed.as_secs_f64(),
            phase: inner.phase,
            requests: LiveRequests {
                done: now.done,
                total: now.all_built.then_some(now.total),
                reused: now.done.saturating_sub(now.sent + now.failed),
                failed: now.failed,
                retried,
            },
            rate,
            remaining: rate.filter(|rate| *rate > 0.0 && now.all_built).map(|rate| left / rate),
            tasks: inner.tasks.iter().map(task).collect(),
            answers: inner.answers.iter().cloned().collect(),
            messages: inner.messages.iter().cloned().collect(),
            finished: inner.is_finished,
            run: inner.run.clone(),
        }
    }
}

fn task(task: &TaskProgress) -> LiveTask {
    let score = |score: &PreviewScore| {
        let (mean, stderr) = (score.mean, score.stderr());
        let interval = mean_interval(mean, Some(stderr), Some(score.count as f64));
        let (low, high) = interval.map_or((f64::NAN, f64::NAN), |interval| (interval.low, interval.high));
        Score {
            metric: score.metric.to_string(),
            filter: score.filter.to_string(),
            value: Some(Num(mean)),
            stderr: Some(Num(stderr)),
            low: Some(Num(low)),
            high: Some(Num(high)),
            bounds: None,
            higher_is_better: None,
        }
    };
    LiveTask {
        task: task.task.clone(),
        done: task.done,
        total: task.total,
        scored: task.scores.iter().map(|score| score.count).max().unwrap_or(0),
        scores: task.scores.iter().map(score).collect(),
    }
}

/// The first request of a document with its first answer.
fn answer(task: &str, document: &AnsweredDocument) -> LiveAnswer {
    let first = document.answers.first();
    let prompt = first.and_then(|first| match &first.instance.arguments {
        Arguments::Loglikelihood { context, .. }
        | Arguments::Generate { context, .. }
        | Arguments::Letters { context, .. } => match context {
            Context::Text(text) | Context::Json(text) => Some(text.to_string()),
            Context::Messages(messages) => messages.last().map(|message| message.content.to_string()),
        },
        Arguments::Rolling { text } => Some(text.to_string()),
    });
    let response = first.and_then(|first| first.responses.first()).map(repr::str).unwrap_or_default();
    LiveAnswer {
        task: task.to_owned(),
        doc_id: Some(document.doc_id.0),
        // Prompts that nothing needs are dropped during the run.
        prompt: prompt.filter(|prompt| !prompt.is_empty()).map(|prompt| Text::start_of(&prompt, LONGEST)),
        answer: Text::start_of(&response, LONGEST),
    }
}
