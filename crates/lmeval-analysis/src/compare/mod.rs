//! Comparing two runs document by document.

mod align;
mod corpus;
mod difference;
mod group;
mod groups;
mod prompts;
mod runs;
mod task;

pub use align::{Alignment, align};
pub use corpus::aggregates;
pub use difference::{Difference, Precision, Test, means};
pub use group::{GroupPart, group_difference};
pub use prompts::{first_difference, first_difference_of};
pub use runs::{Compared, Comparison, Flip, Settings, adjust, compare};

pub(crate) use groups::leaves;
