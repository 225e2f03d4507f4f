//! Ctrl-C: the first one ends the run in order, the second one at once.

use std::thread;

use lmeval_engine::Cancel;

use crate::printer::Notes;

/// The exit status of a run that was interrupted.
pub(crate) const EXIT_STATUS: u8 = 130;

/// Listens for Ctrl-C until the process ends. Where that cannot be done, Ctrl-C ends the process as ever.
pub(crate) fn listen(cancel: Cancel, notes: Notes, is_kept: bool) {
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let _files = survive_file_size_limit();
            let kept = is_kept;
            if asked().await.is_none() {
                return;
            }
            cancel.cancel();
            notes.status("");
            notes.note(if kept {
                "Ending: what is under way is waited for and kept. Ctrl-C again leaves at once"
            } else {
                "Ending: what is under way is waited for. Ctrl-C again leaves at once"
            });
            if asked().await.is_some() {
                notes.note(if kept {
                    "Left at once. Run the same command again to go on; answers that had come are kept"
                } else {
                    "Left at once"
                });
                notes.finish(EXIT_STATUS);
                leave();
            }
        });
    };
    // A run without this thread is a run that Ctrl-C ends at once.
    let _ = thread::Builder::new().name("interrupt".to_owned()).spawn(listen);
}

/// Has a write beyond the limit of `ulimit -f` fail, so that the run ends with a message: by default the signal that
/// comes with it kills the process.
#[cfg(unix)]
fn survive_file_size_limit() -> Option<tokio::signal::unix::Signal> {
    // SIGXFSZ has this number on every system that is supported.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(25)).ok()
}

#[cfg(not(unix))]
fn survive_file_size_limit() {}

#[expect(clippy::exit, reason = "the second Ctrl-C must not wait for anything")]
fn leave() -> ! {
    std::process::exit(i32::from(EXIT_STATUS))
}

/// Waits for the next Ctrl-C, or for the request to terminate; `None` where nothing can be heard.
#[cfg(unix)]
async fn asked() -> Option<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok()?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.ok(),
        told = terminate.recv() => told,
    }
}

/// Waits for the next Ctrl-C; `None` where nothing can be heard.
#[cfg(not(unix))]
async fn asked() -> Option<()> {
    tokio::signal::ctrl_c().await.ok()
}
