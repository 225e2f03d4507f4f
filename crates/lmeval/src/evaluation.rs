//! Builds and runs an evaluation.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_core::{Diagnostic, Dialect, InProcess, LocalModel, Model, ModelSettings, secrets};
use lmeval_engine::{
    ChatTemplateChoice, EngineError, EvaluateOptions, Evaluated, Events, JournalOptions, JudgeModel,
    NoEvents, evaluate,
};
use lmeval_host::{PythonHost, PythonOptions};
use lmeval_pycompat::{Dict, Value, yaml};
use lmeval_scoring::registry::Registry;
use lmeval_tasks::{Finding, Overrides, Spec, TaskDict, TaskManager};

use crate::environment;
use crate::library;
use crate::models::{Placement, with_models};

/// The seed of models that sample.
const RANDOM_SEED: i64 = 0;

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
    model_args: Dict,
    include_path: Vec<PathBuf>,
    installed_library: bool,
    options: EvaluateOptions,
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
            model_args: Dict::new(),
            include_path: Vec::new(),
            installed_library: true,
            options: EvaluateOptions::default(),
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
        self.model_args = args.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
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
        self.include_path.push(folder.into());
        self
    }

    /// Whether to look for tasks in the library installed by `lm-eval tasks pull`; on by default.
    pub fn installed_library(mut self, used: bool) -> Self {
        self.installed_library = used;
        self
    }

    /// Sets the registry of names available to tasks and [`Evaluation::new`]. Built-in models are added automatically.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Evaluates this many documents of each task, or a fraction below 1.
    pub fn limit(mut self, limit: impl Into<f64>) -> Self {
        self.options.limit = Some(limit.into());
        self
    }

    /// Sets the number of few-shot examples, overriding the tasks.
    pub fn num_fewshot(mut self, count: i64) -> Self {
        self.options.num_fewshot = Some(count);
        self
    }

    /// Sends prompts as chat messages, using the model's chat template; each few-shot example is a turn.
    pub fn apply_chat_template(mut self) -> Self {
        self.options.apply_chat_template = ChatTemplateChoice::Default;
        self.options.fewshot_as_multiturn = true;
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
        self.options.journal = Some(JournalOptions { path: path.into(), ..JournalOptions::default() });
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
        self.load_with(&self.manager_of_steps()?)
    }

    /// Checks the tasks without loading a model or data.
    pub fn validate(&self) -> Result<Vec<Finding>, EngineError> {
        let manager = self.manager_of_steps()?;
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
        self.check()?;
        let dialect = environment::dialect()?;
        let given = model_settings(self.model_args.clone(), dialect)?;
        let mut own = given.clone();
        for change in self.change_model.drain(..) {
            change(&mut own);
        }
        let roots = self.roots()?;
        let manager = self.manager(&roots, own.args.clone());
        let tasks = self.load_with(&manager)?;
        let model = match &self.model {
            ModelChoice::Named(name) => manager.registry().model(name, &own)?,
            ModelChoice::Ready(model) => Arc::clone(model),
        };
        let data = environment::data_options();
        let mut options = EvaluateOptions { dialect, data, ..self.options };
        for (role, choice, args) in self.judges {
            options.judges.push(judge(&role, choice, args, &given, manager.registry())?);
        }
        for change in self.change_options {
            change(&mut options);
        }
        if options.data.python.is_none() {
            options.data.python = Some(PythonHost::new(PythonOptions {
                run_unsafe_code: options.confirm_run_unsafe_code,
                ..environment::python_options(None, &[], &roots)?
            }));
        }
        let warnings: Vec<String> = tasks.warnings.iter().map(ToString::to_string).collect();
        let mut evaluated = evaluate(&model, tasks, &options, &self.events)?;
        evaluated.results.warnings.splice(..0, warnings);
        Ok(evaluated)
    }

    /// Checks the settings that have a method here.
    fn check(&self) -> Result<(), EngineError> {
        if self.options.limit.is_some_and(|limit| limit.is_nan() || limit <= 0.0) {
            return Err(Diagnostic::new("`limit` must be greater than 0")
                .hint("Pass a number of documents, or a fraction below 1")
                .into());
        }
        match self.options.num_fewshot {
            Some(count) if count < 0 => {
                let message = format!("`num_fewshot` must be a non-negative integer, not {count}");
                Err(Diagnostic::new(message).into())
            }
            _ => Ok(()),
        }
    }

    /// The folders of tasks.
    fn roots(&self) -> Result<Vec<PathBuf>, EngineError> {
        library::roots((!self.installed_library).then_some("builtin"), &self.include_path)
    }

    /// The manager of the steps before a run.
    fn manager_of_steps(&self) -> Result<TaskManager, EngineError> {
        self.check()?;
        let mut args = self.model_args.clone();
        Placement::take(&mut args)?;
        Ok(self.manager(&self.roots()?, args))
    }

    fn manager(&self, roots: &[PathBuf], metadata: Dict) -> TaskManager {
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

/// Settings of a model created by name.
fn model_settings(mut args: Dict, dialect: Dialect) -> Result<ModelSettings, EngineError> {
    secrets::learn(&Value::from(args.clone()));
    let Placement { batch_size, max_batch_size, device } = Placement::take(&mut args)?;
    Ok(ModelSettings {
        args,
        batch_size: Some(batch_size.unwrap_or(Value::Int(1))),
        max_batch_size,
        device,
        random_seed: Some(RANDOM_SEED),
        dialect,
        ..ModelSettings::default()
    })
}

/// Creates the model of a judge, on the device of the evaluated model unless it names one.
fn judge(
    role: &str,
    choice: ModelChoice,
    args: Dict,
    evaluated: &ModelSettings,
    registry: &Registry,
) -> Result<JudgeModel, EngineError> {
    let (model, settings) = match choice {
        ModelChoice::Named(backend) => {
            let shown = JudgeModel::settings_of(&backend, &args);
            let mut own = model_settings(args, evaluated.dialect)?;
            own.device = own.device.or_else(|| evaluated.device.clone());
            (registry.model(&backend, &own)?, shown)
        }
        ModelChoice::Ready(model) => (model, Dict::new()),
    };
    Ok(JudgeModel { role: role.into(), model, settings, in_caller: false })
}

/// The resolved tasks and groups as YAML documents.
pub fn definitions(loaded: &TaskDict) -> String {
    let groups = loaded.groups.values().map(|group| group.config.to_definition());
    let tasks = loaded.tasks.values().map(|task| task.config.to_definition());
    groups.chain(tasks).map(|document| yaml::emit(&document)).collect::<Vec<_>>().join("---\n")
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
