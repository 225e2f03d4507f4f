//! Claims about scores as files.
//!
//! A [`recipe`] says how a score is made, with the scores that others got. A [`lock`] says what a run was made of. [`content`] identifies the definition of a task by its
//! content, so that a recipe notices that a library has changed it.

pub mod content;
pub mod document;
pub mod lock;
pub mod recipe;

pub use lmeval_analysis::Error;
