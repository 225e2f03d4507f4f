//! Builds and runs an evaluation.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_core::{Diagnostic, InProcess, LocalModel, Model, ModelSettings};
use lmeval_engine::{
    EngineError, EvaluateOptions, Evaluated, Events, JournalOptions, JudgeModel, NoEvents, evaluate,
};
use lmeval_host::{PythonHost, PythonOptions};
use lmeval_pycompat::{Dict, Value, yaml};
use lmeval_scoring::registry::Registry;
use lmeval_tasks::{Finding, Overrides, Spec, TaskDict, TaskManager};

use crate::settings::{Count, JudgeBinding, Number, Options, RunSettings, python_options};

/// All built-in extensions, models included.
pub fn registry() -> Registry {
    with_models(Registry::default())
}

/// Adds the built-in models to a registry, except under names already taken.
fn with_models(registry: Registry) -> Registry {
    registry.with_models(lmeval_models::models()).with_models(lmeval_candle::models())
}

/// The model to evaluate: a registered name such as `"hf"`, or a model.
#[derive(Clone, Debug)]
pub enum ModelChoice {
    /// A registered name.
    Named(String),
    /// An existing model.
    Ready(Arc<dyn Model>),
}

impl From<&str> for ModelChoice {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for ModelChoice {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl From<Arc<dyn Model>> for ModelChoice {
    fn from(model: Arc<dyn Model>) -> Self {
        Self::Ready(model)
    }
}

impl<M: Model + 'static> From<Arc<M>> for ModelChoice {
    fn from(model: Arc<M>) -> Self {
        Self::Ready(model)
    }
}

impl<M: LocalModel> From<InProcess<M>> for ModelChoice {
    fn from(model: InProcess<M>) -> Self {
        Self::Ready(Arc::new(model))
    }
}

/// A change to settings, applied once all of them are known.
type Change<T> = Box<dyn FnOnce(&mut T) + Send>;

/// An evaluation: a model, tasks and options.
///
/// Settings that are not set have the defaults of `lm-eval run`, and its environment variables apply.
///
/// ```
/// use lmeval::Evaluation;
///
/// let results = Evaluation::new("uniform").tasks(["demo_capitals"]).limit(5).run()?;
/// assert!(results.score("demo_capitals", "acc").is_some());
/// # Ok::<(), lmeval::EngineError>(())
/// ```
#[must_use]
pub struct Evaluation {
    model: ModelChoice,
    tasks: Vec<Spec>,
    overrides: Overrides,
    registry: Registry,
    given: Options,
    journal: Option<JournalOptions>,
    judges: Vec<(String, ModelChoice, Dict)>,
    change_model: Vec<Change<ModelSettings>>,
    change_options: Vec<Change<EvaluateOptions>>,
    events: Arc<dyn Events>,
}

impl Evaluation {
    /// An evaluation of a model, given by name or as an object.
    pub fn new(model: impl Into<ModelChoice>) -> Self {
        Self {
            model: model.into(),
            tasks: Vec::new(),
            overrides: Overrides::default(),
            registry: Registry::default(),
            // Sample records are part of the returned results.
            given: Options { log_samples: Some(true), ..Options::default() },
            journal: None,
            judges: Vec::new(),
            change_model: Vec::new(),
            change_options: Vec::new(),
            events: Arc::new(NoEvents),
        }
    }

    /// Sets the arguments of a model created by name, such as `[("pretrained", "gpt2")]`.
    pub fn model_args<K: Into<Value>, V: Into<Value>>(
        mut self,
        args: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let args = args.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.given.dicts.set("model_args", args);
        self
    }

    /// Changes the settings of a model created by name: arguments, batch size, device, seed. Applied last, regardless of
    /// the order of calls.
    ///
    /// Arguments changed here reach the model and the tasks' metadata only in [`run`](Self::run). If tasks read them in
    /// [`load`](Self::load), [`validate`](Self::validate) or [`show`](Self::show), set them with
    /// [`model_args`](Self::model_args).
    pub fn model_settings(mut self, change: impl FnOnce(&mut ModelSettings) + Send + 'static) -> Self {
        self.change_model.push(Box::new(change));
        self
    }

    /// Adds tasks, groups and tags by name, and YAML files by path.
    pub fn tasks<S: Into<Spec>>(mut self, tasks: impl IntoIterator<Item = S>) -> Self {
        self.tasks.extend(tasks.into_iter().map(Into::into));
        self
    }

