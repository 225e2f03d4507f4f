//! Builds requests from documents.
//!
//! A [`RequestBuilder`] takes a task, its data and the caller's options, and yields the requests of each evaluated
//! document. It resolves the fields of the document (column, template, function), draws and renders examples, combines
//! system prompt, examples and question into a context, plain or as a conversation, and pairs the context with the
//! answers.

mod builder;
mod changes;
mod class_requests;
mod coerce;
mod columns;
mod context;
mod digest;
mod error;
mod example;
mod field;
mod fields;
mod media;
mod options;
mod plan;
mod request;
mod selection;
mod templates;
#[cfg(test)]
mod tests;
mod turn;

pub use builder::{DocumentRequests, RequestBuilder};
pub use class_requests::read_arguments;
pub use columns::{MissingColumn, missing_columns};
pub use error::{ErrorDocument, PromptError, PromptErrorKind};
pub use options::{DEFAULT_FEWSHOT_SEED, Part, RequestOptions, RequestSources, Shard};
pub use request::Skipped;
pub use templates::Templates;
