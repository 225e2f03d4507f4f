//! Progress events of a run.

use std::sync::Arc;

use lmeval_core::{Finish, ModelError, ModelIdentity, ModelRequest, RequestType, Usage};
use lmeval_journal::{Damage, Fingerprint};
use lmeval_scoring::results::TaskResult;
use lmeval_scoring::scorers::{AnsweredDocument, ScoringPipeline};
use lmeval_tasks::Task;
use lmeval_tasks::prompt::{DocumentRequests, MissingColumn};

use crate::error::EngineError;
use crate::preview::PreviewScore;

/// A progress event.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The journal was opened.
    JournalOpened {
        /// The number of answers in it, of any model.
        answers: usize,
        /// The size in bytes of an incomplete record truncated from the end.
        repaired_bytes: Option<u64>,
        /// Damaged regions of the file. Requests whose answers were in them are sent again.
        damage: &'a [Damage],
        /// Whether other processes are excluded by a lock; false on file systems without locks.
        is_exclusive: bool,
    },
    /// The server does not report its model; it is assumed to run the last one that the journal has for its
    /// address.
    ModelAssumed {
        /// The name of that model.
        serves: &'a str,
    },
    /// The number of reusable answers is known.
    Reusing {
        /// Answers of this model; their requests are not sent again.
        answers: usize,
        /// The model and its server, for messages; empty for a model without a server.
        from: &'a str,
        /// Whether the server is asked for its model only before the first request that has no saved answer.
        is_assumed: bool,
        /// Answers of a model of the same name from an unknown server. They are not reused.
        of_unknown_server: usize,
        /// Answers of other models or servers.
        of_others: usize,
    },
    /// The journal has log-likelihoods of this model by other protocols, which are not reused.
    OtherScoring {
        /// The protocol of this run; `None` is the default one.
        protocol: Option<&'a str>,
        /// The protocol of those answers.
        other: Option<&'a str>,
    },
    /// An old response cache was imported.
    CacheImported {
        /// The number of imported answers.
        answers: usize,
        /// The number of entries that are not answers.
        skipped: usize,
    },
    /// The identity of the model is known.
    Model(&'a ModelIdentity),
    /// It is decided whose answers the run uses. Not sent for a model whose answers are not saved, unless the run evaluates
    /// a [part](crate::EvaluateOptions::part).
    Attributed {
        /// The fingerprint of the model.
        model: Fingerprint,
        /// The model in words.
        description: &'a str,
    },
    /// The server runs another model than the one whose saved answers were used so far. They are discarded, and the run
    /// starts over: all counts begin again at zero, and records passed to [`Events::scored`] are void.
    OtherModel(&'a ModelIdentity),
    /// The server scores log-likelihoods by another protocol than the one whose saved answers were used so far. The run
    /// starts over, as for [`OtherModel`](Self::OtherModel).
    OtherProtocol {
        /// The protocol of the server; `None` is the default one.
        protocol: Option<&'a str>,
    },
    /// The options of a task are not compared by their log-likelihoods.
    Choices {
        /// The key of the task in the results.
        task: &'a str,
        /// How they are compared.
        description: &'a str,
    },
    /// The data of a task was loaded.
    Prepared {
        /// The task it belongs to.
        task: &'a Task,
        /// The number of documents to evaluate.
        documents: usize,
    },
    /// A field of a task looks like a column name but its documents have no such column.
    MissingColumn {
        /// The task it belongs to.
        task: &'a Task,
        /// The field and its value.
        missing: &'a MissingColumn,
    },
    /// The journal has answers for other documents or few-shot examples of the same task and choice of documents: its
    /// data has changed since.
    DataChanged {
        /// The task it belongs to.
        task: &'a Task,
    },
    /// The requests of one of a task's first three documents were built.
    FirstDocument {
        /// The task it belongs to.
        task: &'a Task,
        /// The document with its requests.
        requests: &'a DocumentRequests,
    },
    /// The requests of a document were built. After [`OtherModel`](Self::OtherModel) and [`OtherProtocol`](Self::OtherProtocol),
    /// they are built again.
    DocumentBuilt {
        /// The document with its requests.
        requests: &'a DocumentRequests,
    },
    /// A document was skipped because it has no requests.
    Skipped {
        /// The task it belongs to.
        task: &'a Task,
        /// The skipped document.
        requests: &'a DocumentRequests,
    },
    /// Requests were built.
    Built {
        /// The type of the requests.
        kind: RequestType,
        /// The number of requests.
        count: usize,
    },
    /// All requests of all tasks were built.
    AllBuilt,
    /// A request was answered.
    Answered {
        /// The name of its task.
        task: &'a Arc<str>,
        /// The type of the request.
        kind: RequestType,
        /// Whether the answer came from the journal or from an identical request instead of the model.
        reused: bool,
        /// The tokens used.
        usage: Usage,
        /// How a generation ended.
        finish: Finish,
        /// Whether a judge answered.
        is_judge: bool,
    },
    /// A request failed permanently.
    Failed {
        /// The failed request.
        request: &'a ModelRequest,
        /// The last error of the model.
        error: &'a ModelError,
    },
    /// All requests of a document were answered, or one failed. Only with
    /// [`EvaluateOptions::preview`](crate::EvaluateOptions::preview).
    DocumentDone {
        /// The key of the task in the results.
        task: &'a str,
    },
    /// A document was scored ahead of its task, by all its repeats or those that have arrived. Not every document is. Only with
    /// [`EvaluateOptions::preview`](crate::EvaluateOptions::preview).
    Previewed {
        /// The key of the task in the results.
        task: &'a str,
        /// The document with its answers; `None` while repeats are missing.
        document: Option<&'a AnsweredDocument>,
        /// The scores of the task so far; empty where they can only be computed at the end.
        scores: &'a [PreviewScore],
    },
    /// The scores of a [part](crate::EvaluateOptions::part) of a task cannot be computed, and the run continues without
    /// them.
    PartNotScored {
        /// The key of the task in the results.
        task: &'a str,
        /// The error of scoring.
        error: &'a EngineError,
    },
    /// All documents of a task are answered; scoring starts.
    Scoring {
        /// The task it belongs to.
        task: &'a Task,
    },
}

/// The numbers of documents of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentCounts {
    /// Documents with requests, including those that failed.
    pub built: usize,
    /// Documents in the evaluated split.
    pub original: usize,
    /// What all parts of a run have in common: the digest of all selected documents and their few-shot examples, and the hash
    /// of the first document's requests. `None` if all documents are evaluated.
    pub digest: Option<Arc<str>>,
}

/// Receives progress events, from several threads.
pub trait Events: Send + Sync {
    /// Called for every event.
    fn event(&self, _event: Event<'_>) {}

    /// Called with the documents of a task before they are scored: all at once, or in blocks if scoring them together is
    /// not necessary. They are in order, without those that failed. `last` is given with the last ones. An error ends the
    /// run.
    fn answered(
        &self,
        _task: &str,
        _documents: &[AnsweredDocument],
        _last: Option<DocumentCounts>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    /// Called before [`Events::scored`] with the pipelines of the task, which hold the values of its documents.
    fn values(&self, _task: &str, _pipelines: &[ScoringPipeline]) {}

    /// Called when a task is scored. Its records are dropped afterwards unless the options keep them. An error
    /// ends the run.
    fn scored(&self, _result: &TaskResult) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {}
