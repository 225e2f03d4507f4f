//! Claims about scores as files.
//!
//! A [`recipe`] says how a score is made, with the scores that others got. [`content`] identifies the definition of a task by its
//! content, so that a recipe notices that a library has changed it.

pub mod content;
pub mod document;
pub mod recipe;

pub use lmeval_analysis::Error;
