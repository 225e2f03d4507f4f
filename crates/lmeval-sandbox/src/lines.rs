//! Lines of a process's output, with a time limit.

use std::io::Read as _;
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The maximum output: a report, and a result in hexadecimal digits.
const MAX_BYTES: usize = 1 << 20;

/// The lines that a process prints; beyond a size limit nothing is read any more.
///
/// Reads in the calling thread: a process that unshares namespaces must not have other threads.
#[derive(Debug)]
pub(crate) struct Lines {
    output: ChildStdout,
    pending: Vec<u8>,
    taken: usize,
}

impl Lines {
    /// Reads lines from a pipe.
    pub(crate) fn new(output: ChildStdout) -> Self {
        Self { output, pending: Vec::new(), taken: 0 }
    }

    /// The next line; `None` after the time limit or at the end of the output.
    pub(crate) fn next(&mut self, limit: Duration) -> Option<String> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                let line = std::mem::replace(&mut self.pending, rest);
                return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            self.wait(deadline)?;
            let mut part = [0; 8192];
            let count = self.output.read(&mut part).ok().filter(|count| *count > 0)?;
            self.taken += count;
            if self.taken > MAX_BYTES {
                return None;
            }
            self.pending.extend_from_slice(&part[..count]);
        }
    }

    /// Waits until there is something to read.
    fn wait(&self, deadline: Instant) -> Option<()> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut descriptors = [PollFd::new(&self.output, PollFlags::IN)];
            match poll(&mut descriptors, Some(&left)) {
                Err(Errno::INTR) => {}
                Ok(1..) => return Some(()),
                Ok(0) | Err(_) => return None,
            }
        }
    }
}
