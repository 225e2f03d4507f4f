//! The flags that were given, under the names of settings.

use anyhow::Result;
use lmeval_pycompat::{Dict, Value};

use crate::run::arguments::{DICT_OPTIONS, RunArgs};
use crate::run::{dict_option, seed};

/// Settings that the command line gives.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// The settings; what was not given is not there.
    pub dict: Dict,
    /// Warnings.
    pub notes: Vec<String>,
}

/// Collects what was given.
pub(crate) fn given(arguments: &RunArgs) -> Result<Given> {
    let mut given = Given::default();
    texts(arguments, &mut given.dict);
    numbers(arguments, &mut given.dict);
    flags(arguments, &mut given.dict);
    for name in DICT_OPTIONS.map(|option| option.name) {
        if let Some(words) = arguments.dicts.get(name) {
            let typed = dict_option::parse(name, words)?;
            given.dict.insert(name, typed.dict);
            given.notes.extend(typed.notes);
        }
    }
    if let Some(tasks) = &arguments.tasks {
        given
            .dict
            .insert("tasks", Value::list(tasks.iter().flat_map(|word| word.split(',')).map(Value::str)));
    }
    if let Some(samples) = &arguments.samples {
        given.dict.insert("samples", samples.clone());
    }
    if let Some(metadata) = &arguments.metadata {
        given.dict.insert("metadata", metadata.clone());
    }
    if let Some(seeds) = &arguments.seed {
        given.dict.insert("seed", seed::to_value(&seeds.seeds));
        if seeds.filled {
            given
                .notes
                .push("`--seed` gives three seeds; that of the few-shot examples stays 1234".to_owned());
        }
    }
    Ok(given)
}

fn texts(arguments: &RunArgs, dict: &mut Dict) {
    for (name, text) in [
        ("config", &arguments.config),
        ("model", &arguments.model),
        ("batch_size", &arguments.batch_size),
        ("device", &arguments.device),
        ("use_cache", &arguments.use_cache),
        ("cache_requests", &arguments.cache_requests),
        ("output_path", &arguments.output_path),
        ("system_instruction", &arguments.system_instruction),
        ("compat", &arguments.compat),
        ("library", &arguments.library.library),
    ] {
        if let Some(text) = text {
            dict.insert(name, text.as_str());
        }
    }
    if let Some(python) = &arguments.python.python {
        dict.insert("python", python.to_string_lossy().as_ref());
    }
    if !arguments.python.plugins.is_empty() {
        dict.insert(
            "plugins",
            Value::list(arguments.python.plugins.iter().map(|plugin| Value::str(plugin.as_str()))),
        );
    }
    if let Some(level) = &arguments.verbosity {
        dict.insert("verbosity", level.to_uppercase());
    }
    match &arguments.apply_chat_template {
        None => {}
        Some(None) => drop(dict.insert("apply_chat_template", true)),
        Some(Some(name)) => drop(dict.insert("apply_chat_template", name.as_str())),
    }
    if let Some(word) = &arguments.fewshot_as_multiturn {
        dict.insert("fewshot_as_multiturn", is_true(word));
    }
    let folders: Vec<Value> = arguments
        .library
        .include_path
        .iter()
        .map(|folder| Value::from(folder.to_string_lossy().into_owned()))
        .collect();
    match folders.as_slice() {
        [] => {}
        [one] => drop(dict.insert("include_path", one.clone())),
        several => drop(dict.insert("include_path", Value::list(several.iter().cloned()))),
    }
    if let Some(mode) = arguments.progress {
        dict.insert("progress", name_of(&mode));
    }
    if let Some(format) = arguments.format {
        dict.insert("format", name_of(&format));
    }
}

/// The name of a choice, as the command line has it.
fn name_of(choice: &impl clap::ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Reference: everything but these three words is false.
pub(crate) fn is_true(word: &str) -> bool {
    matches!(word.to_lowercase().as_str(), "true" | "1" | "yes")
}

fn numbers(arguments: &RunArgs, dict: &mut Dict) {
    if let Some(limit) = arguments.limit {
        dict.insert("limit", limit);
    }
    for (name, number) in [
        ("num_fewshot", arguments.num_fewshot),
        ("repeats", arguments.repeats),
        ("max_batch_size", arguments.max_batch_size),
        ("bootstrap_iters", arguments.bootstrap_iters),
        ("max_failures", arguments.max_failures.map(|most| i64::try_from(most).unwrap_or(i64::MAX))),
    ] {
        if let Some(number) = number {
            dict.insert(name, number);
        }
    }
}

fn flags(arguments: &RunArgs, dict: &mut Dict) {
    for (name, flag) in [
        ("log_samples", arguments.log_samples),
        ("check_integrity", arguments.check_integrity),
        ("write_out", arguments.write_out),
        ("show_config", arguments.show_config),
        ("predict_only", arguments.predict_only),
        ("trust_remote_code", arguments.trust_remote_code),
        ("confirm_run_unsafe_code", arguments.confirm_run_unsafe_code),
        ("fresh", arguments.fresh),
        ("quiet", arguments.quiet),
    ] {
        if flag {
            dict.insert(name, true);
        }
    }
}
