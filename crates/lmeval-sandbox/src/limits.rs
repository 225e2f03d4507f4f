//! Resource limits of a program.

use std::time::Duration;

/// Resource limits of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The maximum run time. One second later the process is killed.
    pub time: Duration,
    /// The maximum address space, in bytes.
    pub memory: u64,
    /// The maximum size of each file, in bytes.
    pub file_size: u64,
    /// The maximum size of all its files together, in bytes.
    pub disk: u64,
    /// The maximum number of open files.
    pub open_files: u64,
    /// The maximum number of threads.
    pub threads: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(3),
            memory: 2 << 30,
            file_size: 16 << 20,
            disk: 64 << 20,
            open_files: 64,
            threads: 64,
        }
    }
}

impl Limits {
    /// When the process is killed, relative to the start of the sandboxed code.
    pub(crate) fn deadline(&self) -> Duration {
        self.time.saturating_add(Duration::from_secs(1))
    }

    /// The CPU time limit, generous enough for several threads until the deadline. It is a fallback in case the
    /// supervisor does not watch the clock.
    pub(crate) fn cpu_seconds(&self) -> u64 {
        self.deadline().as_secs().saturating_add(2).saturating_mul(4)
    }
}
