//! The options of a run.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_core::{Dialect, Model, ModelTraits, OptionScoring};
use lmeval_data::Settings;
use lmeval_host::PythonHost;
use lmeval_pycompat::Dict;
use lmeval_tasks::ChoiceMethod;
use lmeval_tasks::prompt::{DEFAULT_FEWSHOT_SEED, Part};

use crate::cancel::Cancel;
use crate::judging::{Baseline, JudgeModel};

/// Whether to apply a chat template to prompts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChatTemplateChoice {
    /// Prompts are plain strings.
    #[default]
    Off,
    /// Prompts are conversations in the model's default template.
    Default,
    /// Prompts are conversations in the model's template of this name.
    Named(String),
}

impl ChatTemplateChoice {
    /// Whether prompts are conversations.
    pub fn is_on(&self) -> bool {
        *self != Self::Off
    }
}

/// The journal of a run.
#[derive(Clone, Debug, Default)]
pub struct JournalOptions {
    /// The journal file; created if it does not exist.
    pub path: PathBuf,
    /// Whether to discard its content.
    pub fresh: bool,
    /// Old response caches to import; missing files are ignored.
    pub import: Vec<PathBuf>,
}

/// The sources of documents.
#[derive(Clone, Default)]
pub struct DataOptions {
    /// Where to find datasets; read from the environment by default.
    pub settings: Option<Settings>,
    /// A folder with local copies of datasets, by name.
    pub dataset_dir: Option<PathBuf>,
    /// The maximum number of rows read per split.
    pub limit_rows: Option<u64>,
    /// Runs the Python functions of tasks; with `None`, each of them is an error.
    pub python: Option<Arc<PythonHost>>,
}

/// The abilities of a model that decide how multiple-choice tasks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// How it can score options.
    pub scoring: OptionScoring,
    /// Whether it reasons before it answers.
    pub reasons: bool,
}

impl Default for Abilities {
    fn default() -> Self {
        Self { scoring: OptionScoring::Continuations, reasons: false }
    }
}

impl Abilities {
    /// The abilities of a model.
    pub fn of(model: &dyn Model) -> Self {
        let ModelTraits { option_scoring, reasons, .. } = model.traits();
        Self { scoring: option_scoring, reasons }
    }
}

/// The options of [`evaluate`](crate::evaluate).
#[derive(Clone)]
pub struct EvaluateOptions {
    /// The behaviour line, 0.5 or 0.4.
    pub dialect: Dialect,
    /// The number of documents per task; below 1, a fraction of them.
    pub limit: Option<f64>,
    /// The indices of the documents to evaluate, per task.
    pub samples: Option<Dict>,
    /// Whether to compute digests of the data even if no answers are saved.
    pub digests: bool,
    /// The part of the selected documents of each task to evaluate; `None` for all. Prompts are those of a run over all
    /// documents.
    pub part: Option<Part>,
    /// Overrides the tasks' number of few-shot examples.
    pub num_fewshot: Option<i64>,
    /// Overrides the number of answers per document of generation tasks.
    pub repeats: Option<usize>,
    /// How the answers to each document become one value; empty for the tasks' own reductions.
    pub reductions: Vec<Arc<str>>,
    /// Overrides generation settings of the tasks.
    pub gen_kwargs: Option<Dict>,
    /// The seed for choosing few-shot examples; `None` draws differently in each run.
    pub fewshot_seed: Option<i64>,
    /// The system message, or the start of the prompt without a chat template.
    pub system_instruction: Option<String>,
    /// Whether to apply a chat template.
    pub apply_chat_template: ChatTemplateChoice,
    /// Whether each few-shot example is a separate turn of the conversation.
    pub fewshot_as_multiturn: bool,
    /// The number of bootstrap draws for standard errors; 0 disables standard errors.
    pub bootstrap_iters: i64,
    /// Whether to create a record of each document.
    pub log_samples: bool,
    /// Whether [`evaluate`](crate::evaluate) returns the records, or only passes them to
    /// [`Events::scored`](crate::Events::scored).
    pub keep_samples: bool,
    /// How multiple-choice tasks are asked; `None` leaves it to what the model supports.
    pub choices: Option<ChoiceMethod>,
    /// The abilities of the model that answered, for scoring without a model.
    pub answered_by: Abilities,
    /// Whether to collect answers without scoring them.
    pub predict_only: bool,
    /// Whether tasks may run code written by the model.
    pub confirm_run_unsafe_code: bool,
    /// How many requests may fail for good before the run ends; `None` for no limit.
    pub max_failures: Option<usize>,
    /// The journal of answers; `None` to save none.
    pub journal: Option<JournalOptions>,
    /// The sources of documents.
    pub data: DataOptions,
    /// The models that grade answers, by role.
    pub judges: Vec<JudgeModel>,
    /// The stored answers that pairwise judges compare with.
    pub baseline: Option<Arc<Baseline>>,
    /// Cancels the run.
    pub cancel: Cancel,
    /// Whether to report finished documents and running scores, see [`Event::Previewed`](crate::Event::Previewed).
    pub preview: bool,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            limit: None,
            samples: None,
            digests: false,
            part: None,
            num_fewshot: None,
            repeats: None,
            reductions: Vec::new(),
            gen_kwargs: None,
            fewshot_seed: Some(DEFAULT_FEWSHOT_SEED),
            system_instruction: None,
            apply_chat_template: ChatTemplateChoice::Off,
            fewshot_as_multiturn: false,
            bootstrap_iters: 100_000,
            log_samples: true,
            keep_samples: true,
            choices: None,
            answered_by: Abilities::default(),
            predict_only: false,
            confirm_run_unsafe_code: false,
            max_failures: None,
            journal: None,
            data: DataOptions::default(),
            judges: Vec::new(),
            baseline: None,
            cancel: Cancel::new(),
            preview: false,
        }
    }
}
