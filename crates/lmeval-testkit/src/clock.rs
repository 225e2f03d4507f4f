//! The CPU time of a thread, for tests that compare times beside busy processes.

use std::time::Duration;

/// The CPU time that this thread has used; `None` where the system does not tell.
pub fn thread_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).ok()
    }
    #[cfg(not(unix))]
    None
}
