//! Groups: averages over tasks.
//!
//! [`RunResults::collect`](crate::results::RunResults::collect) computes the scores of a group from the entries of its tasks,
//! and gives it the properties that its members share.

mod aggregate;
mod error;
mod inherit;
mod spec;

pub use aggregate::GroupScores;
pub(crate) use aggregate::aggregate_group;
pub use error::GroupError;
pub use inherit::Directions;
pub(crate) use inherit::{directions_to_dict, inherit_higher_is_better, inherit_num_fewshot};
pub(crate) use spec::GroupTree;
pub use spec::{GroupMetric, GroupSpec};
