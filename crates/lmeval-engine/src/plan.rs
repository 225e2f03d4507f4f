//! Plans a run and checks it before anything is sent.

use std::sync::Arc;

use lmeval_core::{
    Diagnostic, MAX_REPEATS, Model, ModelError, ModelErrorKind, ModelTemplate, OutputType, RequestType,
    nearest,
};
use lmeval_pycompat::Value;
use lmeval_scoring::Host;
use lmeval_scoring::groups::GroupSpec;
use lmeval_scoring::scorers::{ScoringSources, TaskScorer};
use lmeval_tasks::prompt::RequestOptions;
use lmeval_tasks::scoring::{ResultKeys, group_specs, prepare_scoring};
use lmeval_tasks::{Task, TaskDict};

use crate::choices::{Choices, choose};
use crate::class_tasks::{ClassSettings, load_class};
use crate::error::EngineError;
use crate::judging::unbound;
use crate::options::{ChatTemplateChoice, EvaluateOptions};

/// A task and everything needed to evaluate it.
#[derive(Debug)]
pub(crate) struct PlannedTask {
    /// The key of the task in the results.
    pub(crate) key: String,
    pub(crate) task: Arc<Task>,
    pub(crate) scorer: TaskScorer,
    /// Scores documents ahead, if the run is watched and the task allows it.
    pub(crate) preview: Option<TaskScorer>,
    pub(crate) options: RequestOptions,
    /// Whether to create a record of each document.
    pub(crate) log_samples: bool,
    /// Makes the questions to judges, if the task has any.
    pub(crate) judging: Option<TaskScorer>,
    /// How options are compared, if not by their log-likelihoods.
    pub(crate) choices: Option<Choices>,
}

impl PlannedTask {
    /// Whether documents are scored and dropped in blocks, before all of them are answered.
    pub(crate) fn scores_in_blocks(&self) -> bool {
        !self.log_samples && self.may_score_in_blocks()
    }

    /// Whether each document is scored by itself, and scoring runs no programs.
    pub(crate) fn may_score_in_blocks(&self) -> bool {
        !self.task.config.unsafe_code && !self.scorer.needs().together
    }
}

/// A checked run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) tasks: Vec<PlannedTask>,
    pub(crate) groups: Vec<GroupSpec>,
    pub(crate) template: Option<ModelTemplate>,
}

/// Applies the caller's settings to the tasks and checks that they can be evaluated. Without a model, answers that
/// exist already are scored.
pub(crate) fn plan(
    model: Option<&dyn Model>,
    loaded: TaskDict,
    options: &EvaluateOptions,
) -> Result<Plan, EngineError> {
    if options.limit.is_some() && options.samples.is_some() {
        return Err(settings("`limit` and `samples` cannot be combined", "Use only one of them"));
    }
    if loaded.tasks.is_empty() {
        return Err(settings("No tasks to evaluate", "Select some with `--tasks`"));
    }
    let keys = ResultKeys::new(&loaded, &options.dialect)?;
    check_samples(&loaded, &keys, options)?;
    let template = match (&options.apply_chat_template, model) {
        (ChatTemplateChoice::Off, _) | (_, None) => None,
        (ChatTemplateChoice::Default, Some(model)) => Some(model.chat_template(None)?),
        (ChatTemplateChoice::Named(name), Some(model)) => Some(model.chat_template(Some(name))?),
    };
    let mut sources = ScoringSources::new(&options.dialect);
    if let Some(python) = &options.data.python {
        sources.host = Arc::clone(python) as Arc<dyn Host>;
    }
    let groups = group_specs(&loaded, &keys);
    let tasks = loaded.tasks.into_iter().map(|(name, mut task)| {
        let class = ClassSettings::from_options(options, &task.options);
        load_class(&mut task, &class, &options.data)?;
        let (mut task, choices) = choose(model, task, options)?;
        apply_overrides(&mut task, options)?;
        check(model, &task, choices.as_ref(), options)?;
        let sources = sources.clone().with_registry(task.registry());
        let scorer = prepare_scoring(&task, &sources, options.predict_only)?;
        let is_previewed = options.preview
            && !task.config.unsafe_code
            && !scorer.needs().together
            && !scorer.calls_task_code();
        let preview =
            if is_previewed { Some(prepare_scoring(&task, &sources, options.predict_only)?) } else { None };
        let key = keys.get(&name).to_owned();
        let judging = if model.is_some() && scorer.judges().next().is_some() {
            check_judges(&key, &scorer, options)?;
            Some(prepare_scoring(&task, &sources, options.predict_only)?)
        } else {
            None
        };
        let log_samples = options.log_samples;
        let mut options = request_options(&key, options, template.as_ref());
        options.limit = limit_of(&task, options.limit, options.samples.is_some());
        options.letters =
            choices.as_ref().is_some_and(|choices| choices.requests == RequestType::ChoiceLetters);
        let is_read = model.is_some_and(|model| model.traits().reads_documents);
        options.keep_documents = log_samples || is_read || scorer.needs().documents;
        let task = Arc::new(task);
        Ok(PlannedTask { key, task, scorer, preview, options, log_samples, judging, choices })
    });
    let tasks = tasks.collect::<Result<_, EngineError>>()?;
    Ok(Plan { tasks, groups, template })
}

