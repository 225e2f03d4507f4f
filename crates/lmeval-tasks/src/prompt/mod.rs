//! From documents to requests.
//!
//! A [`RequestBuilder`] takes a task, its data and what the caller says, and yields for each evaluated document the
//! requests that are sent to a model. The road of a document: its fields are resolved (column, template, function),
//! examples are drawn and written, system text, examples and question become a context, plain or as a conversation,
//! and context and answers become requests.

mod builder;
mod changes;
mod class_requests;
mod coerce;
mod columns;
mod context;
mod error;
mod example;
mod field;
mod fields;
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
pub use error::{Place, PromptError, PromptErrorKind};
pub use options::{DEFAULT_FEWSHOT_SEED, RequestOptions, RequestSources, Shard};
pub use request::Skipped;
pub use templates::Templates;
