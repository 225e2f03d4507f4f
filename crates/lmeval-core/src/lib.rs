//! Domain types of an evaluation: documents, requests and models, the dialects of task files, and diagnostics.
//!
//! ```
//! use lmeval_core::{DocId, Documents, MemoryDocuments};
//! use lmeval_pycompat::Dict;
//!
//! let mut document = Dict::new();
//! document.insert("question", "6 * 7?");
//! let documents = MemoryDocuments::new(vec![document]);
//! assert_eq!(documents.len(), 1);
//! ```

mod chat;
mod check;
mod dataset;
mod diagnostic;
mod dialect;
mod distribution;
mod document;
mod downloads;
mod guard;
mod in_process;
mod instance;
mod letters;
mod message;
mod model;
mod model_error;
mod model_settings;
mod progress;
pub mod recorded;
pub mod secrets;
mod stops;
mod trace;
mod windows;
mod words;
pub mod work_queue;

pub use chat::{ChatError, ChatTemplate, RemoteTemplate};
pub use check::{Check, CheckSink, Verdict};
pub use dataset::DatasetRequest;
pub use diagnostic::{Diagnose, Diagnostic, Level, Location, downcast_error};
pub use dialect::{Dialect, FilterRules, ScoringRules, UnknownDialect};
pub use distribution::{Distribution, DistributionPart, DistributionSink, Kept};
pub use document::{
    DocId, DocumentError, Documents, MemoryDocuments, MemorySplits, NoSuchDocument, NoSuchSplit, Splits,
};
pub use downloads::{DownloadProgress, NoProgress};
pub use guard::{guarded, is_guarded};
pub use in_process::{InProcess, LocalModel};
pub use instance::{Arguments, Context, Instance, InstanceMetadata, MAX_REPEATS, RequestType};
pub use letters::{Letter, LetterOutcome, letters_value};
pub use lmeval_metrics::{OutputType, UnknownOutputType, edit_distance, nearest};
pub use message::{ChatMessage, Message, Role, messages_to_single_turn, messages_to_text, messages_to_turns};
pub use model::{
    Answer, AnswerSink, Finish, Model, ModelFacts, ModelFuture, ModelIdentity, ModelRequest, ModelStats,
    ModelTemplate, ModelTraits, OPTIONAL_FIELDS, OptionScoring, REPORTED_FACTS, Response, SCORING_FACT,
    Usage,
};
pub use model_error::{ModelError, ModelErrorKind};
pub use model_settings::{AskedArguments, ModelSettings, ProcessPaths};
pub use progress::Progress;
pub use stops::stops;
pub use trace::{Separator, TokenEnds, Trace};
pub use windows::{Window, windows};
pub use words::counted;
