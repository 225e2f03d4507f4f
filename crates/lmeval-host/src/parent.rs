//! Makes workers end with the engine, whatever they are doing.
//!
//! A worker exits when its socket is closed, but only once Python code runs; C code may not return for hours, and
//! a killed engine cannot kill its workers. So the kernel does.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a process that the kernel kills when this one ends.
///
/// The kernel tracks the thread that started the process, not its process. So one thread that lives as long as the
/// engine starts them all.
pub(crate) fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Option<Mutex<mpsc::Sender<Order>>>> = OnceLock::new();
    end_with_parent(&mut command);
    let starter = STARTER.get_or_init(|| start().map(Mutex::new).ok());
    let Some(starter) = starter else {
        return Err(io::Error::other("no thread can start it"));
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
            // Fails only if the requester is gone; dropping the child ends it.
            let _ = answer.send(command.spawn());
        }
    };
    thread::Builder::new().name("start-workers".to_owned()).spawn(work).map(|_| sender)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a child configures the kernel before `exec`")]
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
