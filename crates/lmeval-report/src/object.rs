//! The result object: everything that a run says, in the order in which the reference says it.

use lmeval_core::results::{RunResults, hash_text};
use lmeval_core::secrets::mask_secrets;
use lmeval_core::{Dialect, ModelFacts};
use lmeval_pycompat::repr::float_repr;
use lmeval_pycompat::{Dict, Value};

use crate::clock::Moment;
use crate::environment::{Environment, lm_eval_version};
use crate::names::ModelName;
use crate::samples::with_hashed_media;

/// What is known of a run beside its scores.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// The name of the back end, or of the class of a ready-made model.
    pub model: String,
    /// The name that the back end was asked for by; `CUSTOM` for a ready-made model.
    pub model_source: String,
    /// The name of the model itself, and of its folder.
    pub model_name: ModelName,
    /// The arguments of the model as they were given: text or a mapping.
    pub model_args: Value,
    /// What the model says of itself.
    pub model_facts: ModelFacts,
    /// The batch size as it was asked for.
    pub batch_size: Value,
    /// The batch sizes that were found, where the size was to be found.
    pub batch_sizes: Vec<i64>,
    /// The device.
    pub device: Value,
    /// The cache of answers.
    pub use_cache: Value,
    /// How many documents of each task, where not all.
    pub limit: Value,
    /// How often a standard error is drawn.
    pub bootstrap_iters: Value,
    /// The settings of generations that the run sets.
    pub gen_kwargs: Value,
    /// The seeds.
    pub seeds: Seeds,
    /// When the run began.
    pub start: Moment,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Where it took place.
    pub environment: Environment,
    /// The system text.
    pub system_instruction: Option<String>,
    /// The source of the chat template, where one was applied.
    pub chat_template: Option<String>,
    /// Whether examples are turns of a conversation; `None` where nobody said so and prompts are plain text.
    pub fewshot_as_multiturn: Option<bool>,
    /// The rules that hold.
    pub dialect: Dialect,
    /// How many requests have no answer.
    pub failed_requests: usize,
    /// Whether hashes stand for bytes in samples.
    pub hash_media: bool,
    /// For each task that ran code of the model the limits under which it ran.
    pub code_limits: Dict,
}

/// The seeds of a run, null for those that are not set.
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

/// The result object as programs get it: with the samples that were kept, without what only files say.
///
/// `configs` holds the configuration of each task by its key.
pub fn result_object(results: &RunResults, configs: &Dict, facts: &RunFacts) -> Dict {
    let mut object = evaluation(results, configs);
    if !results.samples.is_empty() {
        object.insert("samples", samples(results, facts.hash_media));
    }
    add_run(&mut object, facts);
    add_own(&mut object, results, facts);
    object
}

/// The result object as its file has it: without samples, with hashes, names and the duration.
pub fn file_object(results: &RunResults, configs: &Dict, task_hashes: &Dict, facts: &RunFacts) -> Dict {
    let mut object = evaluation(results, configs);
    add_run(&mut object, facts);
    add_tracked(&mut object, task_hashes, facts);
    add_own(&mut object, results, facts);
    object
}

fn evaluation(results: &RunResults, configs: &Dict) -> Dict {
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

/// Configurations in the order of their keys, without secrets: the arguments of a model are part of the metadata.
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

/// What the run was asked for, and where it took place.
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

/// What is added when files are written.
fn add_tracked(object: &mut Dict, task_hashes: &Dict, facts: &RunFacts) {
    let given = |text: &Option<String>| Value::from(text.clone());
    // Reference: an empty text is kept, but has no hash.
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

/// Keys that the reference does not have stand behind all of its own.
fn add_own(object: &mut Dict, results: &RunResults, facts: &RunFacts) {
    object.insert("audit", results.audit.clone());
    object.insert("compat", facts.dialect.name);
    if facts.failed_requests > 0 {
        object.insert("failed_requests", facts.failed_requests as i64);
    }
    if !facts.code_limits.is_empty() {
        object.insert("code_limits", facts.code_limits.clone());
    }
}
