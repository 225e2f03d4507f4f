//! Prints panics.

use std::io::Write as _;
use std::panic::PanicHookInfo;

use lmeval_core::{is_guarded, secrets};

use crate::printer::escape_controls;

/// Installs a panic hook that prints one line, or the full panic message if `RUST_BACKTRACE` is set. Panics that are
/// caught and turned into errors print nothing unless it is set.
pub(crate) fn install_panic_hook() {
    let in_full = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if in_full {
            return usual(panic);
        }
        if is_guarded() {
            return;
        }
        // There is nowhere to report a failure to write this.
        let _ = std::io::stderr().write_all(message(panic).as_bytes());
    }));
}

fn message(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("unknown cause");
    let location = panic.location().map_or_else(String::new, |location| format!(" ({location})"));
    let text = format!("error: internal error: {message}{location}");
    format!(
        "{}\nhint: This is a bug in lm-eval, please report it; `RUST_BACKTRACE=1` prints more\n",
        escape_controls(&secrets::mask(&text))
    )
}
