//! Prompt formats: several ways to ask the same question.
//!
//! A task that names its question, options and answer can be asked as multiple choice with letters (`mcqa`), by the
//! likelihood of each option (`cloze`), as a generation that ends in a letter (`generate`) or as a free chain of
//! thought (`cot`). The layout of a [`Format`] and the task's fields become the templates that replace the task's own.

mod overrides;
mod reference;
mod resolve;
mod templates;

pub use lmeval_scoring::formats::{ChoiceLabels, Format};
#[cfg(test)]
pub(crate) use overrides::Overrides;
pub(crate) use resolve::locate;
pub use resolve::{SelectedFormat, resolve};
#[cfg(test)]
pub(crate) use templates::FormatTemplates;
pub(crate) use templates::Templates;

#[cfg(test)]
mod tests;
