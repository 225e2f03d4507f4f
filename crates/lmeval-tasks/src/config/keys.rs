//! The keys of tasks and groups, and hints about unknown ones.

use lmeval_core::nearest;
use lmeval_pycompat::Dict;

use super::path::ConfigPath;
use super::read::{Reader, value_text};
use super::words::{quoted, shortened};
use crate::error::{Error, ErrorKind};

/// The keys of a task, in the order of results.
pub const TASK_KEYS: [&str; 41] = [
    "task",
    "task_alias",
    "formats",
    "output_type",
    "tag",
    "custom_dataset",
    "dataset_path",
    "dataset_name",
    "dataset_kwargs",
    "training_split",
    "validation_split",
    "test_split",
    "fewshot_split",
    "process_docs",
    "description",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "gen_prefix",
    "doc_to_image",
    "doc_to_audio",
    "process_results",
    "target_delimiter",
    "fewshot_delimiter",
    "fewshot_config",
    "num_fewshot",
    "generation_kwargs",
    "metric_list",
    "filter_list",
    "scorer",
    "repeats",
    "reductions",
    "unsafe_code",
    "use_prompt",
    "multiple_inputs",
    "multiple_targets",
    "should_decontaminate",
    "doc_to_decontamination_query",
    "metadata",
    "_formats_selection",
    "_qualified_name",
];

/// The keys of a group.
pub const GROUP_KEYS: [&str; 6] =
    ["group", "group_alias", "task", "include", "aggregate_metric_list", "metadata"];

/// The maximum number of unknown keys with a hint in one message.
const MAX_HINTS: usize = 5;

/// Advice about a key from older releases or other tools.
fn advice(key: &str) -> Option<&'static str> {
    Some(match key {
        "batch_size" => "`batch_size` is an option of the run (`--batch_size`), not of a task",
        "gen_kwargs" => {
            "`gen_kwargs` is an option of the run (`--gen_kwargs`); a task has `generation_kwargs`"
        }
        "max_gen_toks"
        | "max_tokens"
        | "max_new_tokens"
        | "max_completion_tokens"
        | "until"
        | "stop"
        | "temperature"
        | "do_sample"
        | "top_p"
        | "top_k"
        | "num_beams" => "Settings of the generation belong under `generation_kwargs`",
        "gold_alias" => "Instead of `gold_alias`, return the answer as it is scored from `doc_to_target`",
        "template_aliases" => {
            "Instead of `template_aliases`, write the template itself, or use `process_docs`"
        }
        "group" | "groups" => {
            "To select tasks by a common name use `tag`; a group is a separate mapping with `group` and `task`"
        }
        "group_alias" => "A task has `task_alias`",
        "aggregate_metric_list" => "Only a group has `aggregate_metric_list`",
        "task_list" => "`task_list` is read only from files, where each entry becomes a task",
        "class" => "A Python task class must come from a file",
        "include" => "`include` works in files only",
        "dataset" => "The dataset is named by `dataset_path` and `dataset_name`",
        "data_files" | "data_dir" | "revision" | "trust_remote_code" => {
            "Arguments of the dataset loader belong under `dataset_kwargs`"
        }
        "split" | "eval_split" => "The evaluated split is `test_split` or `validation_split`",
        "train_split" => "The split of training documents is `training_split`",
        "version" => "The version belongs under `metadata`",
        "metric" | "metrics" => "Metrics are listed under `metric_list`",
        "filter" | "filters" => "Filters are listed under `filter_list`",
        "aggregation" | "higher_is_better" | "reduction" => {
            "This belongs in an entry of `metric_list`, next to its `metric`"
        }
        "sampler" | "samples" | "fewshot_indices" => "Settings of the examples belong under `fewshot_config`",
        "n_shot" | "fewshot" | "num_shots" => "The number of examples is `num_fewshot`",
        "system_instruction" | "system_prompt" => {
            "The system prompt is an option of the run (`--system_instruction`); a task has `description`"
        }
        "format" => "Prompt formats are set by `formats`",
        "prompt" | "question" | "doc_to_question" => "The prompt is `doc_to_text`",
        "choices" | "doc_to_choices" => "The options are `doc_to_choice`",
        "target" | "answer" | "doc_to_answer" => "The gold answer is `doc_to_target`",
        _ => return None,
    })
}

impl Reader<'_> {
    /// Rejects all unknown keys of a dictionary in one error.
    pub(super) fn reject_unknown(
        &self,
        whole: &str,
        below: Option<&ConfigPath>,
        dict: &Dict,
        known: &[&str],
    ) -> Result<(), Error> {
        let unknown: Vec<String> = dict
            .keys()
            .filter(|key| key.as_str().is_none_or(|name| !known.contains(&name)))
            .map(value_text)
            .collect();
        let Some(first) = unknown.first() else {
            return Ok(());
        };
        let noun = if unknown.len() == 1 { "Unknown key" } else { "Unknown keys" };
        let path = below.map_or_else(|| ConfigPath::key(first), |below| below.then(first.as_str()));
        let mut error =
            self.error(ErrorKind::Type, &path, format!("{noun} in {whole}: {}", quoted(&unknown)));
        for key in unknown.iter().take(MAX_HINTS) {
            let special = if below.is_none() { advice(key) } else { None };
            error = match special {
                Some(text) => error.hint(text),
                None => match nearest(key, known.iter().copied())[..] {
                    [] => error,
                    ref near => {
                        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
                        error.hint(format!("`{}`: did you mean {}?", shortened(key), near.join(" or ")))
                    }
                },
            };
        }
        Err(error)
    }
}
