//! The stored run: its settings and its tasks.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_analysis::read::Run;
use lmeval_claims::recipe::RECIPE;
use lmeval_core::{Diagnostic, Dialect, OptionScoring};
use lmeval_engine::{Abilities, ChatTemplateChoice};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_tasks::{Overrides, TaskDict, TaskManager};

use super::arguments::StoredArgs;
use crate::run::choices;
use crate::run::output::{CHAT_DIGESTS, TASK_LIMITS};
use crate::settings::{Choices, Options, RunSettings};

/// Keys of the results that describe the model and stay as they are.
const OF_MODEL: [&str; 9] = [
    "transformers_version",
    "model_source",
    "model_name",
    "model_name_sanitized",
    "system_instruction",
    "system_instruction_sha",
    "fewshot_as_multiturn",
    "chat_template",
    "chat_template_sha",
];

/// Keys of the results that describe the tokenizer.
const OF_TOKENIZER: [&str; 5] =
    ["tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token", "eot_token_id", "max_length"];

/// The facts about the tokenizer in the stored results.
pub(crate) fn tokenizer(run: &Run) -> Dict {
    let stored = run.results.iter().flat_map(Dict::iter);
    let own = stored.filter(|(key, _)| key.as_str().is_some_and(|key| OF_TOKENIZER.contains(&key)));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The settings of the stored run, over the defaults.
pub(super) fn settings(run: &Run, arguments: &StoredArgs, options: &Options) -> Result<RunSettings> {
    let mut settings = RunSettings::from_flags(options)?;
    if let Some(results) = &run.results {
        let config = run.section("config").cloned().unwrap_or_default();
        apply(results, &config, &mut settings);
        if arguments.compat.is_none() {
            settings.dialect = dialect(results);
        }
    }
    if settings.prompts.choices.is_none() && settings.dialect.choices_on_chat {
        settings.prompts.choices = run.results.as_ref().and_then(choices::method);
    }
    if arguments.tasks.is_none() && (run.results.is_some() || !run.samples.is_empty()) {
        let is_samples_file = arguments.run.extension().is_some_and(|extension| extension == "jsonl");
        settings.documents.tasks = tasks(run, is_samples_file);
    } else if arguments.tasks.is_none() && arguments.config.is_none() {
        let diagnostic =
            Diagnostic::new(format!("`{}` does not say which tasks it answers", run.path.display()));
        bail!(
            diagnostic
                .hint("Name them with `--tasks`, and other settings of the run in a file: `--config FILE`")
        );
    }
    Ok(settings)
}

fn apply(results: &Dict, config: &Dict, settings: &mut RunSettings) {
    let text = |dict: &Dict, key: &str| dict.get_str(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(model) = text(config, "model").or_else(|| text(results, "model_source")) {
        settings.model.name = model;
    }
    settings.model.args = pairs(config.get_str("model_args"));
    settings.metadata = settings.model.args.clone();
    settings.metadata.update(&common_metadata(results));
    settings.prompts.gen_kwargs = pairs(config.get_str("gen_kwargs"));
    settings.documents.limit = config.get_str("limit").cloned().unwrap_or_default();
    settings.model.batch_size = config.get_str("batch_size").cloned().unwrap_or(Value::Int(1));
    settings.model.device = text(config, "device");
    if let Some(draws) = config.get_str("bootstrap_iters").and_then(Value::as_i64) {
        settings.scoring.bootstrap_iters = draws;
    }
    for (seed, name) in
        settings.prompts.seeds.iter_mut().zip(["random_seed", "numpy_seed", "torch_seed", "fewshot_seed"])
    {
        // Files of old releases do not record their seeds, which were the defaults.
        if let Some(stored) = config.get_str(name) {
            *seed = stored.as_i64();
        }
    }
    settings.prompts.system_instruction = text(results, "system_instruction");
    let multiturn = results.get_str("fewshot_as_multiturn").map(Value::is_truthy);
    settings.prompts.fewshot_as_multiturn = multiturn;
    let is_chat = text(results, "chat_template").is_some()
        || multiturn == Some(true)
        || results.contains_str(CHAT_DIGESTS);
    settings.prompts.apply_chat_template =
        if is_chat { ChatTemplateChoice::Default } else { ChatTemplateChoice::Off };
}

/// The abilities of the model of the run. Without results, the user says how options were compared.
pub(super) fn abilities(run: &Run, settings: &RunSettings) -> Abilities {
    match &run.results {
        Some(results) => choices::abilities(results),
        None if settings.prompts.choices == Some(Choices::Letters) => {
            Abilities { scoring: OptionScoring::Letters, reasons: false }
        }
        None => Abilities::default(),
    }
}

/// A mapping, or a string of `key=value` pairs as releases of the Python harness write it.
fn pairs(value: Option<&Value>) -> Dict {
    match value {
        Some(Value::Dict(dict)) => (**dict).clone(),
        Some(Value::Str(text)) => crate::settings::parse_pairs(text),
        _ => Dict::new(),
    }
}

/// Metadata that all tasks share, so that it comes from the run.
fn common_metadata(results: &Dict) -> Dict {
    let configs = results.get_str("configs").and_then(Value::as_dict);
    let mut all = configs.into_iter().flat_map(Dict::values).map(|config| {
        config.as_dict().and_then(|config| config.get_str("metadata")?.as_dict().cloned()).unwrap_or_default()
    });
    let mut common = all.next().unwrap_or_default();
    for other in all {
        common = common
            .iter()
            .filter(|(key, value)| other.get(key) == Some(*value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
    }
    common.remove_str("version");
    common
}

/// Keys of a task's configuration that decide its prompts.
const OF_PROMPTS: [&str; 7] = [
    "output_type",
    "description",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "target_delimiter",
    "fewshot_delimiter",
];

/// Adds the format to tasks that ran with one: results name only the task, but have the configuration that the format made.
pub(super) fn restore_formats(run: &Run, settings: &mut RunSettings, manager: &TaskManager) {
    let configs = run.section("configs");
    for name in settings.documents.tasks.iter_mut().filter(|name| !name.contains('@')) {
        let Some(config) = configs.and_then(|configs| configs.get_str(name)?.as_dict()) else { continue };
        let formats = config.get_str("formats").and_then(Value::as_dict).into_iter().flat_map(Dict::keys);
        let named = formats.filter_map(Value::as_str).map(|format| format!("{name}@{format}"));
        let has_prompts = |name: &String| {
            let loaded = manager
                .select(std::slice::from_ref(name))
                .and_then(|specs| manager.load(&specs, Overrides::default()));
            let Some(task) = loaded.ok().and_then(|loaded| loaded.tasks.into_values().next()) else {
                return false;
            };
            let now = task.config.to_dict(task.mapping(), &settings.dialect, settings.scoring.predict_only);
            OF_PROMPTS.iter().all(|key| {
                let [now, then] = [now.get_str(key), config.get_str(key)].map(|value| value.map(repr::str));
                now == then
            })
        };
        if let Some(found) = std::iter::once(name.clone()).chain(named).find(has_prompts) {
            *name = found;
        }
    }
}

/// The release line of the run.
fn dialect(results: &Dict) -> Dialect {
    let named = results.get_str("compat").and_then(Value::as_str).and_then(|name| name.parse().ok());
    let version = results.get_str("lm_eval_version").and_then(Value::as_str).unwrap_or_default();
    named.unwrap_or(if version.starts_with("0.4") { Dialect::V04 } else { Dialect::V05 })
}

/// The groups and tasks of a run that are not inside another group, in its order.
fn tasks(run: &Run, is_samples_file: bool) -> Vec<String> {
    let named = |section: &str| -> Vec<String> {
        let keys = run.section(section).into_iter().flat_map(Dict::keys);
        keys.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let tasks = named("configs");
    if tasks.is_empty() || is_samples_file {
        return run.samples.iter().map(|file| file.task.clone()).collect();
    }
    let groups = run.section("group_subtasks").cloned().unwrap_or_default();
    let members_of = |name: &str| groups.get_str(name).and_then(Value::as_list).unwrap_or_default();
    let group_of = |name: &str| {
        let is_member = |members: &Value| {
            members
                .as_list()
                .is_some_and(|members| members.iter().any(|member| member.as_str() == Some(name)))
        };
        groups
            .iter()
            .find(|(_, members)| is_member(members))
            .and_then(|(group, _)| group.as_str().map(str::to_owned))
    };
    let is_known = |name: &str| tasks.iter().any(|task| task == name) || !members_of(name).is_empty();
    let recipe = run.section(RECIPE).and_then(|recipe| recipe.get_str("name")?.as_str()).unwrap_or_default();
    let is_row = |name: &String| {
        name == recipe
            || name.strip_prefix(recipe).is_some_and(|row| !recipe.is_empty() && row.starts_with("::"))
    };
    let all = named("results").into_iter().chain(named("group_subtasks")).chain(tasks.clone());
    let mut top: Vec<String> = Vec::new();
    for mut name in all.filter(|name| is_known(name) && (tasks.contains(name) || !is_row(name))) {
        // A group comes where its first task is. Groups do not contain themselves, but a file may say so.
        for _ in 0..groups.len() {
            name = group_of(&name).unwrap_or(name);
        }
        if !top.contains(&name) {
            top.push(name);
        }
    }
    top
}

/// Gives the tasks the numbers of few-shot examples and of repeats that the run had.
///
/// A task that is a Python class gets its few-shot count when the class is created, from the settings of the run.
pub(super) fn restore_counts(run: &Run, tasks: &mut TaskDict, settings: &mut RunSettings) {
    let of_task = |section: &str, name: &str| {
        let section = run.section(section)?;
        let own = name.rsplit_once("::").map_or(name, |(_, own)| own);
        section.get_str(name).or_else(|| section.get_str(own)).cloned()
    };
    for (name, task) in &mut tasks.tasks {
        let stored = of_task("configs", name);
        let config = |key: &str| stored.as_ref().and_then(Value::as_dict)?.get_str(key)?.as_i64();
        let shots =
            of_task("n-shot", name).and_then(|shots| shots.as_i64()).or_else(|| config("num_fewshot"));
        if let Some(shots) = shots {
            task.config.num_fewshot = Some(shots);
            if task.config.class.is_some() && shots > 0 {
                settings.prompts.num_fewshot = Some(shots);
            }
        }
        if let Some(repeats) =
            config("repeats").and_then(|repeats| usize::try_from(repeats).ok()).filter(|repeats| *repeats > 0)
        {
            task.config.set_repeats(repeats);
        }
        if let Some(limit) =
            of_task(TASK_LIMITS, name).and_then(|limit| usize::try_from(limit.as_i64()?).ok())
        {
            task.options.limit.get_or_insert(limit);
        }
        let stored = stored.as_ref().and_then(|stored| stored.as_dict()?.get_str("reductions")?.as_list());
        if let Some(stored) = stored {
            let names: Vec<Arc<str>> = stored.iter().filter_map(Value::as_str).map(Arc::from).collect();
            task.config.set_reductions(&names);
        }
    }
}

/// Puts what the stored results say about the model and its settings into new ones, and notes where they come from.
pub(crate) fn keep_model(object: &mut Dict, run: &Run, rescored: &Dict) {
    if let Some(results) = &run.results {
        if let Some(config) = run.section("config") {
            object.insert("config", config.clone());
        }
        for key in OF_MODEL {
            if let Some(value) = results.get_str(key).filter(|_| object.contains_str(key)) {
                let value = value.clone();
                object.insert(key, value);
            }
        }
    }
    if let Some(recipe) = run.section(RECIPE) {
        object.insert(RECIPE, recipe.clone());
    }
    object.insert("rescored", rescored.clone());
}

/// A key of the results as a string.
pub(crate) fn text(run: &Run, key: &str) -> Option<String> {
    run.results.as_ref()?.get_str(key).filter(|value| !value.is_none()).map(repr::str)
}
