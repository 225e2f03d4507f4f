//! Task definitions: from YAML files to typed tasks.
//!
//! [`source`] reads files and merges includes, [`index`] collects the names they define, [`config`] types a merged
//! mapping, [`formats`] turns a prompt format into templates, and the [`TaskManager`] builds tasks and groups by name.

mod choices;
pub mod config;
pub mod embedded;
mod error;
pub mod formats;
pub mod index;
mod manager;
pub mod prompt;
pub mod scoring;
pub mod source;
mod validate;

pub use choices::{ChoiceMethod, ChoiceTask, NEEDS_CONTINUATIONS};
pub use embedded::ROOT as BUILTIN_LIBRARY;
pub use error::{Diagnostic, Error, ErrorKind, Location};
pub use manager::{ClassTask, Group, Overrides, Spec, Task, TaskDict, TaskManager, TaskOptions};
pub use validate::{Finding, Severity};
