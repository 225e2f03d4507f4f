//! The output of workers.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, PipeReader};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::options::Log;

/// The length in bytes at which lines are split.
const MAX_LINE: usize = 8192;

/// How many lines are retained for the message about a crash.
const RETAINED_LINES: usize = 40;

/// Reads the output of a worker, so that the worker never blocks on it.
#[derive(Debug)]
pub(crate) struct WorkerOutput {
    last: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl WorkerOutput {
    /// Reads until all writers have closed the pipe.
    pub(crate) fn read(pipe: PipeReader, log: Option<Log>) -> Self {
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&last);
        let keep = move |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches(['\n', '\r']);
            // Lines with carriage returns are progress bars that were overwritten.
            let is_redrawn = line.contains('\r');
            let line = line.rsplit('\r').next().unwrap_or_default();
            if is_redrawn && is_progress_bar(line) {
                return;
            }
            if let Some(log) = &log {
                log(line);
            }
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == RETAINED_LINES {
                kept.pop_front();
            }
            kept.push_back(line.to_owned());
        };
        let read = thread::Builder::new().name("python-log".to_owned()).spawn(move || split(pipe, keep));
        // Without a thread, the pipe is closed and the output is lost.
        Self { last, reader: read.ok() }
    }

    /// The last lines. Called after the worker has ended; waits briefly for the reader to catch up.
    pub(crate) fn last_output(&self) -> String {
        let deadline = Instant::now() + Duration::from_millis(300);
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Whether a line is a progress bar; the engine shows its own.
fn is_progress_bar(line: &str) -> bool {
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
        if ends || line.len() >= MAX_LINE {
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
    fn progress_bars_are_not_logged() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let logged = Arc::clone(&lines);
        let log: Log = Arc::new(move |line: &str| logged.lock().unwrap().push(line.to_owned()));
        let printed = WorkerOutput::read(reader, Some(log));
        let text =
            "one\n\r  0%|  | 0/4 [00:00<?, ?it/s]\r100%|##| 4/4 [00:00<00:00, 9.0it/s]\ntwo\rthree\r\n";
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        assert_eq!(printed.last_output(), "one\nthree");
        assert_eq!(*lines.lock().unwrap(), ["one", "three"]);
    }
}
