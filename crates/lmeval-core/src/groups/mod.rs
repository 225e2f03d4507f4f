//! Groups: averages over tasks.
//!
//! [`aggregate_group`] makes the entry of one group from the entries of its tasks; [`GroupTree`] knows which tasks those
//! are and in which order groups are processed; [`inherit_num_fewshot`] and [`inherit_higher_is_better`] give groups what
//! their members have in common.

mod aggregate;
mod error;
mod inherit;
mod spec;

pub use aggregate::{GroupEntry, aggregate_group};
pub use error::GroupError;
pub(crate) use inherit::directions_to_dict;
pub use inherit::{Directions, inherit_higher_is_better, inherit_num_fewshot};
pub use spec::{GroupMetric, GroupSpec, GroupTree};
