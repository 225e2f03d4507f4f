//! Builds scorers from task configurations.
//!
//! [`prepare_scoring`] prepares everything before the first request, [`scoring_uses`] lists the names that a task uses
//! and what computes them, [`task_scorer`] builds the pipelines of a task, [`task_result`] collects their scores, and
//! [`group_specs`] describes the groups for results.

mod group;
mod modules;
mod prepare;
mod registered;
mod result;
mod specs;
mod uses;

pub use group::{ResultKeys, group_specs};
pub use prepare::prepare_scoring;
pub use registered::module_folders;
pub(crate) use registered::with_sampler;
pub use result::{task_result, unscored_result};
pub use specs::{metric_spec, pipeline_spec, scorer_spec, task_scorer};
pub use uses::{ArgumentUse, ComputedBy, ScoringUse, UseKind, scoring_uses};
pub(crate) use uses::{asks_for_evaluate, has_own_scorer};
