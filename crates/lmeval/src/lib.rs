//! Evaluate language models on YAML tasks, from Rust.
//!
//! An [`Evaluation`] combines a model, tasks and a [`Registry`] of the names tasks may use. An extension implements a
//! trait and registers an entry; task files refer to it by name, and loading, validation and the run look it up.
//!
//! ```
//! use lmeval::metrics::aggregation::Mean;
//! use lmeval::{Evaluation, Metric, MetricEntry, Number, OutputType, Registry, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The number of characters in an answer.
//! let length = Metric::new("length", &[OutputType::GenerateUntil], Mean, |_| {
//!     let length = |answer: &Value| answer.as_str().map_or(0, |text| text.chars().count());
//!     Ok(Box::new(move |input| {
//!         let (_, answers) = input.generation()?;
//!         Ok(answers.iter().map(|answer| Number::Int(length(answer) as i64)).collect())
//!     }))
//! });
//! let mut registry = Registry::default();
//! registry.register(MetricEntry::from(length))?;
//!
//! let results = Evaluation::new("dummy")
//!     .tasks(["demo_translate"])
//!     .override_task("demo_translate", "{metric_list: [{metric: length}]}")?
//!     .registry(registry)
//!     .limit(3)
//!     .run()?;
//! assert_eq!(results.score("demo_translate", "length"), Some(3.0));
//! # Ok(())
//! # }
//! ```
//!
//! The `examples/` folder of this crate has a complete example each for a metric, a filter, a scorer, a model and an HTTP backend.

pub mod environment;
mod evaluation;
pub mod library;
mod models;

pub use evaluation::{Evaluation, ModelChoice, definitions};
pub use lmeval_core::{
    Answer, Arguments, Diagnose, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelFuture,
    ModelIdentity, ModelRequest, ModelSettings, ModelTraits, OutputType, RequestType, Response,
};
pub use lmeval_engine::{
    Cancel, ChatTemplateChoice, EngineError, EvaluateOptions, Evaluated, Event, Events, JournalOptions,
};
pub use lmeval_metrics as metrics;
pub use lmeval_metrics::{Metric, MetricInput, Number};
pub use lmeval_net::http_client;
pub use lmeval_pycompat::{Dict, Value};
pub use lmeval_scoring::registry::{
    AggregationEntry, AlreadyRegistered, FilterEntry, FormatEntry, MetricEntry, ModelEntry, OptionEntry,
    OptionKind, OptionTable, ReductionEntry, Registry, SamplerEntry, ScorerEntry,
};
pub use lmeval_scoring::results::Score;
pub use lmeval_scoring::{filters, formats, sampler, scorers};
pub use lmeval_tasks::{Finding, Severity, Spec, TaskDict, TaskManager};
pub use models::{Placement, registry, wrong_batch_size};
