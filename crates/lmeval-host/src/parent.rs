//! Workers that end with the engine, whatever they are doing.
//!
//! A worker whose pipe is closed ends by itself when Python looks at it. Code in C may not let Python look for hours,
//! and an engine that was killed cannot end anybody; so the kernel does.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a process that the kernel kills when this one ends.
///
/// The kernel means the thread that started the process, not the process that the thread belongs to; so one thread, which
/// lasts as long as the engine, starts them all.
pub(crate) fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Option<Mutex<mpsc::Sender<Order>>>> = OnceLock::new();
    end_with_parent(&mut command);
    let starter = STARTER.get_or_init(|| start().map(Mutex::new).ok());
    let Some(starter) = starter else {
        return Err(io::Error::other("there is no thread to start it from"));
    };
    let gone = || io::Error::other("the thread that starts workers has ended");
    let (answer, started) = mpsc::channel();
    let order = starter.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    order.map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

fn start() -> io::Result<mpsc::Sender<Order>> {
    let (sender, orders) = mpsc::channel::<Order>();
    let work = move || {
        for (mut command, answer) in orders {
            // Nobody waits for the answer any more where this fails, and the child is ended with it.
            let _ = answer.send(command.spawn());
        }
    };
    thread::Builder::new().name("start-workers".to_owned()).spawn(work).map(|_| sender)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a child asks the kernel before it becomes another program")]
fn end_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    // SAFETY: both calls are system calls that touch no memory and take no lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The engine may have ended in between.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent(_: &mut Command) {}
