//! How much a program may take.

use std::time::Duration;

/// How much a program may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// How long it may run. One second later the process is ended whatever it does.
    pub time: Duration,
    /// How much address space it may have, in bytes.
    pub memory: u64,
    /// How large each file may become, in bytes.
    pub file_size: u64,
    /// How large all its files together may become, in bytes.
    pub disk: u64,
    /// How many files it may have open.
    pub open_files: u64,
    /// How many threads it may have.
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
    /// When the process is ended, counted from when the program began.
    pub(crate) fn deadline(&self) -> Duration {
        self.time.saturating_add(Duration::from_secs(1))
    }

    /// How many seconds of processor time are allowed: what several threads can use until the deadline is no
    /// concern, the limit is there in case nobody watches the clock.
    pub(crate) fn processor_seconds(&self) -> u64 {
        self.deadline().as_secs().saturating_add(2).saturating_mul(4)
    }
}
