//! Domain types of an evaluation and the registries of everything that a task can name.
//!
//! ```
//! use lmeval_core::registry::Registries;
//!
//! let registries = Registries::default();
//! let metric = registries.metrics.get("acc_norm").unwrap();
//! assert!(metric.higher_is_better);
//! let unknown = registries.filters.find("regexx").unwrap_err();
//! assert_eq!(unknown.nearest, ["regex"]);
//! ```

mod near;
mod output_type;
pub mod registry;

pub use near::nearest;
pub use output_type::{OutputType, UnknownOutputType};
