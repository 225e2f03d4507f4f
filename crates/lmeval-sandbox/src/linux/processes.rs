//! Which processes end with which.

use fs_err as fs;
use rustix::process::{
    Pid, Signal, WaitOptions, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal,
    wait,
};

/// Ends this process, whatever it is doing or has become, when the one that started it ends.
pub(crate) fn end_with_parent() {
    let parent = getppid();
    // A kernel that cannot do this leaves it to the supervisor.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != parent {
        // It has ended in between.
        std::process::abort();
    }
}

/// Makes this process the parent of all processes below it whose own parent ends.
pub(crate) fn adopt_orphans() {
    // A process without this finds no orphans, and the report says what kept others from being made.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all processes below this one, of which all are orphans or will be.
pub(crate) fn end_orphans() {
    for _ in 0..1000 {
        let children = children();
        for child in &children {
            let _ = kill_process(*child, Signal::KILL);
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if !children.is_empty() => std::thread::sleep(std::time::Duration::from_millis(1)),
            _ => break,
        }
    }
}

fn children() -> Vec<Pid> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = lists.collect::<Vec<_>>().join(" ");
    numbers.split_whitespace().filter_map(|number| number.parse().ok().and_then(Pid::from_raw)).collect()
}
