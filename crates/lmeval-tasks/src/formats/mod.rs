//! Prompt formats: one question, several ways to ask it.
//!
//! A task that names its question, options and answer can be asked as multiple choice with letters (`mcqa`), by
//! the likelihood of each option's text (`cloze`), as a generation that ends in a letter (`generate`) or as a free
//! chain of thought (`cot`). A [`Format`] holds the pieces of text; [`Format::templates`] turns them, and the
//! task's own fields, into the templates that replace those of the task.

mod cloze;
mod cot;
mod format;
mod generate;
mod mcqa;
mod reference;
mod registry;
mod resolve;
mod templates;

pub use format::{ChoiceLabels, Format};
pub use registry::FormatRegistry;
pub(crate) use resolve::locate;
pub use resolve::{SelectedFormat, resolve};
pub use templates::FormatTemplates;

#[cfg(test)]
mod tests;
