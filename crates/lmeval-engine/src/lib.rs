//! Runs an evaluation: from tasks to results.
//!
//! One stream: requests are built while earlier ones are in flight; an answer is written to the journal before it
//! is used; documents are scored as soon as scoring needs no other answers. [`evaluate`] runs loaded tasks on a
//! model; creating models and loading tasks by name is up to the caller. Nothing here prints: [`Events`] receives
//! progress.

mod answerers;
mod attribution;
mod backlog;
mod build;
mod cancel;
mod choices;
mod class_tasks;
mod collect;
mod contact;
mod data;
mod dispatch;
mod error;
mod evaluate;
mod event;
mod journal_answers;
mod judge_documents;
mod judging;
mod key;
mod options;
mod plan;
mod preview;
mod produce;
mod score;
mod stored;
mod targets;
mod valid;

pub use build::build_requests;
pub use cancel::Cancel;
pub use class_tasks::{ClassSettings, load_class};
pub use collect::{Failure, ModelUsage};
pub use data::{load_splits, request_sources};
pub use error::EngineError;
pub use evaluate::{Evaluated, evaluate};
pub use event::{DocumentCounts, Event, Events, NoEvents};
pub use journal_answers::JournalAnswers;
pub use judging::{Baseline, JudgeModel, is_judge};
pub use options::{Abilities, ChatTemplateChoice, DataOptions, EvaluateOptions, JournalOptions};
pub use preview::PreviewScore;
pub use stored::{StoredDocuments, decode_answered, encode_answered, score_stored};
