//! Domain types of an evaluation, and the registry of everything that tasks and runs refer to by name.
//!
//! ```
//! use lmeval_core::registry::Registry;
//!
//! let registry = Registry::default();
//! let metric = registry.metrics.get("acc_norm").unwrap();
//! assert!(metric.facts.higher_is_better);
//! let unknown = registry.filters.find("regexx").unwrap_err();
//! assert_eq!(unknown.nearest, ["regex"]);
//! ```

mod chat;
mod check;
mod dataset;
mod diagnostic;
mod dialect;
mod document;
mod downloads;
pub mod filters;
pub mod formats;
pub mod groups;
mod guard;
mod host;
mod in_process;
mod instance;
pub mod judge;
mod letters;
mod message;
mod model;
mod model_error;
mod model_settings;
pub mod recorded;
pub mod registry;
pub mod results;
pub mod sampler;
pub mod scorers;
pub mod secrets;
mod stops;
mod windows;
mod words;
pub mod work_queue;

pub use chat::{ChatError, ChatTemplate, RemoteTemplate};
pub use check::{Check, CheckSink, Verdict};
pub use dataset::DatasetRequest;
pub use diagnostic::{Diagnose, Diagnostic, Level, Location, downcast_error};
pub use dialect::{Dialect, FilterRules, ScoringRules, UnknownDialect};
pub use document::{
    DocId, DocumentError, Documents, MemoryDocuments, MemorySplits, NoSuchDocument, NoSuchSplit, Splits,
};
pub use downloads::{DownloadProgress, NoProgress};
pub use guard::{guarded, is_guarded};
pub use host::{ClassCall, Host, HostError, HostFn, HostServices, NamedSplits, NoHost, display_reference};
pub use in_process::{InProcess, LocalModel};
pub use instance::{Arguments, Context, Instance, InstanceMetadata, MAX_REPEATS, RequestType};
pub use letters::{Letter, LetterOutcome, letters_value};
pub use lmeval_metrics::{OutputType, UnknownOutputType, edit_distance, nearest};
pub use message::{ChatMessage, Message, Role, messages_to_single_turn, messages_to_text, messages_to_turns};
pub use model::{
    Answer, AnswerSink, Model, ModelFacts, ModelFuture, ModelIdentity, ModelRequest, ModelStats,
    ModelTemplate, ModelTraits, OPTIONAL_FIELDS, OptionScoring, REPORTED_FACTS, Response, SCORING_FACT,
    Usage,
};
pub use model_error::{ModelError, ModelErrorKind};
pub use model_settings::{AskedArguments, ModelSettings, ProcessPaths};
pub use stops::stops;
pub use windows::{Window, windows};
pub use words::counted;
