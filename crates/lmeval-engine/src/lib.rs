//! The run: from tasks to results, answers kept as they come.
//!
//! One stream: documents are rendered while earlier ones are at the model; an answer goes to the journal before it
//! counts; documents are scored as soon as that needs no other answers. [`evaluate`] runs loaded tasks on a model; making
//! models and loading tasks by name is up to its caller. Nothing here prints: [`Events`] hears what happens.

mod backlog;
mod cancel;
mod class_tasks;
mod collect;
mod data;
mod dispatch;
mod error;
mod evaluate;
mod event;
mod key;
mod options;
mod plan;
mod produce;
mod score;

pub use cancel::Cancel;
pub use class_tasks::{ClassSettings, load_class};
pub use collect::Failure;
pub use data::{load_splits, request_sources};
pub use error::EngineError;
pub use evaluate::{Evaluated, evaluate};
pub use event::{Event, Events, NoEvents};
pub use options::{ChatTemplateChoice, DataOptions, EvaluateOptions, JournalOptions};
