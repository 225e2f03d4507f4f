//! A run from names.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_core::Model;
use lmeval_models::ModelSettings;
use lmeval_pycompat::Dict;
use lmeval_tasks::{BUILTIN_LIBRARY, Overrides, Spec, TaskManager};

use crate::error::EngineError;
use crate::evaluate::{Evaluation, evaluate};
use crate::event::{Events, NoEvents};
use crate::options::EvaluateOptions;

/// Which model is evaluated.
#[derive(Clone, Debug)]
pub enum ModelChoice {
    /// A back end by its name.
    Named(String, Box<ModelSettings>),
    /// A model that is there.
    Ready(Arc<dyn Model>),
}

/// Everything about a run.
pub struct SimpleEvaluate {
    /// The model.
    pub model: ModelChoice,
    /// Tasks, groups and tags by name, files and inline definitions.
    pub tasks: Vec<Spec>,
    /// The folders of task definitions, later ones win; by default the built-in library.
    pub roots: Vec<PathBuf>,
    /// Metadata of every task, over the arguments of the model.
    pub metadata: Dict,
    /// How the run goes.
    pub options: EvaluateOptions,
    /// Who hears what happens.
    pub events: Arc<dyn Events>,
}

impl SimpleEvaluate {
    /// A run of tasks on a model, everything else by default.
    pub fn new(model: ModelChoice, tasks: Vec<Spec>) -> Self {
        Self {
            model,
            tasks,
            roots: vec![PathBuf::from(BUILTIN_LIBRARY)],
            metadata: Dict::new(),
            options: EvaluateOptions::default(),
            events: Arc::new(NoEvents),
        }
    }
}

/// Loads tasks by name, makes the model, and evaluates.
///
/// ```
/// use lmeval_engine::{ModelChoice, SimpleEvaluate, simple_evaluate};
/// use lmeval_models::ModelSettings;
/// use lmeval_tasks::Spec;
///
/// let model = ModelChoice::Named("uniform".to_owned(), Box::new(ModelSettings::default()));
/// let mut run = SimpleEvaluate::new(model, vec![Spec::from("demo_capitals")]);
/// run.options.limit = Some(3.0);
/// let run = simple_evaluate(&run).unwrap();
/// assert_eq!(run.results.samples[0].1.len(), 3);
/// ```
pub fn simple_evaluate(run: &SimpleEvaluate) -> Result<Evaluation, EngineError> {
    let mut metadata = match &run.model {
        ModelChoice::Named(_, settings) => settings.args.clone(),
        ModelChoice::Ready(_) => Dict::new(),
    };
    metadata.update(&run.metadata);
    let manager = TaskManager::new(&run.roots).with_metadata(metadata);
    let tasks = manager.load(&run.tasks, Overrides::default())?;
    let model = match &run.model {
        ModelChoice::Named(name, settings) => lmeval_models::create(name, settings)?,
        ModelChoice::Ready(model) => Arc::clone(model),
    };
    evaluate(&model, tasks, &run.options, &run.events)
}
