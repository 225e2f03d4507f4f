//! Says what a command waits for before there is anything to count.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::line::{clock, cut};
use super::ticker::Show;
use crate::printer::Notes;

/// What takes less than this is not worth a line where lines stay.
const PATIENCE: Duration = Duration::from_secs(2);

/// A line about something that takes a while, until it is dropped.
pub(crate) struct Waiting {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Says that `what` is going on.
    pub(crate) fn start(show: Show, what: String, notes: Notes) -> Self {
        if matches!(show, Show::Nothing | Show::Json) {
            return Self { end: None, thread: None };
        }
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            let begun = Instant::now();
            let interval = if show == Show::Terminal { Duration::from_millis(200) } else { PATIENCE };
            let mut told = false;
            loop {
                if show == Show::Terminal {
                    let text = format!("{what} · {}", clock(begun.elapsed()));
                    notes.status(&cut(&text, notes.width()));
                } else if begun.elapsed() >= PATIENCE && !told {
                    notes.info(&what);
                    told = true;
                }
                if ended.recv_timeout(interval) != Err(mpsc::RecvTimeoutError::Timeout) {
                    break;
                }
            }
            if show == Show::Terminal {
                notes.status("");
            }
        });
        Self { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // Progress that cannot be shown is no reason to fail.
            let _ = thread.join();
        }
    }
}
