//! Opens pages for the user.

use std::io::IsTerminal as _;
use std::process::{Command, Stdio};

use crate::environment;

/// Opens the address in a browser if this is a session with a screen; otherwise the user has the address.
pub(crate) fn open(url: &str) {
    if !std::io::stderr().is_terminal() || !environment::has_screen() {
        return;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // The browser may run as long as the viewer; nobody waits for it but its exit status has to be collected.
        let _ = std::thread::Builder::new().spawn(move || child.wait());
    }
}
