//! Builds the result object, with keys in the reference's order.

use lmeval_core::secrets::mask_secrets;
use lmeval_core::{Dialect, ModelFacts};
use lmeval_pycompat::repr::float_repr;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::results::{RunResults, Sections, hash_text};

use crate::clock::Moment;
use crate::environment::{Environment, lm_eval_version};
use crate::names::ModelName;
use crate::samples::with_hashed_media;

/// Facts about a run besides its scores.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// The name of the backend, or the class of a model passed as an object.
    pub model: String,
    /// The name the backend was requested by; `CUSTOM` for a model passed as an object.
    pub model_source: String,
    /// The name of the model itself, and of its folder.
    pub model_name: ModelName,
    /// The model arguments as given: a string or a mapping.
    pub model_args: Value,
    /// Facts reported by the model.
    pub model_facts: ModelFacts,
    /// The requested batch size.
    pub batch_size: Value,
    /// The batch sizes found, if the size is automatic.
    pub batch_sizes: Vec<i64>,
    /// The device the model ran on, or null.
    pub device: Value,
    /// The value of `--use_cache`.
    pub use_cache: Value,
    /// The value of `--limit`.
    pub limit: Value,
    /// The number of bootstrap iterations for standard errors.
    pub bootstrap_iters: Value,
    /// Generation settings that override the tasks.
    pub gen_kwargs: Value,
    /// The seeds of all random number generators.
    pub seeds: Seeds,
    /// When the run started.
    pub start: Moment,
    /// The duration of the run in seconds.
    pub seconds: f64,
    /// The machine and repository of the run.
    pub environment: Environment,
    /// The system prompt.
    pub system_instruction: Option<String>,
    /// The source of the chat template, if one was applied.
    pub chat_template: Option<String>,
    /// Whether few-shot examples are turns of a conversation; `None` if unset and prompts are plain strings.
    pub fewshot_as_multiturn: Option<bool>,
    /// The rules of the release line in effect.
    pub dialect: Dialect,
    /// The number of requests without an answer.
    pub failed_requests: usize,
    /// Whether samples contain hashes instead of bytes.
    pub hash_media: bool,
    /// For each task that executed model-written code, the limits in effect.
    pub code_limits: Dict,
    /// For each judge, its settings and the tokens of its answers.
    pub judges: Dict,
    /// The tokens and the cost of the evaluated model, if prices are known.
    pub model_usage: Dict,
    /// For each multiple-choice task whose options were not compared by their log-likelihoods, how they were.
    pub choices: Dict,
}

/// The seeds of a run; null if unset.
#[derive(Clone, Debug, Default)]
pub struct Seeds {
    /// `random_seed`.
    pub random: Value,
    /// `numpy_seed`.
    pub numpy: Value,
    /// `torch_seed`.
    pub torch: Value,
    /// `fewshot_seed`.
    pub fewshot: Value,
}

/// The result object for programs: with samples, without the keys that only files have.
///
/// `configs` has the configuration of each task by key.
pub fn result_object(results: &RunResults, configs: &Dict, facts: &RunFacts) -> Dict {
    let sections = results.sections();
    let mut object = evaluation(&sections, configs);
    if !results.samples.is_empty() {
        object.insert("samples", samples(results, facts.hash_media));
    }
    add_run(&mut object, facts);
    add_extensions(&mut object, &sections, facts);
    object
}

/// The result object for files: without samples, with hashes, names and the duration.
pub fn file_object(results: &RunResults, configs: &Dict, task_hashes: &Dict, facts: &RunFacts) -> Dict {
    let sections = results.sections();
    let mut object = evaluation(&sections, configs);
    add_run(&mut object, facts);
    add_tracked(&mut object, task_hashes, facts);
    add_extensions(&mut object, &sections, facts);
    object
}

fn evaluation(results: &Sections, configs: &Dict) -> Dict {
    let mut object = Dict::new();
    object.insert("results", results.results.clone());
    if !results.groups.is_empty() {
        object.insert("groups", results.groups.clone());
    }
    object.insert("group_subtasks", results.group_subtasks.clone());
    object.insert("configs", shown_configs(configs));
    object.insert("versions", results.versions.clone());
    object.insert("n-shot", results.num_fewshot.clone());
    object.insert("higher_is_better", results.higher_is_better.clone());
    object.insert("n-samples", results.n_samples.clone());
    object
}

