//! Every environment variable that the command reads, with its documentation; `library` has those of task libraries.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use lmeval_host::PythonOptions;
use lmeval_report::TimeZone;

/// A folder with copies of data sets: `<folder>/<dataset_path>` is used where it is there.
const LM_EVAL_DATASET_DIR: &str = "LM_EVAL_DATASET_DIR";

/// How many processes run functions of tasks; by default as many as there are cores.
const LM_EVAL_PYTHON_WORKERS: &str = "LM_EVAL_PYTHON_WORKERS";

/// How many seconds one call of a function of a task may take; by default 600.
const LM_EVAL_PYTHON_TIMEOUT: &str = "LM_EVAL_PYTHON_TIMEOUT";

/// How many MiB of address space each process that runs functions may take; by default any number.
const LM_EVAL_PYTHON_MEMORY: &str = "LM_EVAL_PYTHON_MEMORY";

/// If all digits, the number of rows that are read of every split.
const LMEVAL_LIMIT: &str = "LMEVAL_LIMIT";

/// Whether hashes stand for bytes, such as those of images, in records.
const LMEVAL_HASHMM: &str = "LMEVAL_HASHMM";

/// `WARNING` or above: a run prints results, warnings and errors alone, as with `--quiet`.
const LMEVAL_LOG_LEVEL: &str = "LMEVAL_LOG_LEVEL";

/// The line of the reference whose rules are followed, where neither `--compat` nor a file of settings says one.
pub const LM_EVAL_COMPAT: &str = "LM_EVAL_COMPAT";

/// The time zone of the time stamps of files, as everywhere.
const TZ: &str = "TZ";

/// The kind of terminal: without it, or with `dumb`, no line changes.
const TERM: &str = "TERM";

/// Which of the processes of a launcher such as `accelerate launch` this is, from 0.
const RANK: &str = "RANK";

/// How many processes a launcher has started.
const WORLD_SIZE: &str = "WORLD_SIZE";

/// The number of this process and of all of them, where a launcher has started it after the first one.
pub fn later_process() -> Option<(u64, u64)> {
    let number = |variable: &str| std::env::var(variable).ok()?.parse::<u64>().ok();
    let (rank, size) = (number(RANK)?, number(WORLD_SIZE)?);
    (size > 1 && rank > 0).then_some((rank, size))
}

/// The value of `LMEVAL_LIMIT`, where it is a number.
pub fn limit_rows() -> Option<u64> {
    let value = std::env::var(LMEVAL_LIMIT).ok()?;
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
}

/// The value of `LM_EVAL_DATASET_DIR`.
pub fn dataset_dir() -> Option<PathBuf> {
    std::env::var_os(LM_EVAL_DATASET_DIR).map(PathBuf::from)
}

/// Sets the limits of processes that run functions of tasks.
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

/// The value of a variable that is a whole number above 0.
fn number(variable: &str) -> Result<Option<u64>> {
    let Ok(value) = std::env::var(variable) else { return Ok(None) };
    match value.parse() {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => bail!("`{variable}` must be a whole number above 0, not `{value}`"),
    }
}

/// The value of `LMEVAL_HASHMM`; off where it is not set.
pub fn hash_media() -> Result<bool> {
    let Ok(value) = std::env::var(LMEVAL_HASHMM) else { return Ok(false) };
    match lmeval_report::parse_hash_media(Some(&value)) {
        Some(flag) => Ok(flag),
        None => bail!("`{LMEVAL_HASHMM}` must be `true` or `false`, not `{value}`"),
    }
}

/// Whether `LMEVAL_LOG_LEVEL` asks for warnings and errors alone.
pub fn only_warnings() -> bool {
    let level = std::env::var(LMEVAL_LOG_LEVEL).unwrap_or_default().to_uppercase();
    matches!(level.as_str(), "WARNING" | "WARN" | "ERROR" | "CRITICAL" | "FATAL")
}

/// The zone of time stamps, as `TZ` names it.
pub fn time_zone() -> TimeZone {
    TimeZone::local(std::env::var(TZ).ok().as_deref())
}

/// Whether the terminal can move back in a line.
pub fn terminal_moves() -> bool {
    std::env::var_os(TERM).is_some_and(|term| term != "dumb")
}
