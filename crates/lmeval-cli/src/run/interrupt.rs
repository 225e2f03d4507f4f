//! Ctrl-C: the first one stops the run gracefully, the second one immediately.

use std::sync::Weak;
use std::thread;

use lmeval_core::Model;
use lmeval_engine::Cancel;

use crate::printer::Notes;

/// The exit status of an interrupted run.
pub(crate) const EXIT_STATUS: u8 = 130;

/// Listens for Ctrl-C until the process ends, which must not keep the model alive. If that is not possible, Ctrl-C kills the process as usual.
pub(crate) fn listen(cancel: Cancel, model: Option<Weak<dyn Model>>, notes: Notes, has_journal: bool) {
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let _files = survive_file_size_limit();
            let kept = has_journal;
            if stop_signal().await.is_none() {
                return;
            }
            cancel.cancel();
            notes.status("");
            // A server that has not answered yet has no requests in flight.
            let model = model.as_ref().and_then(Weak::upgrade);
            let is_waiting = model.as_ref().and_then(|model| model.stats()?.waiting()).is_some();
            drop(model);
            notes.note(if is_waiting {
                "Stopping: the server has not answered yet."
            } else if kept {
                "Stopping: waiting for requests in flight; their answers will be saved. Press Ctrl-C again to quit now."
            } else {
                "Stopping: waiting for requests in flight. Press Ctrl-C again to quit now."
            });
            if stop_signal().await.is_some() {
                notes.note(if kept {
                    "Quit. Run the same command again to resume; answers received so far are saved."
                } else {
                    "Quit."
                });
                notes.finish(EXIT_STATUS);
                exit_now();
            }
        });
    };
    // Without this thread, Ctrl-C kills the run immediately.
    let _ = thread::Builder::new().name("interrupt".to_owned()).spawn(listen);
}

/// A signal that asks a command to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C, which every process of the terminal gets.
    Pressed,
    /// SIGTERM, which only this process gets.
    Terminated,
}

/// Calls `act` for each signal until the process ends. If that is not possible, signals kill the process as usual.
pub(crate) fn on_stop(act: impl Fn(Stop) + Send + 'static) {
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            while let Some(stop) = stop_signal().await {
                act(stop);
            }
        });
    };
    // Without this thread, Ctrl-C kills the command immediately.
    let _ = thread::Builder::new().name("stop".to_owned()).spawn(listen);
}

/// Ignores Ctrl-C from now on, while a pager handles it.
pub(crate) fn ignore() {
    let listen = || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    };
    // Without this thread, Ctrl-C ends this process and the pager shows what it has.
    let _ = thread::Builder::new().name("pager".to_owned()).spawn(listen);
}

/// Makes a write beyond the `ulimit -f` limit fail, so that the run ends with a message: the default action of the
/// signal kills the process.
#[cfg(unix)]
fn survive_file_size_limit() -> Option<tokio::signal::unix::Signal> {
    // The number of SIGXFSZ on every supported system.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(25)).ok()
}

#[cfg(not(unix))]
fn survive_file_size_limit() {}

#[expect(clippy::exit, reason = "the second Ctrl-C must not wait for anything")]
pub(crate) fn exit_now() -> ! {
    std::process::exit(i32::from(EXIT_STATUS))
}

/// Waits for Ctrl-C or SIGTERM; `None` if signals cannot be received.
#[cfg(unix)]
async fn stop_signal() -> Option<Stop> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok()?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.ok().map(|()| Stop::Pressed),
        signal = terminate.recv() => signal.map(|()| Stop::Terminated),
    }
}

/// Waits for Ctrl-C; `None` if it cannot be received.
#[cfg(not(unix))]
async fn stop_signal() -> Option<Stop> {
    tokio::signal::ctrl_c().await.ok().map(|()| Stop::Pressed)
}
