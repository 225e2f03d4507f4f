//! What happens during a run, for whoever watches.

use lmeval_core::results::TaskResult;
use lmeval_core::{ModelError, ModelIdentity, ModelRequest, RequestType, Usage};
use lmeval_journal::Damage;
use lmeval_tasks::Task;
use lmeval_tasks::prompt::{DocumentRequests, MissingColumn};

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The journal is open.
    JournalOpened {
        /// Answers in it, of any model.
        answers: usize,
        /// Bytes of a torn end that were cut off.
        repaired_bytes: Option<u64>,
        /// Damaged parts of the file. Requests whose answers were there are sent again.
        damage: &'a [Damage],
    },
    /// The server does not say which model it runs, and is taken to run the one that the journal knows for its address.
    ModelAssumed {
        /// That model.
        serves: &'a str,
    },
    /// What the journal has for the model is known.
    Reusing {
        /// Answers of this model, which are not asked for again.
        answers: usize,
        /// Answers of a model of the same name that do not say which server gave them. They are not used.
        of_unknown_server: usize,
        /// Answers of other models or servers.
        of_others: usize,
    },
    /// Answers of an old response cache were taken over.
    CacheImported {
        /// How many.
        answers: usize,
        /// Entries that are no answers.
        skipped: usize,
    },
    /// The model is known.
    Model(&'a ModelIdentity),
    /// The data of a task is there.
    Prepared {
        /// The task.
        task: &'a Task,
        /// How many documents will be evaluated.
        documents: usize,
    },
    /// A field of a task looks like a column that its documents do not have.
    MissingColumn {
        /// The task.
        task: &'a Task,
        /// The field.
        missing: &'a MissingColumn,
    },
    /// The first document of a task was turned into requests.
    FirstDocument {
        /// The task.
        task: &'a Task,
        /// The requests.
        requests: &'a DocumentRequests,
    },
    /// A document is left out because it has no requests.
    Skipped {
        /// The task.
        task: &'a Task,
        /// The document.
        requests: &'a DocumentRequests,
    },
    /// Requests were built.
    Built {
        /// What they ask.
        kind: RequestType,
        /// How many.
        count: usize,
    },
    /// All requests of all tasks were built.
    AllBuilt,
    /// A request was answered.
    Answered {
        /// What it asked.
        kind: RequestType,
        /// Whether the answer came from the journal or an identical request rather than from the model.
        reused: bool,
        /// What it took.
        usage: Usage,
    },
    /// A request failed for good.
    Failed {
        /// The request.
        request: &'a ModelRequest,
        /// Why.
        error: &'a ModelError,
    },
    /// All answers of a task are there, and it is scored now.
    Scoring {
        /// The task.
        task: &'a Task,
    },
}

/// Hears what happens. Calls come from several threads.
pub trait Events: Send + Sync {
    /// Something happened.
    fn event(&self, _event: Event<'_>) {}

    /// A task was scored. Its records are dropped afterwards, unless the options keep them; a failure ends the run.
    fn scored(&self, _result: &TaskResult) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {}
