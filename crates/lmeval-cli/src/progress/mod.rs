//! Progress display of a run.

mod counts;
mod downloads;
mod line;
mod rate;
mod spinner;
mod ticker;
mod write_out;

pub(crate) use counts::RequestCounts;
#[cfg(feature = "view")]
pub(crate) use counts::Snapshot;
pub(crate) use downloads::Downloads;
pub(crate) use spinner::Spinner;
pub(crate) use ticker::{ProgressDisplay, Ticker};
pub(crate) use write_out::describe_first;
