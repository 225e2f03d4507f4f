//! Every environment variable that the command reads, with its documentation.

/// The folder that holds installed task libraries; by default `lm-eval` in the user's data directory.
pub(crate) const LM_EVAL_HOME: &str = "LM_EVAL_HOME";

/// The Python interpreter whose `pip` fetches task libraries, unless `--python` names one.
pub(crate) const VIRTUAL_ENV: &str = "VIRTUAL_ENV";
