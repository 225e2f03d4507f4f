//! Claims about scores as files.
//!
//! A [`recipe`] says how a score is made, with the scores that others got. A [`lock`] says what a run was made of. A
//! [`claim`] is a score that someone reports, and is reproduced or not. An [`expect`] file decides in CI whether scores are what they were.
//! [`content`] identifies the definition of a task by its content, so that a recipe notices that a library has changed it.

pub mod claim;
pub mod content;
pub mod document;
pub mod expect;
pub mod lock;
pub mod receipt;
pub mod recipe;
pub mod scores;

pub use lmeval_analysis::Error;