    /// Adds a task defined in YAML.
    pub fn task_yaml(mut self, text: &str) -> Result<Self, EngineError> {
        self.tasks.push(Spec::Inline(mapping(text)?));
        Ok(self)
    }

    /// Overrides fields of a task, given as YAML. Several calls for one task add up; later values win. A name that was not
    /// passed to [`tasks`](Self::tasks) is an error in [`run`](Self::run), [`load`](Self::load) and the other steps.
    pub fn override_task(mut self, task: impl Into<String>, text: &str) -> Result<Self, EngineError> {
        self.overrides.entry(task.into()).or_default().update(&mapping(text)?);
        Ok(self)
    }

    /// Also looks for tasks in a folder; its names win over those of earlier folders.
    pub fn include_path(mut self, folder: impl Into<PathBuf>) -> Self {
        self.given.library.include_path.get_or_insert_default().push(folder.into());
        self
    }

    /// Whether to look for tasks in the library installed by `lm-eval tasks pull`; on by default.
    pub fn installed_library(mut self, used: bool) -> Self {
        self.given.library.library = (!used).then(|| "builtin".to_owned());
        self
    }

    /// Sets the registry of names available to tasks and [`Evaluation::new`]. Built-in models are added automatically.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Evaluates this many documents of each task, or a fraction below 1.
    pub fn limit(mut self, limit: impl Into<f64>) -> Self {
        self.given.limit = Some(Number(Value::Float(limit.into())));
        self
    }

    /// Sets the number of few-shot examples, overriding the tasks.
    pub fn num_fewshot(mut self, count: i64) -> Self {
        self.given.num_fewshot = Some(Count(count));
        self
    }

    /// Sends prompts as chat messages, using the model's chat template; each few-shot example is a turn.
    pub fn apply_chat_template(mut self) -> Self {
        self.given.apply_chat_template = Some(None);
        self
    }

    /// Binds a model to the role of a judge, which tasks with the scorer `judge` name. `args` are those of a model created
    /// by name.
    ///
    /// ```
    /// use lmeval::Evaluation;
    ///
    /// let evaluation = Evaluation::new("ngram").tasks(["demo_judge"]).limit(3);
    /// let results = evaluation.judge("grader", "stand-in-judge", [("", ""); 0]).run()?;
    /// assert!(results.score("demo_judge", "judge_score").is_some());
    /// # Ok::<(), lmeval::EngineError>(())
    /// ```
    pub fn judge<K: Into<Value>, V: Into<Value>>(
        mut self,
        role: impl Into<String>,
        model: impl Into<ModelChoice>,
        args: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let args = args.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.judges.push((role.into(), model.into(), args));
        self
    }

    /// Saves answers to a file as they arrive; a later run with the same file sends only the remaining requests.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(JournalOptions { path: path.into(), ..JournalOptions::default() });
        self
    }

    /// Changes any other option of the run. Applied last, regardless of the order of calls.
    pub fn options(mut self, change: impl FnOnce(&mut EvaluateOptions) + Send + 'static) -> Self {
        self.change_options.push(Box::new(change));
        self
    }

    /// Sets the handler of the run's events.
    pub fn events(mut self, events: Arc<dyn Events>) -> Self {
        self.events = events;
        self
    }

    /// Loads the tasks without running them.
    pub fn load(&self) -> Result<TaskDict, EngineError> {
        self.load_with(&self.manager()?)
    }

    /// Checks the tasks without loading a model or data.
    pub fn validate(&self) -> Result<Vec<Finding>, EngineError> {
        let manager = self.manager()?;
        Ok(manager.validate_loaded(&self.load_with(&manager)?))
    }

    /// The resolved tasks as YAML, as printed by `lm-eval show --yaml`.
    pub fn show(&self) -> Result<String, EngineError> {
        Ok(definitions(&self.load()?))
    }

