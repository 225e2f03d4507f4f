//! Settings that are accepted and have no effect, or none yet.

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, repr};

use super::layer::{Setting, Wrong};
use super::options::Options;

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

/// Says what is accepted and has no effect; `dict` gives the value of an option that takes a dictionary.
pub(super) fn note(options: &Options, dict: impl Fn(&str) -> Dict, notes: &mut Vec<String>) -> Result<()> {
    for (name, what) in [("wandb_args", "Weights & Biases"), ("trackio_args", "Trackio")] {
        if !dict(name).is_empty() {
            notes.push(format!(
                "`--{name}`: logging to {what} is not in this version yet; the run goes on without"
            ));
        }
    }
    let hub = dict("hf_hub_log_args");
    for key in hub.keys() {
        let name = repr::str(key);
        if !HUB_ARGUMENTS.contains(&name.as_str()) {
            let told = Diagnostic::new(format!("`--hf_hub_log_args` has no argument `{name}`"));
            bail!(told.hint(format!("It has `{}`", HUB_ARGUMENTS.join("`, `"))));
        }
    }
    let pushes = ["push_results_to_hub", "push_samples_to_hub"];
    if pushes.iter().any(|name| hub.get_str(name).is_some_and(Value::is_truthy)) {
        notes.push(
            "`--hf_hub_log_args`: pushing to the hub is not in this version yet; files are written here alone"
                .to_owned(),
        );
    }
    if options.cache_requests.is_some() {
        notes.push(
            "`--cache_requests` has no effect: prompts are built faster than they could be read".to_owned(),
        );
    }
    if options.verbosity.is_some() {
        notes.push("`--verbosity` has no effect; see `--quiet` and `--progress`".to_owned());
    }
    Ok(())
}

/// The flags that `--cache_requests` stands for.
const CACHE_FLAGS: [&str; 3] = ["cache_requests", "rewrite_requests_cache", "delete_requests_cache"];

/// The words that stand for them.
const CACHE_WORDS: [&str; 3] = ["true", "refresh", "delete"];

/// What `--cache_requests` says.
#[derive(Clone, Debug)]
pub struct CacheRequests(Value);

impl CacheRequests {
    /// Reads the words of the command line.
    pub(super) fn words() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(CACHE_WORDS).map(|word| Self(Value::from(word)))
    }

    /// The three flags that the record shows.
    pub(super) fn flags(&self) -> Value {
        let word = match &self.0 {
            Value::Str(word) => word,
            Value::Dict(_) => return self.0.clone(),
            _ => "true",
        };
        let flags = [word != "delete", word == "refresh", word == "delete"];
        Value::dict(CACHE_FLAGS.into_iter().zip(flags.map(Value::Bool)))
    }
}

impl Setting for CacheRequests {
    fn read(value: &Value) -> Result<Option<Self>, Wrong> {
        let is_flag = |key: &Value| key.as_str().is_some_and(|key| CACHE_FLAGS.contains(&key));
        let is_known = match value {
            value if !value.is_truthy() => return Ok(None),
            Value::Bool(_) => true,
            Value::Str(word) => CACHE_WORDS.contains(&&**word),
            Value::Dict(flags) => flags.keys().all(is_flag),
            _ => false,
        };
        if is_known {
            Ok(Some(Self(value.clone())))
        } else {
            Wrong::expected("`true`, `refresh` or `delete`")
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}
