//! The environment variables that the command reads besides those of [`lmeval::environment`].

use std::path::PathBuf;

use anyhow::{Result, bail};
use lmeval_report::TimeZone;

/// Whether sample records contain hashes instead of bytes, such as images.
const LMEVAL_HASHMM: &str = "LMEVAL_HASHMM";

/// A file to which a log of every request is appended.
const LM_EVAL_LOG_FILE: &str = "LM_EVAL_LOG_FILE";

/// `WARNING` or above suppresses informational output, like `--quiet`; `DEBUG` prints a log, like `--verbosity DEBUG`.
const LMEVAL_LOG_LEVEL: &str = "LMEVAL_LOG_LEVEL";

/// The time zone of time stamps in file names.
const TZ: &str = "TZ";

/// The terminal type: without it, or with `dumb`, no status line is shown.
const TERM: &str = "TERM";

/// The displays of X11 and Wayland: without either, no browser is opened.
const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// Whether a browser window can be shown.
pub(crate) fn has_screen() -> bool {
    cfg!(target_os = "macos")
        || DISPLAYS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// The command line of the pager; empty or `cat` for none, `less -R` by default.
const PAGER: &str = "PAGER";

/// The options of `less`.
const LESS: &str = "LESS";

/// The index of this process among those started by a launcher such as `accelerate launch`.
const RANK: &str = "RANK";

/// The number of processes started by the launcher.
const WORLD_SIZE: &str = "WORLD_SIZE";

/// The rank and world size, if a launcher started this process and it is not the first.
pub(crate) fn later_process() -> Option<(u64, u64)> {
    let number = |variable: &str| std::env::var(variable).ok()?.parse::<u64>().ok();
    let (rank, size) = (number(RANK)?, number(WORLD_SIZE)?);
    (size > 1 && rank > 0).then_some((rank, size))
}

/// The value of `LMEVAL_HASHMM`; off if unset.
pub(crate) fn hash_media() -> Result<bool> {
    let Ok(value) = std::env::var(LMEVAL_HASHMM) else { return Ok(false) };
    match lmeval_report::parse_hash_media(Some(&value)) {
        Some(flag) => Ok(flag),
        None => bail!("`{LMEVAL_HASHMM}` must be `true` or `false`, not `{value}`"),
    }
}

/// Whether `LMEVAL_LOG_LEVEL` suppresses informational output.
pub(crate) fn only_warnings() -> bool {
    matches!(log_level().as_str(), "WARNING" | "WARN" | "ERROR" | "CRITICAL" | "FATAL")
}

/// Whether `LMEVAL_LOG_LEVEL` asks for a log.
pub(crate) fn wants_log() -> bool {
    log_level() == "DEBUG"
}

fn log_level() -> String {
    std::env::var(LMEVAL_LOG_LEVEL).unwrap_or_default().to_uppercase()
}

/// The file of the log.
pub(crate) fn log_file() -> Option<PathBuf> {
    std::env::var_os(LM_EVAL_LOG_FILE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The zone of time stamps, from `TZ`.
pub(crate) fn time_zone() -> TimeZone {
    TimeZone::local(std::env::var(TZ).ok().as_deref())
}

/// Whether the terminal can move the cursor back within a line.
pub(crate) fn terminal_moves() -> bool {
    std::env::var_os(TERM).is_some_and(|term| term != "dumb")
}

/// The command line in `PAGER`.
pub(crate) fn pager() -> Option<String> {
    std::env::var(PAGER).ok()
}

/// A variable to set for the pager: `less` ends at once if everything fits on the screen, and keeps it there.
pub(crate) fn pager_default() -> Option<(&'static str, &'static str)> {
    std::env::var_os(LESS).is_none().then_some((LESS, "FRX"))
}
