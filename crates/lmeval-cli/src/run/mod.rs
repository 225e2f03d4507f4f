//! The steps of `lm-eval run`.

pub(crate) mod advice;
pub(crate) mod choices;
pub(crate) mod events;
pub(crate) mod interrupt;
pub(crate) mod judges;
#[cfg_attr(not(feature = "view"), path = "no_live.rs")]
pub(crate) mod live;
pub(crate) mod lock;
pub(crate) mod model;
pub(crate) mod output;
pub(crate) mod recipe;
pub(crate) mod session;
pub(crate) mod shard;
pub(crate) mod thresholds;
pub(crate) mod torch;
pub(crate) mod tracking;
pub(crate) mod verdicts;