/// Overrides settings of the task with those of the caller.
fn apply_overrides(task: &mut Task, options: &EvaluateOptions) -> Result<(), EngineError> {
    if let Some(settings) = &options.gen_kwargs {
        task.config.merge_generation_kwargs(settings);
    }
    task.set_num_fewshot(options.num_fewshot);
    match task.options.repeats.or(options.repeats) {
        Some(0) => {
            return Err(settings("`repeats` must be at least 1", "Omit it to use the tasks' own settings"));
        }
        Some(repeats) if repeats > MAX_REPEATS => {
            return Err(settings(
                format!("`repeats` must be at most {MAX_REPEATS}, not {repeats}"),
                "Each repeat is one more request for every document",
            ));
        }
        Some(repeats) => drop(task.config.set_repeats(repeats)),
        None => {}
    }
    let own = task.options.reductions.clone();
    let reductions = if own.is_empty() { &options.reductions } else { &own };
    if !reductions.is_empty() {
        task.config.set_reductions(reductions);
    }
    Ok(())
}

/// The smaller of the limits that the caller sets for the run and for the task. A fraction is of the run alone.
fn limit_of(task: &Task, of_run: Option<f64>, has_samples: bool) -> Option<f64> {
    let own = task.options.limit.filter(|_| !has_samples).map(|limit| limit as f64);
    match (of_run, own) {
        (Some(of_run), Some(own)) if of_run >= 1.0 => Some(of_run.min(own)),
        (Some(of_run), _) => Some(of_run),
        (None, own) => own,
    }
}

fn check(
    model: Option<&dyn Model>,
    task: &Task,
    choices: Option<&Choices>,
    options: &EvaluateOptions,
) -> Result<(), EngineError> {
    if task.config.unsafe_code && !options.confirm_run_unsafe_code {
        return Err(settings(
            format!("The task `{}` runs code that the model writes", task.name()),
            "Pass `--confirm_run_unsafe_code` to allow this on this machine",
        ));
    }
    let has_media = task.config.doc_to_image.is_some() || task.config.doc_to_audio.is_some();
    if has_media && model.is_some_and(|model| !model.traits().takes_media) {
        return Err(EngineError::Unsupported { task: task.name().to_owned(), source: text_only() });
    }
    if task.class_task().is_some_and(|class| class.makes_requests()) {
        // The request types are only known once the requests are built.
        return Ok(());
    }
    let kind = match task.config.output_type {
        OutputType::MultipleChoice => choices.map_or(RequestType::Loglikelihood, |choices| choices.requests),
        OutputType::Loglikelihood => RequestType::Loglikelihood,
        OutputType::LoglikelihoodRolling => RequestType::LoglikelihoodRolling,
        OutputType::GenerateUntil => RequestType::GenerateUntil,
    };
    let supported = model.map_or(Ok(()), |model| model.supports(kind));
    supported.map_err(|source| EngineError::Unsupported { task: task.name().to_owned(), source })
}

