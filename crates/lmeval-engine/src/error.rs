//! The error of a run.

use std::path::PathBuf;

use lmeval_core::{Diagnose, Diagnostic, Location, ModelError, counted, guarded};
use lmeval_scoring::HostError;
use lmeval_scoring::groups::GroupError;
use lmeval_scoring::scorers::ScoreError;
use lmeval_tasks::prompt::PromptError;

/// The reason that a run ended without results. Answers received before the error are in the journal, if there is
/// one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Settings that are invalid or contradict each other.
    #[error(transparent)]
    Settings(Box<Diagnostic>),
    /// A task could not be loaded.
    #[error(transparent)]
    Task(#[from] lmeval_tasks::Error),
    /// The data of a task could not be loaded.
    #[error("Cannot load the data of `{task}`")]
    Data {
        /// The name of the task.
        task: String,
        /// The error of the reader.
        source: Box<lmeval_data::Error>,
    },
    /// The function in `custom_dataset` failed.
    #[error("Cannot create the data of `{task}`")]
    Function {
        /// The name of the task.
        task: String,
        /// The error of the function.
        source: Box<HostError>,
    },
    /// The Python class of a task could not be instantiated.
    #[error("Cannot create the task `{task}` from its Python class")]
    Class {
        /// The name of the task.
        task: String,
        /// The error of the class.
        source: Box<HostError>,
    },
    /// The requests of a task could not be built.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The answers of a task could not be scored.
    #[error("The task `{task}` cannot be scored")]
    Score {
        /// The key of the task in the results.
        task: String,
        /// The error of the scorer.
        source: Box<ScoreError>,
    },
    /// A group could not be aggregated.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The model is unusable, or every request to it would fail.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model does not support the request type of a task.
    #[error("The task `{task}` cannot be evaluated with this model")]
    Unsupported {
        /// The name of the task.
        task: String,
        /// The reason given by the model.
        source: ModelError,
    },
    /// The task needs a judge that is not bound, or that cannot judge.
    #[error("The task `{task}` cannot be judged")]
    Unjudged {
        /// The key of the task in the results.
        task: String,
        /// The missing binding, or the request type that the judge lacks.
        source: ModelError,
    },
    /// A judge is unusable, or every request to it would fail.
    #[error("The judge `{role}` cannot be asked")]
    Judge {
        /// The role of the judge.
        role: String,
        /// The error of its model.
        source: ModelError,
    },
    /// The journal could not be opened or written.
    #[error(transparent)]
    Journal(#[from] lmeval_journal::Error),
    /// An old response cache could not be imported.
    #[error(transparent)]
    OldCache(#[from] lmeval_host::OldCacheError),
    /// More requests failed permanently than `max_failures` allows.
    #[error("{} failed permanently; the first is {first}", counted(*failures, "request"))]
    TooManyFailures {
        /// The number of failed requests.
        failures: usize,
        /// A description of the first failed request.
        first: String,
        /// The error of the first failed request.
        source: ModelError,
    },
    /// No document has answers to all of its requests.
    #[error("No document was fully answered; the first request to fail is {first}")]
    NothingAnswered {
        /// A description of the first failed request.
        first: String,
        /// The error of the first failed request.
        source: ModelError,
    },
    /// The caller cancelled the run.
    #[error("Interrupted. {} {}.", counted(*answered, "answer"), saved(journal.as_ref()))]
    Interrupted {
        /// The number of answers received, including reused ones.
        answered: usize,
        /// The journal file, if there is one.
        journal: Option<PathBuf>,
    },
    /// [`Events::scored`](crate::Events::scored) failed.
    #[error("Cannot write the records of `{task}`")]
    Records {
        /// The key of the task in the results.
        task: String,
        /// The error it returned.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A stage of the run panicked: a bug in lm-eval, or in an extension or model of the caller.
    #[error("{stage} panicked: {message}")]
    Panic {
        /// The stage, with task and documents where they are known.
        stage: String,
        /// The message of the panic.
        message: String,
    },
    /// The run ended in a way that must not happen: a bug in lm-eval.
    #[error("Internal error: {0}")]
    Internal(&'static str),
    /// The operating system refused to start a thread.
    #[error("Cannot start a thread")]
    Threads(#[source] std::io::Error),
}

impl From<Diagnostic> for EngineError {
    fn from(error: Diagnostic) -> Self {
        Self::Settings(Box::new(error))
    }
}

impl EngineError {
    /// Runs a stage and turns a panic into an error. Discard everything the stage touched if it fails.
    pub(crate) fn guard<T>(
        stage: impl FnOnce() -> String,
        work: impl FnOnce() -> Result<T, Self>,
    ) -> Result<T, Self> {
        guarded(work).unwrap_or_else(|message| Err(Self::Panic { stage: stage(), message }))
    }

    /// The same error, naming the judge whose model it is about.
    pub(crate) fn of_judge(self, role: &str) -> Self {
        match self {
            Self::Model(source) => Self::Judge { role: role.to_owned(), source },
            other => other,
        }
    }

    /// The wrapped error that provides message, location and hints.
    fn inner(&self) -> Option<&dyn Diagnose> {
        match self {
            Self::Settings(error) => Some(&**error),
            Self::Task(error) => Some(error),
            Self::Prompt(error) => Some(error),
            Self::Model(error) => Some(error),
            Self::Journal(error) => Some(error),
            Self::OldCache(error) => Some(error),
            _ => None,
        }
    }

    /// The failure of a Python function, if that is the cause.
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
            Self::Interrupted { journal: Some(_), .. } => "Run the same command again to resume",
            Self::Interrupted { journal: None, .. } => {
                "Pass `--output_path` or `--use_cache` to save the answers of interrupted runs"
            }
            Self::Internal(_) => "Please report it, with the command line",
            Self::Panic { .. } => {
                "If this is not in code of your own, please report it; `RUST_BACKTRACE=1` prints where it happened"
            }
            _ => return self.inner().map(Diagnose::hints).unwrap_or_default(),
        };
        vec![hint.to_owned()]
    }

    fn traceback(&self) -> Option<&str> {
        self.inner()?.traceback()
    }
}

fn saved(journal: Option<&PathBuf>) -> &'static str {
    if journal.is_some() { "saved" } else { "not saved" }
}
