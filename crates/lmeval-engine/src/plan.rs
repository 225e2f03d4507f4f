//! What a run will do, checked before anything is sent.

use std::sync::Arc;

use lmeval_core::groups::GroupSpec;
use lmeval_core::scorers::{ScoringSources, TaskScorer};
use lmeval_core::{Diagnostic, Host, MAX_REPEATS, Model, ModelTemplate, OutputType, RequestType, nearest};
use lmeval_pycompat::Value;
use lmeval_tasks::prompt::RequestOptions;
use lmeval_tasks::scoring::{ResultKeys, group_specs, prepare_scoring};
use lmeval_tasks::{Task, TaskDict};

use crate::class_tasks::{ClassSettings, load_class};
use crate::error::EngineError;
use crate::options::{ChatTemplateChoice, EvaluateOptions};

/// A task with everything that evaluating it needs.
#[derive(Debug)]
pub(crate) struct PlannedTask {
    /// The key in results.
    pub(crate) key: String,
    pub(crate) task: Arc<Task>,
    pub(crate) scorer: TaskScorer,
    pub(crate) options: RequestOptions,
}

impl PlannedTask {
    /// Whether documents are scored, and let go of, before all of them are answered.
    pub(crate) fn scores_apart(&self, options: &EvaluateOptions) -> bool {
        !options.log_samples && !self.task.config.unsafe_code && !self.scorer.needs().together
    }
}

/// A run that can start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) tasks: Vec<PlannedTask>,
    pub(crate) groups: Vec<GroupSpec>,
    pub(crate) template: Option<ModelTemplate>,
}

/// Applies what the caller says to the tasks and checks that they can be evaluated.
pub(crate) fn plan(
    model: &dyn Model,
    loaded: TaskDict,
    options: &EvaluateOptions,
) -> Result<Plan, EngineError> {
    if options.limit.is_some() && options.samples.is_some() {
        return Err(settings("`limit` and `samples` exclude each other", "Give one of them"));
    }
    if loaded.tasks.is_empty() {
        return Err(settings("No tasks to evaluate", "Name some with `--tasks`"));
    }
    let keys = ResultKeys::new(&loaded, &options.dialect)?;
    check_samples(&loaded, &keys, options)?;
    let template = match &options.apply_chat_template {
        ChatTemplateChoice::Off => None,
        ChatTemplateChoice::Default => Some(model.chat_template(None)?),
        ChatTemplateChoice::Named(name) => Some(model.chat_template(Some(name))?),
    };
    let mut sources = ScoringSources::new(&options.dialect);
    if let Some(python) = &options.data.python {
        sources.host = Arc::clone(python) as Arc<dyn Host>;
    }
    let groups = group_specs(&loaded, &keys);
    let classes = ClassSettings::of_run(options);
    let tasks = loaded.tasks.into_iter().map(|(name, mut task)| {
        load_class(&mut task, &classes, &options.data)?;
        adjust(&mut task, options)?;
        check(model, &task, options)?;
        let sources = sources.clone().with_registry(task.registry());
        let scorer = prepare_scoring(&task, &sources, options.predict_only)?;
        let key = keys.get(&name).to_owned();
        let options = request_options(&key, options, template.as_ref());
        Ok(PlannedTask { key, task: Arc::new(task), scorer, options })
    });
    let tasks = tasks.collect::<Result<_, EngineError>>()?;
    Ok(Plan { tasks, groups, template })
}

/// Puts the caller's settings over those of the task.
fn adjust(task: &mut Task, options: &EvaluateOptions) -> Result<(), EngineError> {
    if let Some(settings) = &options.gen_kwargs {
        task.config.merge_generation_kwargs(settings);
    }
    if let Some(count) = options.num_fewshot {
        task.config.set_num_fewshot(count);
    }
    match options.repeats {
        Some(0) => return Err(settings("`repeats` must be at least 1", "Leave it out for what tasks say")),
        Some(repeats) if repeats > MAX_REPEATS => {
            return Err(settings(
                format!("`repeats` must be at most {MAX_REPEATS}, not {repeats}"),
                "Each repeat is one more request for every document",
            ));
        }
        Some(repeats) => drop(task.config.set_repeats(repeats)),
        None => {}
    }
    Ok(())
}

fn check(model: &dyn Model, task: &Task, options: &EvaluateOptions) -> Result<(), EngineError> {
    if task.config.unsafe_code && !options.confirm_run_unsafe_code {
        return Err(settings(
            format!("The task `{}` runs code that the model writes", task.name()),
            "Confirm with `--confirm_run_unsafe_code` that this may happen on this machine",
        ));
    }
    if task.class_task().is_some_and(|class| class.makes_requests()) {
        // Only the requests themselves show of which kinds they are.
        return Ok(());
    }
    let kind = match task.config.output_type {
        OutputType::Loglikelihood | OutputType::MultipleChoice => RequestType::Loglikelihood,
        OutputType::LoglikelihoodRolling => RequestType::LoglikelihoodRolling,
        OutputType::GenerateUntil => RequestType::GenerateUntil,
    };
    let supported = model.supports(kind);
    supported.map_err(|source| EngineError::Unsupported { task: task.name().to_owned(), source })
}

fn request_options(key: &str, options: &EvaluateOptions, template: Option<&ModelTemplate>) -> RequestOptions {
    RequestOptions {
        dialect: options.dialect,
        fewshot_seed: options.fewshot_seed,
        system_instruction: options.system_instruction.clone(),
        chat_template: template.map(|template| Arc::clone(&template.template)),
        fewshot_as_multiturn: options.fewshot_as_multiturn,
        limit: options.limit,
        samples: chosen(options, key),
        ..RequestOptions::default()
    }
}

/// The documents that the caller chose of a task.
fn chosen(options: &EvaluateOptions, key: &str) -> Option<Vec<i64>> {
    let numbers = options.samples.as_ref()?.get_str(key)?.as_list()?;
    Some(numbers.iter().filter_map(Value::as_i64).collect())
}

/// `samples` must name tasks that there are, and give each a list of numbers: all else would evaluate documents that
/// nobody asked for.
fn check_samples(loaded: &TaskDict, keys: &ResultKeys, options: &EvaluateOptions) -> Result<(), EngineError> {
    let Some(samples) = &options.samples else {
        return Ok(());
    };
    let known: Vec<&str> = loaded.tasks.keys().map(|name| keys.get(name)).collect();
    for (task, numbers) in samples.iter() {
        let name = lmeval_pycompat::repr::str(task);
        let is_list =
            numbers.as_list().is_some_and(|numbers| numbers.iter().all(|one| one.as_i64().is_some()));
        if !is_list {
            let message = format!("`samples` must give `{name}` a list of document numbers");
            return Err(settings(message, "Write it as in `{\"arc_easy\": [0, 5]}`"));
        }
        if !known.contains(&name.as_str()) {
            let near = nearest(&name, known.iter().copied());
            let names = if near.is_empty() { known.clone() } else { near };
            let message = format!("`samples` names `{name}`, which is no task of this run");
            return Err(settings(message, format!("Its tasks are named `{}`", names.join("`, `"))));
        }
    }
    Ok(())
}

pub(crate) fn settings(message: impl Into<String>, hint: impl Into<String>) -> EngineError {
    Diagnostic::new(message).hint(hint).into()
}
