//! How a run goes.

use std::path::PathBuf;
use std::sync::Arc;

use lmeval_core::Dialect;
use lmeval_data::Settings;
use lmeval_host::PythonHost;
use lmeval_pycompat::Dict;
use lmeval_tasks::prompt::DEFAULT_FEWSHOT_SEED;

use crate::cancel::Cancel;

/// Whether prompts are conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChatTemplateChoice {
    /// They are plain text.
    #[default]
    Off,
    /// They are, with the model's default template.
    Default,
    /// They are, with the model's template of this name.
    Named(String),
}

impl ChatTemplateChoice {
    /// Whether prompts are conversations.
    pub fn is_on(&self) -> bool {
        *self != Self::Off
    }
}

/// Where answers are kept.
#[derive(Clone, Debug, Default)]
pub struct JournalOptions {
    /// The file.
    pub path: PathBuf,
    /// Whether what is in it is thrown away.
    pub fresh: bool,
    /// Old response caches whose answers are taken over, as far as they exist.
    pub import: Vec<PathBuf>,
}

/// Where documents come from.
#[derive(Clone, Default)]
pub struct DataOptions {
    /// How data sets are found; by default as the environment says.
    pub settings: Option<Settings>,
    /// A folder with copies of data sets, by name.
    pub dataset_dir: Option<PathBuf>,
    /// How many rows of each split are read at most.
    pub limit_rows: Option<u64>,
    /// What runs the Python functions of tasks; `None` makes each of them an error.
    pub python: Option<Arc<PythonHost>>,
}

/// How tasks are evaluated.
#[derive(Clone)]
pub struct EvaluateOptions {
    /// The rules where the two lines of the harness differ.
    pub dialect: Dialect,
    /// How many documents of each task: below 1 a share of them, otherwise their number.
    pub limit: Option<f64>,
    /// For each task the numbers of the documents to evaluate.
    pub samples: Option<Dict>,
    /// The number of examples, over what tasks say.
    pub num_fewshot: Option<i64>,
    /// The number of answers per document of generation tasks, over what tasks say.
    pub repeats: Option<usize>,
    /// Generation settings, over those of tasks.
    pub gen_kwargs: Option<Dict>,
    /// The seed of the examples; `None` draws differently in each run.
    pub fewshot_seed: Option<i64>,
    /// Text before everything else.
    pub system_instruction: Option<String>,
    /// Whether prompts are conversations.
    pub apply_chat_template: ChatTemplateChoice,
    /// Whether, in a conversation, each example is a turn of its own.
    pub fewshot_as_multiturn: bool,
    /// The draws of bootstrapped standard errors; 0 for none.
    pub bootstrap_iters: i64,
    /// Whether a record of each document is made.
    pub log_samples: bool,
    /// Whether the records are part of what [`evaluate`](crate::evaluate) returns, or only shown to
    /// [`Events::scored`](crate::Events::scored).
    pub keep_samples: bool,
    /// Whether answers are collected and not scored.
    pub predict_only: bool,
    /// Whether tasks may run code that the model wrote.
    pub confirm_run_unsafe_code: bool,
    /// How many requests may fail for good before the run ends; `None` for any number.
    pub max_failures: Option<usize>,
    /// Where answers are kept; `None` keeps none.
    pub journal: Option<JournalOptions>,
    /// Where documents come from.
    pub data: DataOptions,
    /// Ends the run early.
    pub cancel: Cancel,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            limit: None,
            samples: None,
            num_fewshot: None,
            repeats: None,
            gen_kwargs: None,
            fewshot_seed: Some(DEFAULT_FEWSHOT_SEED),
            system_instruction: None,
            apply_chat_template: ChatTemplateChoice::Off,
            fewshot_as_multiturn: false,
            bootstrap_iters: 100_000,
            log_samples: true,
            keep_samples: true,
            predict_only: false,
            confirm_run_unsafe_code: false,
            max_failures: None,
            journal: None,
            data: DataOptions::default(),
            cancel: Cancel::new(),
        }
    }
}
