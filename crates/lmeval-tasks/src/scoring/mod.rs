//! From a task's configuration to what scores its answers.
//!
//! [`task_scorer`] builds the pipelines of a task, [`task_result`] takes their scores, and [`group_specs`] says what
//! results need to know about groups.

mod group;
mod result;
mod specs;

pub use group::{ResultKeys, group_specs};
pub use result::task_result;
pub use specs::{metric_spec, pipeline_spec, scorer_spec, task_scorer};
