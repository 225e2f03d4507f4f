//! Every environment variable read by `lm-eval`, documented; `library` has the one for task libraries.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use lmeval_host::PythonOptions;
use lmeval_report::TimeZone;

/// A folder with local copies of data sets: `<folder>/<dataset_path>` is used if it exists.
const LM_EVAL_DATASET_DIR: &str = "LM_EVAL_DATASET_DIR";

/// The number of Python worker processes; the number of cores by default.
const LM_EVAL_PYTHON_WORKERS: &str = "LM_EVAL_PYTHON_WORKERS";

/// The time limit in seconds for one call of a task function; 600 by default.
const LM_EVAL_PYTHON_TIMEOUT: &str = "LM_EVAL_PYTHON_TIMEOUT";

/// The address space limit of each Python worker in MiB; unlimited by default.
const LM_EVAL_PYTHON_MEMORY: &str = "LM_EVAL_PYTHON_MEMORY";

/// The maximum number of rows read from each split; ignored unless it consists of digits.
const LMEVAL_LIMIT: &str = "LMEVAL_LIMIT";

/// Whether sample records contain hashes instead of bytes, such as images.
const LMEVAL_HASHMM: &str = "LMEVAL_HASHMM";

/// A file to which a log of every request is appended.
const LM_EVAL_LOG_FILE: &str = "LM_EVAL_LOG_FILE";

/// `WARNING` or above suppresses informational output, like `--quiet`; `DEBUG` prints a log, like `--verbosity DEBUG`.
const LMEVAL_LOG_LEVEL: &str = "LMEVAL_LOG_LEVEL";

/// The release line whose rules apply unless `--compat` is given; wins over a settings file.
pub const LM_EVAL_COMPAT: &str = "LM_EVAL_COMPAT";

/// The time zone of time stamps in file names.
const TZ: &str = "TZ";

/// The terminal type: without it, or with `dumb`, no status line is shown.
const TERM: &str = "TERM";

/// The displays of X11 and Wayland: without either, no browser is opened.
const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// Whether a browser window can be shown.
pub fn has_screen() -> bool {
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
pub fn later_process() -> Option<(u64, u64)> {
    let number = |variable: &str| std::env::var(variable).ok()?.parse::<u64>().ok();
    let (rank, size) = (number(RANK)?, number(WORLD_SIZE)?);
    (size > 1 && rank > 0).then_some((rank, size))
}

/// The value of `LMEVAL_LIMIT`, if it is a number.
pub fn limit_rows() -> Option<u64> {
    let value = std::env::var(LMEVAL_LIMIT).ok()?;
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
}

/// The value of `LM_EVAL_DATASET_DIR`.
pub fn dataset_dir() -> Option<PathBuf> {
    std::env::var_os(LM_EVAL_DATASET_DIR).map(PathBuf::from)
}

/// Applies the limits of Python worker processes.
pub fn limit_python(options: &mut PythonOptions) -> Result<()> {
    if let Some(workers) = number(LM_EVAL_PYTHON_WORKERS)? {
        options.workers = usize::try_from(workers)?;
    }
    if let Some(seconds) = number(LM_EVAL_PYTHON_TIMEOUT)? {
        options.time_limit = Duration::from_secs(seconds);
    }
    if let Some(mebibytes) = number(LM_EVAL_PYTHON_MEMORY)? {
        options.memory_limit = Some(mebibytes.saturating_mul(1 << 20));
    }
    Ok(())
}

/// The value of a variable that must be a positive integer.
fn number(variable: &str) -> Result<Option<u64>> {
    let Ok(value) = std::env::var(variable) else { return Ok(None) };
    match value.parse() {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => bail!("`{variable}` must be a positive integer, not `{value}`"),
    }
}

/// The value of `LMEVAL_HASHMM`; off if unset.
pub fn hash_media() -> Result<bool> {
    let Ok(value) = std::env::var(LMEVAL_HASHMM) else { return Ok(false) };
    match lmeval_report::parse_hash_media(Some(&value)) {
        Some(flag) => Ok(flag),
        None => bail!("`{LMEVAL_HASHMM}` must be `true` or `false`, not `{value}`"),
    }
}

/// Whether `LMEVAL_LOG_LEVEL` suppresses informational output.
pub fn only_warnings() -> bool {
    matches!(log_level().as_str(), "WARNING" | "WARN" | "ERROR" | "CRITICAL" | "FATAL")
}

/// Whether `LMEVAL_LOG_LEVEL` asks for a log.
pub fn wants_log() -> bool {
    log_level() == "DEBUG"
}

fn log_level() -> String {
    std::env::var(LMEVAL_LOG_LEVEL).unwrap_or_default().to_uppercase()
}

/// The file of the log.
pub fn log_file() -> Option<PathBuf> {
    std::env::var_os(LM_EVAL_LOG_FILE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The zone of time stamps, from `TZ`.
pub fn time_zone() -> TimeZone {
    TimeZone::local(std::env::var(TZ).ok().as_deref())
}

/// Whether the terminal can move the cursor back within a line.
pub fn terminal_moves() -> bool {
    std::env::var_os(TERM).is_some_and(|term| term != "dumb")
}

/// The command line in `PAGER`.
pub fn pager() -> Option<String> {
    std::env::var(PAGER).ok()
}

/// A variable to set for the pager: `less` ends at once if everything fits on the screen, and keeps it there.
pub fn pager_default() -> Option<(&'static str, &'static str)> {
    std::env::var_os(LESS).is_none().then_some((LESS, "FRX"))
}
