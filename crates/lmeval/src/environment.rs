//! Every environment variable that the command reads, with its documentation.

/// The folder that holds installed task libraries; by default `lm-eval` in the user's data directory.
pub(crate) const LM_EVAL_HOME: &str = "LM_EVAL_HOME";

/// The Python interpreter whose `pip` fetches task libraries, unless `--python` names one.
pub(crate) const VIRTUAL_ENV: &str = "VIRTUAL_ENV";

/// A folder with copies of data sets: `<folder>/<dataset_path>` is used where it is there.
pub(crate) const LM_EVAL_DATASET_DIR: &str = "LM_EVAL_DATASET_DIR";

/// If all digits, the number of rows that are read of every split.
const LMEVAL_LIMIT: &str = "LMEVAL_LIMIT";

/// The value of `LMEVAL_LIMIT`, where it is a number.
pub(crate) fn limit_rows() -> Option<u64> {
    let value = std::env::var(LMEVAL_LIMIT).ok()?;
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
}
