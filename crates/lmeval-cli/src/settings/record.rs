//! The record of settings printed by a run with a settings file.

use lmeval_core::secrets::mask_secrets;
use lmeval_pycompat::{Dict, Value, repr};

use super::layer::Layer as _;
use super::options::Options;

/// The settings of the reference, in the order of its record.
pub(super) const RECORDED: [&str; 33] = [
    "config",
    "model",
    "model_args",
    "tasks",
    "num_fewshot",
    "repeats",
    "batch_size",
    "max_batch_size",
    "device",
    "limit",
    "samples",
    "use_cache",
    "cache_requests",
    "check_integrity",
    "write_out",
    "log_samples",
    "output_path",
    "predict_only",
    "system_instruction",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "show_config",
    "include_path",
    "include_defaults",
    "gen_kwargs",
    "verbosity",
    "wandb_args",
    "wandb_config_args",
    "hf_hub_log_args",
    "seed",
    "trust_remote_code",
    "confirm_run_unsafe_code",
    "metadata",
];

/// The effective settings on one line, with secrets masked.
pub(crate) fn record_line(record: &Dict) -> String {
    let fields: Vec<String> = RECORDED
        .iter()
        .map(|name| {
            let value = record.get_str(name).map_or(Value::None, mask_secrets);
            format!("{name}={}", repr::repr(&value))
        })
        .collect();
    format!("EvaluatorConfig({})", fields.join(", "))
}

/// The settings that are given, as a settings file has them.
pub(super) fn given(options: &Options, dicts: &Dict) -> Dict {
    let mut given = Dict::new();
    options.put("", &mut given);
    for (name, dict) in dicts.iter() {
        if name.as_str().is_some_and(|name| given.contains_str(name)) {
            given.insert(name.clone(), dict.clone());
        }
    }
    given
}
