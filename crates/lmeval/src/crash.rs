//! What a user sees of a panic.

use std::io::Write as _;
use std::panic::PanicHookInfo;

use lmeval_core::{is_guarded, secrets};

use crate::printer::visible;

/// From now on a panic is told in one line, and in full where `RUST_BACKTRACE` asks for it. One that becomes an error is
/// not told here.
pub(crate) fn tell_in_one_line() {
    let in_full = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_guarded() {
            return;
        }
        if in_full {
            return usual(panic);
        }
        // There is nobody to tell if this fails.
        let _ = std::io::stderr().write_all(message(panic).as_bytes());
    }));
}

fn message(panic: &PanicHookInfo<'_>) -> String {
    let said = panic.payload_as_str().unwrap_or("nothing was said");
    let place = panic.location().map_or_else(String::new, |place| format!(" ({place})"));
    let text = format!("error: lm-eval failed because of a mistake of its own: {said}{place}");
    format!("{}\nhint: Please report this; `RUST_BACKTRACE=1` shows more\n", visible(&secrets::mask(&text)))
}
