//! Tools for journals: list, verify, compact, export.

mod compact;
mod export;
mod list;
mod verify;

pub use compact::{Compacted, compact};
pub use export::{Exported, export};
pub use list::{Listing, ModelSummary, TaskSummary, list};
pub use verify::{Problem, Verification, verify};
