//! Tools for journals: list, verify, compact, merge, export.

mod compact;
mod export;
mod list;
mod merge;
mod verify;

pub use compact::{Compacted, compact};
pub use export::{Exported, export};
pub use list::{Listing, ModelSummary, TaskSummary, list};
pub use merge::{Conflict, Merged, merge};
pub use verify::{Problem, Verification, verify};
