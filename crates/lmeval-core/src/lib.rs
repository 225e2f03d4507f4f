//! Domain types of an evaluation and the registries of everything that a task can name.
//!
//! ```
//! use lmeval_core::registry::Registries;
//!
//! let registries = Registries::default();
//! let metric = registries.metrics.get("acc_norm").unwrap();
//! assert!(metric.higher_is_better);
//! let unknown = registries.filters.find("regexx").unwrap_err();
//! assert_eq!(unknown.nearest, ["regex"]);
//! ```

mod chat;
mod dataset;
mod dialect;
mod document;
mod downloads;
pub mod filters;
pub mod groups;
mod guard;
mod host;
mod instance;
mod message;
mod model;
mod model_settings;
mod near;
mod output_type;
pub mod registry;
pub mod results;
pub mod sampler;
pub mod scorers;
pub mod secrets;
mod stops;
mod windows;
mod words;

pub use chat::{ChatError, ChatTemplate, RemoteTemplate};
pub use dataset::DatasetRequest;
pub use dialect::{Dialect, FilterRules, ScoringRules, UnknownDialect};
pub use document::{
    DocId, DocumentError, Documents, MemoryDocuments, MemorySplits, NoSuchDocument, NoSuchSplit, Splits,
};
pub use downloads::{DownloadProgress, NoProgress};
pub use guard::{guarded, is_guarded};
pub use host::{
    ClassCall, FunctionHost, HostError, HostFn, HostServices, NamedSplits, NoHost, shown_reference,
};
pub use instance::{Arguments, Context, Instance, InstanceMetadata, MOST_REPEATS, RequestType};
pub use message::{ChatMessage, Message, Role, messages_to_single_turn, messages_to_text, messages_to_turns};
pub use model::{
    Answer, AnswerSink, Dispatch, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelFacts,
    ModelFuture, ModelIdentity, ModelRequest, ModelStats, ModelTemplate, Response, Usage,
};
pub use model_settings::{ModelEntry, ModelSettings, wrong_argument};
pub use near::{edit_distance, nearest};
pub use output_type::{OutputType, UnknownOutputType};
pub use stops::stops;
pub use windows::{Window, windows};
pub use words::counted;