/// Configurations sorted by key, with secrets masked: metadata contains the model arguments.
fn shown_configs(configs: &Dict) -> Dict {
    let mut entries: Vec<(&Value, &Value)> = configs.iter().collect();
    entries.sort_by(|(left, _), (right, _)| left.as_str().cmp(&right.as_str()));
    let shown = |config: &Value| match config.as_dict() {
        Some(config) => {
            let mut config = config.clone();
            if let Some(metadata) = config.get_str_mut("metadata") {
                *metadata = mask_secrets(metadata);
            }
            Value::from(config)
        }
        None => config.clone(),
    };
    entries.into_iter().map(|(key, config)| (key.clone(), shown(config))).collect()
}

fn samples(results: &RunResults, hash_media: bool) -> Dict {
    if !hash_media {
        return results.samples_to_dict();
    }
    let tasks = results.samples.iter();
    tasks
        .map(|(task, records)| {
            let records = records.iter().map(|record| Value::from(with_hashed_media(record).to_dict()));
            (Value::str(task.as_str()), Value::list(records))
        })
        .collect()
}

/// Adds the settings and the environment of the run.
fn add_run(object: &mut Dict, facts: &RunFacts) {
    let mut config = Dict::new();
    config.insert("model", facts.model.as_str());
    config.insert("model_args", mask_secrets(&facts.model_args));
    config.update(&facts.model_facts.config);
    config.insert("batch_size", facts.batch_size.clone());
    config.insert("batch_sizes", Value::list(facts.batch_sizes.iter().copied().map(Value::Int)));
    config.insert("device", facts.device.clone());
    config.insert("use_cache", facts.use_cache.clone());
    config.insert("limit", facts.limit.clone());
    config.insert("bootstrap_iters", facts.bootstrap_iters.clone());
    config.insert("gen_kwargs", mask_secrets(&facts.gen_kwargs));
    config.insert("random_seed", facts.seeds.random.clone());
    config.insert("numpy_seed", facts.seeds.numpy.clone());
    config.insert("torch_seed", facts.seeds.torch.clone());
    config.insert("fewshot_seed", facts.seeds.fewshot.clone());
    object.insert("config", config);
    object.insert("git_hash", facts.environment.git_hash.clone());
    object.insert("date", facts.start.unix_seconds());
    object.insert("pretty_env_info", facts.environment.report.as_str());
    object.insert("transformers_version", "N/A");
    object.insert("lm_eval_version", lm_eval_version());
    object.insert("upper_git_hash", facts.environment.upper_git_hash.clone());
    object.update(&facts.model_facts.tokenizer);
}

/// Adds the keys that only files have.
fn add_tracked(object: &mut Dict, task_hashes: &Dict, facts: &RunFacts) {
    let given = |text: &Option<String>| Value::from(text.clone());
    // Reference: an empty string is kept but has no hash.
    let hash =
        |text: &Option<String>| Value::from(text.as_deref().filter(|text| !text.is_empty()).map(hash_text));
    object.insert("task_hashes", task_hashes.clone());
    object.insert("model_source", facts.model_source.as_str());
    object.insert("model_name", facts.model_name.name.as_str());
    object.insert("model_name_sanitized", facts.model_name.sanitized.as_str());
    object.insert("system_instruction", given(&facts.system_instruction));
    object.insert("system_instruction_sha", hash(&facts.system_instruction));
    object.insert("fewshot_as_multiturn", facts.fewshot_as_multiturn.map_or(Value::None, Value::Bool));
    object.insert("chat_template", given(&facts.chat_template));
    object.insert("chat_template_sha", hash(&facts.chat_template));
    object.insert("total_evaluation_time_seconds", float_repr(facts.seconds));
}

/// Adds keys that the reference does not have, after all of its own.
fn add_extensions(object: &mut Dict, results: &Sections, facts: &RunFacts) {
    object.insert("audit", results.audit.clone());
    object.insert("compat", facts.dialect.name);
    if facts.failed_requests > 0 {
        object.insert("failed_requests", facts.failed_requests as i64);
    }
    if !facts.code_limits.is_empty() {
        object.insert("code_limits", facts.code_limits.clone());
    }
    if !facts.model_usage.is_empty() {
        object.insert("model_usage", facts.model_usage.clone());
    }
    if !facts.judges.is_empty() {
        object.insert("judges", facts.judges.clone());
    }
    // The table of the 0.4 line has no marks.
    if !results.bounds.is_empty() && !facts.dialect.plain_result_files {
        object.insert("bounds", results.bounds.clone());
    }
    if !results.judging.is_empty() {
        object.insert("judging", results.judging.clone());
    }
    if !facts.choices.is_empty() {
        object.insert("choices", facts.choices.clone());
    }
}
