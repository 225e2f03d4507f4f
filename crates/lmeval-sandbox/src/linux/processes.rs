//! Process lifetimes.

use fs_err as fs;
use rustix::process::{
    Pid, Signal, WaitOptions, getppid, kill_process, set_child_subreaper, set_parent_process_death_signal,
    wait,
};

/// Makes the kernel kill this process when its parent ends, whatever it is doing or has become.
pub(crate) fn end_with_parent() {
    let parent = getppid();
    // On kernels without this, the supervisor takes care of it.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != parent {
        // The parent ended in the meantime.
        std::process::abort();
    }
}

/// Makes this process the parent of all descendants that lose their own.
pub(crate) fn adopt_orphans() {
    // Without this there are no orphans to find; the report says what prevented new processes.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all descendants, all of which are orphans or will be.
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
    let ids = lists.collect::<Vec<_>>().join(" ");
    ids.split_whitespace().filter_map(|id| id.parse().ok().and_then(Pid::from_raw)).collect()
}
