//! Scoring: what turns a model's answers into results, and the registry of everything that tasks and runs refer to by name.
//!
//! ```
//! use lmeval_scoring::registry::Registry;
//!
//! let registry = Registry::default();
//! let metric = registry.metrics.get("acc_norm").unwrap();
//! assert!(metric.facts.higher_is_better);
//! let unknown = registry.filters.find("regexx").unwrap_err();
//! assert_eq!(unknown.nearest, ["regex"]);
//! ```

pub mod filters;
pub mod formats;
pub mod groups;
mod host;
pub mod judge;
pub mod registry;
pub mod results;
pub mod sampler;
pub mod scorers;

pub use host::{ClassCall, Host, HostError, HostFn, HostServices, NamedSplits, NoHost, display_reference};
