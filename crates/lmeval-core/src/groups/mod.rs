//! Groups: averages over tasks.
//!
//! [`aggregate_group`] computes the entry of a group from the entries of its tasks; [`GroupTree`] lists those tasks
//! and orders the groups; [`inherit_num_fewshot`] and [`inherit_higher_is_better`] give groups the properties that
//! their members share.

mod aggregate;
mod error;
mod inherit;
mod spec;

pub use aggregate::{GroupEntry, aggregate_group};
pub use error::GroupError;
pub(crate) use inherit::directions_to_dict;
pub use inherit::{Directions, inherit_higher_is_better, inherit_num_fewshot};
pub use spec::{GroupMetric, GroupSpec, GroupTree};
