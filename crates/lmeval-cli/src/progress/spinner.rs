//! Shows what a command is waiting for before there are requests to count.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::line::{clock, cut};
use super::ticker::ProgressDisplay;
use crate::printer::Notes;

/// Waits shorter than this print nothing, except on the status line.
const MINIMUM_WAIT: Duration = Duration::from_secs(2);

/// Shows a message until dropped.
pub(crate) struct Spinner {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Shows `message` while something takes long.
    pub(crate) fn start(show: ProgressDisplay, message: String, notes: Notes) -> Self {
        if matches!(show, ProgressDisplay::Nothing | ProgressDisplay::Json) {
            return Self { end: None, thread: None };
        }
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            let started = Instant::now();
            let interval =
                if show == ProgressDisplay::Terminal { Duration::from_millis(200) } else { MINIMUM_WAIT };
            let mut printed = false;
            loop {
                if show == ProgressDisplay::Terminal {
                    let text = format!("{message} · {}", clock(started.elapsed()));
                    notes.status(&cut(&text, notes.width()));
                } else if started.elapsed() >= MINIMUM_WAIT && !printed {
                    notes.info(&message);
                    printed = true;
                }
                if ended.recv_timeout(interval) != Err(mpsc::RecvTimeoutError::Timeout) {
                    break;
                }
            }
            if show == ProgressDisplay::Terminal {
                notes.status("");
            }
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Failing to show progress must not fail the run.
            let _ = thread.join();
        }
    }
}