    /// Runs the evaluation, blocking until the last task is scored. In async code, call it from `spawn_blocking`.
    ///
    /// Warnings about task definitions are in `results.warnings`, before those about scores.
    pub fn run(mut self) -> Result<Evaluated, EngineError> {
        let settings = self.settings()?;
        let mut model_settings = settings.model_settings();
        for change in self.change_model.drain(..) {
            change(&mut model_settings);
        }
        let roots = settings.library.roots().map_err(settings_error)?;
        let manager = self.manager_of(&roots, model_settings.args.clone());
        let tasks = self.load_with(&manager)?;
        let model = match &self.model {
            ModelChoice::Named(name) => manager.registry().model(name, &model_settings)?,
            ModelChoice::Ready(model) => Arc::clone(model),
        };
        let mut options = settings.evaluate_options();
        for (role, choice, args) in std::mem::take(&mut self.judges) {
            options.judges.push(judge(&role, choice, args, &settings, manager.registry())?);
        }
        options.journal = self.journal;
        for change in self.change_options {
            change(&mut options);
        }
        if options.data.python.is_none() {
            let python = python_options(settings.python.as_deref(), &settings.plugins, &roots);
            options.data.python = Some(PythonHost::new(PythonOptions {
                run_unsafe_code: options.confirm_run_unsafe_code,
                ..python.map_err(settings_error)?
            }));
        }
        let warnings: Vec<String> = tasks.warnings.iter().map(ToString::to_string).collect();
        let mut evaluated = evaluate(&model, tasks, &options, &self.events)?;
        evaluated.results.warnings.splice(..0, warnings);
        Ok(evaluated)
    }

    fn settings(&self) -> Result<RunSettings, EngineError> {
        RunSettings::from_rust(&self.given).map_err(settings_error)
    }

    fn manager(&self) -> Result<TaskManager, EngineError> {
        let settings = self.settings()?;
        Ok(self.manager_of(&settings.library.roots().map_err(settings_error)?, settings.metadata))
    }

    fn manager_of(&self, roots: &[PathBuf], metadata: Dict) -> TaskManager {
        TaskManager::new(roots).with_metadata(metadata).with_registry(with_models(self.registry.clone()))
    }

    fn load_with(&self, manager: &TaskManager) -> Result<TaskDict, EngineError> {
        let is_task =
            |name: &str| self.tasks.iter().any(|task| matches!(task, Spec::Name(task) if task == name));
        let mut unused: Vec<&str> =
            self.overrides.keys().map(String::as_str).filter(|name| !is_task(name)).collect();
        if !unused.is_empty() {
            unused.sort_unstable();
            let message = format!("`{}` cannot be overridden: not in the list of tasks", unused.join("`, `"));
            return Err(Diagnostic::new(message)
                .hint("`override_task` takes a name that was passed to `tasks`")
                .into());
        }
        Ok(manager.load(&self.tasks, self.overrides.clone())?)
    }
}

/// Creates the model of a judge.
fn judge(
    role: &str,
    choice: ModelChoice,
    args: Dict,
    settings: &RunSettings,
    registry: &Registry,
) -> Result<JudgeModel, EngineError> {
    let (model, shown) = match choice {
        ModelChoice::Named(backend) => {
            let binding = JudgeBinding { role: role.to_owned(), backend, args };
            let model = registry.model(&binding.backend, &settings.for_judge(&binding).model_settings())?;
            (model, binding.shown())
        }
        ModelChoice::Ready(model) => (model, Dict::new()),
    };
    Ok(JudgeModel { role: role.into(), model, settings: shown, in_caller: false })
}

/// The resolved tasks and groups as YAML documents.
pub fn definitions(loaded: &TaskDict) -> String {
    let groups = loaded.groups.values().map(|group| group.config.to_definition());
    let tasks = loaded.tasks.values().map(|task| task.config.to_definition());
    groups.chain(tasks).map(|document| yaml::emit(&document)).collect::<Vec<_>>().join("---\n")
}

/// Converts an error about settings.
fn settings_error(error: anyhow::Error) -> EngineError {
    match error.downcast::<Diagnostic>() {
        Ok(diagnostic) => diagnostic.into(),
        Err(error) => Diagnostic::new(format!("{error:#}")).into(),
    }
}

fn mapping(text: &str) -> Result<Dict, EngineError> {
    let wrong = |message: String| {
        EngineError::from(
            Diagnostic::new(message)
                .hint("Write a mapping, as in a task file: `{metric_list: [{metric: acc}]}`"),
        )
    };
    match yaml::load(text).map_err(|error| wrong(format!("Invalid YAML: {error}")))?.value {
        Value::Dict(mapping) => Ok(Dict::clone(&mapping)),
        other => Err(wrong(format!("The YAML must be a mapping, not {}", other.type_name()))),
    }
}
