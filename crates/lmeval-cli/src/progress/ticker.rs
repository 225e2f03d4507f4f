//! Shows the counts of a run periodically.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lmeval_core::{Model, ModelStats};
use lmeval_pycompat::{Dict, Value};

use crate::environment;
use crate::printer::Notes;
use crate::progress::counts::{RequestCounts, Snapshot};
use crate::progress::line::{Outlook, line};
use crate::progress::rate::{Pace, Rate};
use crate::settings::ProgressMode;

/// The time window for computing rates.
const WINDOW: Duration = Duration::from_secs(10);

/// The minimum time between notes about retries.
const RETRY_NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// The minimum time between notes about the same reason.
const SAME_RETRY_NOTE_INTERVAL: Duration = Duration::from_mins(5);

/// The progress display for the actual output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressDisplay {
    /// A status line.
    Terminal,
    /// One line every 10 seconds.
    Plain,
    /// One JSON object per second.
    Json,
    /// No progress.
    Nothing,
}

impl ProgressDisplay {
    /// Chooses the display for a mode, given where standard error goes.
    pub(crate) fn new(mode: ProgressMode, quiet: bool) -> Self {
        match mode {
            ProgressMode::Json => Self::Json,
            ProgressMode::None => Self::Nothing,
            _ if quiet => Self::Nothing,
            ProgressMode::Plain => Self::Plain,
            ProgressMode::Auto => {
                if std::io::stderr().is_terminal() && environment::terminal_moves() {
                    Self::Terminal
                } else {
                    Self::Plain
                }
            }
        }
    }

    fn interval(self) -> Duration {
        match self {
            Self::Terminal => Duration::from_millis(100),
            Self::Plain => Duration::from_secs(10),
            Self::Json => Duration::from_secs(1),
            Self::Nothing => Duration::from_hours(1),
        }
    }
}

/// Shows progress until dropped.
pub(crate) struct Ticker {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts showing the counts.
    pub(crate) fn start(
        show: ProgressDisplay,
        counts: Arc<RequestCounts>,
        (model, judges): (Arc<dyn Model>, Vec<Arc<dyn Model>>),
        notes: Notes,
    ) -> Self {
        let (end, ended) = mpsc::channel();
        let mut view = View {
            show,
            counts,
            model,
            judges,
            notes,
            samples: VecDeque::new(),
            pace: Pace::default(),
            last_retry: None,
        };
        let thread = (show != ProgressDisplay::Nothing).then(|| {
            thread::spawn(move || {
                while ended.recv_timeout(show.interval()) == Err(mpsc::RecvTimeoutError::Timeout) {
                    view.tick();
                }
                view.finish();
            })
        });
        Self { end: Some(end), thread }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Failing to show progress must not fail the run.
            let _ = thread.join();
        }
    }
}

struct View {
    show: ProgressDisplay,
    counts: Arc<RequestCounts>,
    model: Arc<dyn Model>,
    judges: Vec<Arc<dyn Model>>,
    notes: Notes,
    pace: Pace,
    /// Time, answers from the model, tokens.
    samples: VecDeque<(Instant, u64, u64)>,
    /// The last reason for a retry that was printed, and when.
    last_retry: Option<(Instant, String)>,
}

impl View {
    fn tick(&mut self) {
        let now = self.counts.snapshot();
        let outlook = self.outlook(&now);
        self.report_retries();
        let stats = self.model.stats();
        match self.show {
            ProgressDisplay::Terminal => {
                self.notes.status(&line(&now, &outlook, stats, self.notes.width()));
            }
            ProgressDisplay::Plain => self.notes.progress(&line(&now, &outlook, stats, usize::MAX)),
            ProgressDisplay::Json => self.notes.object("progress", &facts(&now, &outlook, stats)),
            ProgressDisplay::Nothing => {}
        }
    }

    fn finish(&mut self) {
        let now = self.counts.snapshot();
        match self.show {
            ProgressDisplay::Terminal => self.notes.status(""),
            ProgressDisplay::Json => {
                let outlook = self.outlook(&now);
                self.notes.object("progress", &facts(&now, &outlook, self.model.stats()));
            }
            ProgressDisplay::Plain | ProgressDisplay::Nothing => {}
        }
    }

    fn outlook(&mut self, now: &Snapshot) -> Outlook {
        self.pace.note(now);
        let in_flight =
            |judge: &Arc<dyn Model>| judge.stats().map_or(0, |stats| stats.in_flight.load(Ordering::Relaxed));
        // A model that waits for its server says so itself.
        let is_waiting = self.model.stats().is_some_and(|stats| stats.waiting().is_some());
        let rate = self.rate(now);
        let streams =
            self.model.stats().is_some_and(|stats| stats.tokens_received.load(Ordering::Relaxed) > 0);
        Outlook {
            rate,
            left: self.pace.time_left(now).filter(|_| !is_waiting),
            // Long answers that arrive piece by piece are no silence.
            silence: self.pace.silence(now).filter(|_| !streams || rate.tokens == 0.0),
            judging: self.judges.iter().map(in_flight).sum(),
        }
    }

