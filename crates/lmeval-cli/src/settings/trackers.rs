//! The experiment trackers that a run reports to.

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, repr};

use super::resolve::Resolver;

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

/// The arguments that decide whether anything is pushed.
const PUSHES: [&str; 2] = ["push_results_to_hub", "push_samples_to_hub"];

/// The arguments that are true or false; the others are strings.
const FLAGS: [&str; 4] = ["push_results_to_hub", "push_samples_to_hub", "public_repo", "gated"];

/// The trackers of a run and their arguments; a tracker without arguments is not used.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrackerSettings {
    /// Arguments of `wandb.init`.
    pub wandb: Dict,
    /// Values for the configuration of the Weights & Biases run.
    pub wandb_config: Dict,
    /// Arguments of `trackio.init`.
    pub trackio: Dict,
    /// The repositories of the hub that files are pushed to.
    pub hub: Dict,
}

impl TrackerSettings {
    /// Whether no tracker is used.
    pub(crate) fn is_empty(&self) -> bool {
        self.wandb.is_empty() && self.trackio.is_empty() && self.hub.is_empty()
    }

    /// The settings as the Python end reads them.
    pub(crate) fn to_dict(&self) -> Dict {
        let parts = [
            ("wandb", &self.wandb),
            ("wandb_config", &self.wandb_config),
            ("trackio", &self.trackio),
            ("hub", &self.hub),
        ];
        parts.into_iter().map(|(name, dict)| (Value::str(name), Value::from(dict.clone()))).collect()
    }

    pub(super) fn resolve(resolver: &mut Resolver, log_samples: bool) -> Result<Self> {
        let is_command = resolver.is_command();
        let (wandb, wandb_config) = (resolver.dict("wandb_args"), resolver.dict("wandb_config_args"));
        if is_command && wandb.is_empty() && !wandb_config.is_empty() {
            let diagnostic = Diagnostic::new("`--wandb_config_args` needs `--wandb_args`");
            bail!(diagnostic.hint("For example: `--wandb_args project=NAME`"));
        }
        let (hub_args, trackio) = (resolver.dict("hf_hub_log_args"), resolver.dict("trackio_args"));
        let hub = hub(&hub_args, log_samples || !is_command, &mut resolver.notes)?;
        Ok(Self { wandb, wandb_config, trackio, hub })
    }
}

/// The arguments for pushing to the hub; empty if nothing is pushed.
fn hub(given: &Dict, has_samples: bool, notes: &mut Vec<String>) -> Result<Dict> {
    let mut arguments = Dict::new();
    for (key, value) in given.iter() {
        let name = repr::str(key);
        let Some(name) = HUB_ARGUMENTS.into_iter().find(|known| *known == name) else {
            let diagnostic = Diagnostic::new(format!("`--hf_hub_log_args` has no argument `{name}`"));
            bail!(diagnostic.hint(format!("Valid arguments: `{}`", HUB_ARGUMENTS.join("`, `"))));
        };
        if FLAGS.contains(&name) {
            arguments.insert(name, value.is_truthy());
        } else if !value.is_none() {
            arguments.insert(name, repr::str(value));
        }
    }
    let is_set = |name: &str| arguments.get_str(name).is_some_and(Value::is_truthy);
    if !PUSHES.into_iter().any(is_set) {
        if arguments.keys().any(|name| name.as_str() != Some("output_path")) {
            notes.push(format!(
                "`--hf_hub_log_args` pushes nothing without `{}=True` or `{}=True`",
                PUSHES[0], PUSHES[1]
            ));
        }
        return Ok(Dict::new());
    }
    if is_set("push_samples_to_hub") && !has_samples {
        let diagnostic = Diagnostic::new("`push_samples_to_hub` needs sample records");
        bail!(diagnostic.hint("Add `--log_samples`"));
    }
    Ok(arguments)
}
