//! What workers print.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, PipeReader};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::options::Log;

/// Longer lines are cut into several.
const LONGEST_LINE: usize = 8192;

/// How many lines are kept for the message about a crash.
const KEPT_LINES: usize = 40;

/// Reads what a worker prints, so that it never waits for a reader.
#[derive(Debug)]
pub(crate) struct Printed {
    last: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Printed {
    /// Reads until nobody can write any more.
    pub(crate) fn read(pipe: PipeReader, log: Option<Log>) -> Self {
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&last);
        let keep = move |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches(['\n', '\r']);
            // What was drawn over is gone.
            let is_redrawn = line.contains('\r');
            let line = line.rsplit('\r').next().unwrap_or_default();
            if is_redrawn && is_bar(line) {
                return;
            }
            if let Some(log) = &log {
                log(line);
            }
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT_LINES {
                kept.pop_front();
            }
            kept.push_back(line.to_owned());
        };
        let read = thread::Builder::new().name("python-log".to_owned()).spawn(move || split(pipe, keep));
        // Without a thread the pipe is closed, and what the worker prints goes nowhere.
        Self { last, reader: read.ok() }
    }

    /// The last lines; called when the worker has ended, it waits a little for what is under way.
    pub(crate) fn last_words(&self) -> String {
        let deadline = Instant::now() + Duration::from_millis(300);
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Whether a line is a bar that says how far something is; the engine has its own.
fn is_bar(line: &str) -> bool {
    line.contains("it/s]") || line.contains("s/it]") || line.contains("?it/s")
}

fn split(pipe: PipeReader, keep: impl Fn(&[u8])) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        let (used, ends) = match reader.fill_buf() {
            Ok([]) | Err(_) => break,
            Ok(bytes) => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    line.extend_from_slice(&bytes[..end]);
                    (end + 1, true)
                }
                None => {
                    line.extend_from_slice(bytes);
                    (bytes.len(), false)
                }
            },
        };
        reader.consume(used);
        if ends || line.len() >= LONGEST_LINE {
            keep(&line);
            line.clear();
        }
    }
    if !line.is_empty() {
        keep(&line);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn bars_are_not_logged() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let logged = Arc::clone(&lines);
        let log: Log = Arc::new(move |line: &str| logged.lock().unwrap().push(line.to_owned()));
        let printed = Printed::read(reader, Some(log));
        let text =
            "one\n\r  0%|  | 0/4 [00:00<?, ?it/s]\r100%|##| 4/4 [00:00<00:00, 9.0it/s]\ntwo\rthree\r\n";
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        assert_eq!(printed.last_words(), "one\nthree");
        assert_eq!(*lines.lock().unwrap(), ["one", "three"]);
    }
}