/// The error of a model that takes no images and sounds.
fn text_only() -> ModelError {
    ModelError::new(ModelErrorKind::Unsupported, "The documents have images or sounds, and the model takes only text")
        .hint("Use `vllm-vlm`, `hf-multimodal` or `hf-audiolm-qwen`, or a chat server with `local-chat-completions`")
        .hint("A Python model says that it takes them with the class attribute `MULTIMODAL = True`")
}

/// Every role must be bound, and everything else that judges need must be given.
fn check_judges(task: &str, scorer: &TaskScorer, options: &EvaluateOptions) -> Result<(), EngineError> {
    if let Some(pipeline) = scorer.filters_together() {
        return Err(settings(
            format!(
                "The task `{task}` is judged document by document, but a filter of `{pipeline}` needs all of them"
            ),
            "Use filters that look at one answer at a time",
        ));
    }
    for judge in scorer.judges() {
        for role in judge.roles() {
            let Some(bound) = options.judges.iter().find(|judge| judge.role == *role) else {
                let roles: Vec<Arc<str>> =
                    options.judges.iter().map(|judge| Arc::clone(&judge.role)).collect();
                let source = unbound(role, &roles);
                return Err(EngineError::Unjudged { task: task.to_owned(), source });
            };
            let supported = bound.model.supports(RequestType::GenerateUntil);
            supported.map_err(|source| EngineError::Unjudged { task: task.to_owned(), source })?;
        }
        let has_baseline = options.baseline.as_ref().map(|baseline| baseline.has(task));
        match has_baseline.filter(|_| judge.needs_baseline()) {
            None if judge.needs_baseline() => {
                return Err(settings(
                    format!(
                        "The judge of `{task}` compares answers with those of a stored run, but none is given"
                    ),
                    "Name a run that has samples files with `--baseline RUN`",
                ));
            }
            Some(false) => {
                return Err(settings(
                    format!("The run given with `--baseline` has no samples of `{task}`"),
                    "Evaluate the task with `--log_samples` for the baseline first",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn request_options(key: &str, options: &EvaluateOptions, template: Option<&ModelTemplate>) -> RequestOptions {
    RequestOptions {
        dialect: options.dialect,
        fewshot_seed: options.fewshot_seed,
        system_instruction: options.system_instruction.clone(),
        chat_template: template.map(|template| Arc::clone(&template.template)),
        fewshot_as_multiturn: options.fewshot_as_multiturn,
        limit: options.limit,
        samples: selected_samples(options, key),
        true_ids: true,
        part: options.part.map(|part| part.of_task(key)),
        ..RequestOptions::default()
    }
}

/// The indices of the documents selected by the caller.
fn selected_samples(options: &EvaluateOptions, key: &str) -> Option<Vec<i64>> {
    let indices = options.samples.as_ref()?.get_str(key)?.as_list()?;
    Some(indices.iter().filter_map(Value::as_i64).collect())
}

/// Every key of `samples` must be a task of the run, and every value a list of indices. Anything else would
/// silently evaluate the wrong documents.
fn check_samples(loaded: &TaskDict, keys: &ResultKeys, options: &EvaluateOptions) -> Result<(), EngineError> {
    let Some(samples) = &options.samples else {
        return Ok(());
    };
    let known: Vec<&str> = loaded.tasks.keys().map(|name| keys.get(name)).collect();
    for (task, indices) in samples.iter() {
        let name = lmeval_pycompat::repr::str(task);
        let is_list =
            indices.as_list().is_some_and(|indices| indices.iter().all(|one| one.as_i64().is_some()));
        if !is_list {
            let message = format!("`samples` must map `{name}` to a list of document indices");
            return Err(settings(message, "For example: `{\"arc_easy\": [0, 5]}`"));
        }
        if !known.contains(&name.as_str()) {
            let near = nearest(&name, known.iter().copied());
            let names = if near.is_empty() { known.clone() } else { near };
            let message = format!("`samples` names `{name}`, which is not a task of this run");
            return Err(settings(message, format!("The tasks of this run are `{}`", names.join("`, `"))));
        }
    }
    Ok(())
}

pub(crate) fn settings(message: impl Into<String>, hint: impl Into<String>) -> EngineError {
    Diagnostic::new(message).hint(hint).into()
}