    fn rate(&mut self, now: &Snapshot) -> Rate {
        let moment = Instant::now();
        // A model in the process counts tokens before it has answers, and a server that streams sends them.
        let stats = self.model.stats();
        let read = |count: fn(&ModelStats) -> &AtomicU64| {
            stats.map_or(0, |stats| count(stats).load(Ordering::Relaxed))
        };
        let counted = [read(|stats| &stats.tokens_asked), read(|stats| &stats.tokens_received)];
        let tokens_now = counted.into_iter().find(|count| *count > 0).unwrap_or(now.tokens);
        self.samples.push_back((moment, now.sent, tokens_now));
        while self.samples.len() > 2 && self.samples.get(1).is_some_and(|(then, ..)| moment - *then >= WINDOW)
        {
            self.samples.pop_front();
        }
        let (seconds, answers, tokens) = match self.samples.front() {
            Some((then, answers, tokens)) if *then < moment => {
                ((moment - *then).as_secs_f64(), now.sent - answers, tokens_now.saturating_sub(*tokens))
            }
            _ => (now.elapsed.as_secs_f64(), now.sent, tokens_now),
        };
        if seconds <= 0.0 {
            return Rate::default();
        }
        Rate { answers: answers as f64 / seconds, tokens: tokens as f64 / seconds }
    }

    /// Prints why requests are retried.
    fn report_retries(&mut self) {
        if self.last_retry.as_ref().is_some_and(|(printed, _)| printed.elapsed() < RETRY_NOTE_INTERVAL) {
            return;
        }
        let Some(reason) = self.model.stats().and_then(ModelStats::take_retry_reason) else { return };
        let before = self.last_retry.as_ref().filter(|(_, before)| *before == reason);
        if before.is_some_and(|(printed, _)| printed.elapsed() < SAME_RETRY_NOTE_INTERVAL) {
            return;
        }
        self.notes.info(&format!("Retrying: {reason}"));
        self.last_retry = Some((Instant::now(), reason));
    }
}

/// The counts as a dictionary.
fn facts(now: &Snapshot, outlook: &Outlook, stats: Option<&ModelStats>) -> Dict {
    let rate = outlook.rate;
    let seconds =
        |time: Option<Duration>| time.map_or(Value::None, |time| Value::Float(time.as_secs_f64().round()));
    let number = |number: u64| Value::Int(number as i64);
    let kinds = now.kinds.iter().map(|(kind, done, total)| {
        (kind.name(), Value::dict([("done", number(*done)), ("total", number(*total))]))
    });
    let mut facts = Dict::new();
    facts.insert("requests", Value::dict(kinds));
    facts.insert("done", number(now.done));
    facts.insert("total", number(now.total));
    facts.insert("total_is_final", now.all_built);
    facts.insert("sent", number(now.sent));
    facts.insert("failed", number(now.failed));
    facts.insert("requests_per_second", rounded(rate.answers));
    facts.insert("tokens_per_second", rounded(rate.tokens));
    if outlook.judging > 0 {
        facts.insert("judge_calls_in_flight", number(outlook.judging));
    }
    if let Some(stats) = stats {
        facts.insert("in_flight", number(stats.in_flight.load(Ordering::Relaxed)));
        facts.insert("concurrency", number(stats.concurrency.load(Ordering::Relaxed)));
        facts.insert("retries", number(stats.retries.load(Ordering::Relaxed)));
        if let Some(saved) = stats.saved() {
            facts.insert("tokens_asked", number(stats.tokens_asked.load(Ordering::Relaxed)));
            facts.insert("tokens_computed", number(stats.tokens_computed.load(Ordering::Relaxed)));
            facts.insert("tokens_saved", (saved * 1000.0).round() / 1000.0);
        }
    }
    facts.insert("elapsed_seconds", rounded(now.elapsed.as_secs_f64()));
    facts.insert("seconds_left", seconds(outlook.left));
    facts.insert("seconds_without_answer", seconds(outlook.silence));
    facts.insert("percent", now.percent().map_or(Value::None, number));
    facts.insert("task", now.task.as_ref().map_or(Value::None, |task| Value::Str(Arc::clone(task))));
    facts
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use lmeval_core::RequestType;

    use super::*;

    #[test]
    fn json_has_the_counts() {
        let counts = RequestCounts::new();
        counts.built(RequestType::GenerateUntil, 3);
        counts.all_built();
        counts.failed(RequestType::GenerateUntil);
        let stats = ModelStats::default();
        let rate = Rate { answers: 1.0, tokens: 0.0 };
        let outlook = Outlook { rate, left: Some(Duration::from_secs(2)), ..Outlook::default() };
        let object = facts(&counts.snapshot(), &outlook, Some(&stats));
        assert_eq!(object.get_str("percent"), Some(&Value::Int(33)));
        assert_eq!(object.get_str("done"), Some(&Value::Int(1)));
        assert_eq!(object.get_str("seconds_left"), Some(&Value::Float(2.0)));
        assert_eq!(object.get_str("tokens_saved"), None);
        stats.tokens_asked.store(800, Ordering::Relaxed);
        stats.tokens_computed.store(200, Ordering::Relaxed);
        let object = facts(&counts.snapshot(), &outlook, Some(&stats));
        assert_eq!(object.get_str("tokens_saved"), Some(&Value::Float(0.75)));
    }
}
