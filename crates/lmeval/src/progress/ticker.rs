//! Shows the counts of a run now and then.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lmeval::environment;
use lmeval::settings::ProgressMode;
use lmeval_core::{Model, ModelStats};
use lmeval_pycompat::{Dict, Value};

use crate::printer::Notes;
use crate::progress::board::{Board, Snapshot};
use crate::progress::line::line;
use crate::progress::rate::{Rate, time_left};

/// Rates are those of this stretch of time.
const WINDOW: Duration = Duration::from_secs(10);

/// Reasons for calls that are made again are told this often at most.
const TROUBLE_EVERY: Duration = Duration::from_secs(10);

/// The same reason is told again after this time.
const SAME_TROUBLE_EVERY: Duration = Duration::from_mins(5);

/// How progress is shown, now that it is known where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// A line that changes.
    Terminal,
    /// A line now and then.
    Plain,
    /// An object now and then.
    Json,
    /// Nothing.
    Nothing,
}

impl Show {
    /// What a mode means where standard error goes.
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

/// Shows progress until it is dropped.
pub(crate) struct Ticker {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Begins to show the counts.
    pub(crate) fn start(show: Show, board: Arc<Board>, model: Arc<dyn Model>, notes: Notes) -> Self {
        let (end, ended) = mpsc::channel();
        let mut view = View { show, board, model, notes, seen: VecDeque::new(), told: None };
        let thread = (show != Show::Nothing).then(|| {
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
            // Progress that cannot be shown is no reason to fail.
            let _ = thread.join();
        }
    }
}

struct View {
    show: Show,
    board: Arc<Board>,
    model: Arc<dyn Model>,
    notes: Notes,
    /// When, answers from the model, tokens.
    seen: VecDeque<(Instant, u64, u64)>,
    /// The last reason that was told, and when.
    told: Option<(Instant, String)>,
}

impl View {
    fn tick(&mut self) {
        let now = self.board.snapshot();
        let rate = self.rate(&now);
        self.trouble();
        match self.show {
            Show::Terminal => self.notes.status(&line(&now, rate, self.model.stats(), self.notes.width())),
            Show::Plain => self.notes.progress(&line(&now, rate, self.model.stats(), usize::MAX)),
            Show::Json => self.notes.object("progress", &facts(&now, rate, self.model.stats())),
            Show::Nothing => {}
        }
    }

    fn finish(&mut self) {
        let now = self.board.snapshot();
        match self.show {
            Show::Terminal => self.notes.status(""),
            Show::Json => {
                let rate = self.rate(&now);
                self.notes.object("progress", &facts(&now, rate, self.model.stats()));
            }
            Show::Plain | Show::Nothing => {}
        }
    }

    fn rate(&mut self, now: &Snapshot) -> Rate {
        let moment = Instant::now();
        // A model of this process counts tokens before it has answers.
        let counted = self.model.stats().map_or(0, |stats| stats.tokens_asked.load(Ordering::Relaxed));
        let tokens_now = if counted > 0 { counted } else { now.tokens };
        self.seen.push_back((moment, now.sent, tokens_now));
        while self.seen.len() > 2 && self.seen.get(1).is_some_and(|(then, ..)| moment - *then >= WINDOW) {
            self.seen.pop_front();
        }
        let (seconds, answers, tokens) = match self.seen.front() {
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

    /// Tells why calls are made again.
    fn trouble(&mut self) {
        if self.told.as_ref().is_some_and(|(told, _)| told.elapsed() < TROUBLE_EVERY) {
            return;
        }
        let Some(reason) = self.model.stats().and_then(ModelStats::take_retry_reason) else { return };
        let before = self.told.as_ref().filter(|(_, before)| *before == reason);
        if before.is_some_and(|(told, _)| told.elapsed() < SAME_TROUBLE_EVERY) {
            return;
        }
        self.notes.info(&format!("Trying again: {reason}"));
        self.told = Some((Instant::now(), reason));
    }
}

/// The counts as an object.
fn facts(now: &Snapshot, rate: Rate, stats: Option<&ModelStats>) -> Dict {
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
    let left = time_left(now, rate).map_or(Value::None, |left| Value::Float(left.as_secs_f64().round()));
    facts.insert("seconds_left", left);
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
    fn the_object_has_the_counts() {
        let board = Board::new();
        board.built(RequestType::GenerateUntil, 3);
        board.all_built();
        board.failed(RequestType::GenerateUntil);
        let stats = ModelStats::default();
        let rate = Rate { answers: 1.0, tokens: 0.0 };
        let told = facts(&board.snapshot(), rate, Some(&stats));
        assert_eq!(told.get_str("done"), Some(&Value::Int(1)));
        assert_eq!(told.get_str("seconds_left"), Some(&Value::Float(2.0)));
        assert_eq!(told.get_str("tokens_saved"), None);
        stats.tokens_asked.store(800, Ordering::Relaxed);
        stats.tokens_computed.store(200, Ordering::Relaxed);
        let told = facts(&board.snapshot(), rate, Some(&stats));
        assert_eq!(told.get_str("tokens_saved"), Some(&Value::Float(0.75)));
    }
}
