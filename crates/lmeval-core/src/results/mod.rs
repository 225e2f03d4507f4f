//! Results: what a run says about tasks, groups and single documents.
//!
//! A [`TaskResult`] holds what one task gave, a [`SampleRecord`] what one document gave; [`RunResults::collect`] puts
//! tasks and groups together as results files show them.

mod audit;
mod hash;
mod run;
mod sample;
mod task;

pub use audit::Audit;
pub use hash::{hash_document, hash_prompt, hash_target, hash_text, replace_foreign};
pub use run::RunResults;
pub use sample::{DocumentHashes, SampleRecord, sample_records};
pub use task::{TaskEntry, TaskResult};
