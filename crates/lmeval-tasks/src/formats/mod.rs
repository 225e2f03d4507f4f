//! Prompt formats: one question, several ways to ask it.
//!
//! A task that names its question, options and answer can be asked as multiple choice with letters (`mcqa`), by
//! the likelihood of each option's text (`cloze`), as a generation that ends in a letter (`generate`) or as a free
//! chain of thought (`cot`). A [`Format`] holds the pieces of text; they and the task's own fields become the
//! templates that replace those of the task.

mod overrides;
mod reference;
mod resolve;
mod templates;

pub use lmeval_core::formats::{ChoiceLabels, Format};
#[cfg(test)]
pub(crate) use overrides::Overrides;
pub(crate) use resolve::locate;
pub use resolve::{SelectedFormat, resolve};
#[cfg(test)]
pub(crate) use templates::FormatTemplates;
pub(crate) use templates::Templates;

#[cfg(test)]
mod tests;
