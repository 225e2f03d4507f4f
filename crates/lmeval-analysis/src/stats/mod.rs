//! The arithmetic of scores and of paired comparisons.
//!
//! Everything but [`mean_interval`], [`with_repeats`] and [`Sampled`] works on per-document differences `new − base`, so both runs must have scored the same documents.

mod adjust;
mod cluster;
mod independent;
mod interval;
mod mcnemar;
mod net_change;
mod power;
mod repeats;
mod sign_flip;
mod special;
mod summary;

pub use adjust::{benjamini_hochberg, holm};
pub use cluster::{ClusterCorrection, clustered_stderr};
pub use independent::{Sampled, independent_difference, weighted_sum};
pub use interval::{Interval, mean_interval, paired_proportions, student};
pub use mcnemar::{mcnemar, mcnemar_loss};
pub use net_change::{Changed, net_change};
pub use power::{detectable_difference, documents_needed};
pub use repeats::{Attempt, Estimate, Reduction, with_repeats};
pub use sign_flip::{Evidence, SignFlip, sign_flip};
pub use special::{normal_cdf, normal_quantile, student_cdf, student_quantile};
pub use summary::{Moments, moments};
