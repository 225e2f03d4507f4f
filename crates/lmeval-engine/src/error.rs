//! Why a run ended without results.

use std::path::PathBuf;

use lmeval_core::groups::GroupError;
use lmeval_core::scorers::ScoreError;
use lmeval_core::{Diagnose, Diagnostic, HostError, Location, ModelError, counted};
use lmeval_tasks::prompt::PromptError;

/// Why a run ended without results. Answers that came before it are in the journal, where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Settings that exclude each other, or make no sense.
    #[error(transparent)]
    Settings(Box<Diagnostic>),
    /// A task cannot be loaded.
    #[error(transparent)]
    Task(#[from] lmeval_tasks::Error),
    /// The data of a task cannot be loaded.
    #[error("The data of `{task}` cannot be loaded")]
    Data {
        /// The task.
        task: String,
        /// Why.
        source: Box<lmeval_data::Error>,
    },
    /// A Python function of a task failed.
    #[error("The data of `{task}` cannot be made")]
    Function {
        /// The task.
        task: String,
        /// Why.
        source: HostError,
    },
    /// The object of a task that is a Python class cannot be made.
    #[error("The task `{task}`, which is a Python class, cannot be made")]
    Class {
        /// The task.
        task: String,
        /// Why.
        source: HostError,
    },
    /// The requests of a task cannot be built.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The answers of a task cannot be scored.
    #[error("The task `{task}` cannot be scored")]
    Score {
        /// The task.
        task: String,
        /// Why.
        source: Box<ScoreError>,
    },
    /// A group cannot be aggregated.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The model cannot be used, or every request to it would fail.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model cannot do what a task asks.
    #[error("The task `{task}` cannot be evaluated with this model")]
    Unsupported {
        /// The task.
        task: String,
        /// Why.
        source: ModelError,
    },
    /// The journal cannot be used, or an answer cannot be written to it.
    #[error(transparent)]
    Journal(#[from] lmeval_journal::Error),
    /// An old response cache cannot be taken over.
    #[error(transparent)]
    OldCache(#[from] lmeval_host::OldCacheError),
    /// Too many requests failed for good.
    #[error("{} failed for good; the first is {first}", counted(*failures, "request"))]
    TooManyFailures {
        /// How many.
        failures: usize,
        /// The first request.
        first: String,
        /// Why it failed.
        source: ModelError,
    },
    /// Every request of every task failed.
    #[error("No document has all its answers; the first request to fail is {first}")]
    NothingAnswered {
        /// The first request that failed.
        first: String,
        /// Why it failed.
        source: ModelError,
    },
    /// The caller asked to end.
    #[error("The run was interrupted; {} there", answers_are(*answered))]
    Interrupted {
        /// Answers that came, those of the journal included.
        answered: usize,
        /// Where they are.
        journal: Option<PathBuf>,
    },
    /// What hears about scored tasks failed.
    #[error("The records of `{task}` cannot be written")]
    Records {
        /// The task.
        task: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system does not give what a run needs.
    #[error("A thread cannot be started")]
    Threads(#[source] std::io::Error),
}

impl From<Diagnostic> for EngineError {
    fn from(error: Diagnostic) -> Self {
        Self::Settings(Box::new(error))
    }
}

impl EngineError {
    /// The error that this one stands for, message and all.
    fn inner(&self) -> Option<&dyn Diagnose> {
        match self {
            Self::Settings(error) => Some(&**error),
            Self::Task(error) => Some(error),
            Self::Prompt(error) => Some(error),
            Self::Model(error) => Some(error),
            Self::Journal(error) => Some(error),
            _ => None,
        }
    }

    /// The failure of a Python function that this is about.
    pub(crate) fn host_error(&self) -> Option<&HostError> {
        match self {
            Self::Prompt(error) => error.host_error(),
            other => HostError::find(other),
        }
    }
}

impl Diagnose for EngineError {
    fn headline(&self) -> String {
        self.inner().map_or_else(|| self.to_string(), Diagnose::headline)
    }

    fn locations(&self) -> Vec<Location> {
        self.inner().map(Diagnose::locations).unwrap_or_default()
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Interrupted { journal: Some(_), .. } => {
                "Run the same command again to go on where it stopped"
            }
            Self::Interrupted { journal: None, .. } => {
                "Give `--output_path` or `--use_cache` to keep answers of a run that is interrupted"
            }
            _ => return self.inner().map(Diagnose::hints).unwrap_or_default(),
        };
        vec![hint.to_owned()]
    }

    fn traceback(&self) -> Option<&str> {
        self.inner()?.traceback()
    }
}

fn answers_are(count: usize) -> String {
    format!("{} {}", counted(count, "answer"), if count == 1 { "is" } else { "are" })
}
