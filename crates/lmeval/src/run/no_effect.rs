//! Settings that are accepted and have no effect, or none yet.

use anyhow::{Result, bail};
use lmeval_pycompat::{Dict, Value, repr};

use crate::run::layers::Layers;

/// The arguments of `--hf_hub_log_args`.
const HUB_ARGUMENTS: [&str; 12] = [
    "output_path",
    "hub_results_org",
    "hub_repo_name",
    "details_repo_name",
    "results_repo_name",
    "push_results_to_hub",
    "push_samples_to_hub",
    "public_repo",
    "gated",
    "token",
    "leaderboard_url",
    "point_of_contact",
];

impl Layers {
    /// Says what is accepted and has no effect.
    pub(crate) fn note_no_effect(&self, notes: &mut Vec<String>) -> Result<()> {
        for (name, what) in [("wandb_args", "Weights & Biases"), ("trackio_args", "Trackio")] {
            if !self.dict(name)?.is_empty() {
                notes.push(format!(
                    "`--{name}`: logging to {what} is not in this version yet; the run goes on without"
                ));
            }
        }
        let hub = self.dict("hf_hub_log_args")?;
        for key in hub.keys() {
            let name = repr::str(key);
            if !HUB_ARGUMENTS.contains(&name.as_str()) {
                bail!(
                    "`--hf_hub_log_args` has no argument `{name}`\nhint: It has `{}`",
                    HUB_ARGUMENTS.join("`, `")
                );
            }
        }
        let pushes = ["push_results_to_hub", "push_samples_to_hub"];
        if pushes.iter().any(|name| hub.get_str(name).is_some_and(Value::is_truthy)) {
            notes.push(
                "`--hf_hub_log_args`: pushing to the hub is not in this version yet; files are written here alone"
                    .to_owned(),
            );
        }
        if self.value("cache_requests").is_truthy() {
            check_cache_requests(&self.value("cache_requests"))
                .map_err(|expected| self.wrong("cache_requests", expected))?;
            notes.push(
                "`--cache_requests` has no effect: prompts are built faster than they could be read"
                    .to_owned(),
            );
        }
        if !self.value("verbosity").is_none() {
            notes.push("`--verbosity` has no effect; see `--quiet` and `--progress`".to_owned());
        }
        Ok(())
    }
}

/// The flags that `--cache_requests` stands for.
const CACHE_FLAGS: [&str; 3] = ["cache_requests", "rewrite_requests_cache", "delete_requests_cache"];

fn check_cache_requests(value: &Value) -> Result<(), &'static str> {
    match value {
        Value::Bool(_) => Ok(()),
        Value::Str(word) if ["true", "refresh", "delete"].contains(&&**word) => Ok(()),
        Value::Dict(flags)
            if flags.keys().all(|key| key.as_str().is_some_and(|key| CACHE_FLAGS.contains(&key))) =>
        {
            Ok(())
        }
        _ => Err("`true`, `refresh` or `delete`"),
    }
}

/// The three flags that the record shows.
pub(crate) fn cache_requests(value: &Value) -> Value {
    let word = match value {
        Value::Bool(true) => "true",
        Value::Str(word) => word,
        Value::Dict(_) => return value.clone(),
        _ => return Value::from(Dict::new()),
    };
    let flags = [word != "delete", word == "refresh", word == "delete"];
    Value::dict(CACHE_FLAGS.into_iter().zip(flags.map(Value::Bool)))
}
