//! The typed form of a task or group definition.
//!
//! [`TaskConfig::from_mapping`] turns a merged mapping into a [`TaskConfig`]: it applies the prompt format, fills in
//! generation and few-shot defaults, and normalises metrics and filters, in this order. [`check`] later looks up the
//! names of metrics, filters, scorers and samplers.

pub mod check;
mod dump;
mod fewshot;
mod field;
mod filter;
mod generation;
mod group;
mod keys;
mod metric;
mod path;
mod read;
mod runtime;
mod scorer;
mod serialise;
mod task;
mod words;

pub use fewshot::{FewshotConfig, FewshotSamples, Sampler};
pub use field::Field;
pub use filter::{FilterPipeline, FilterStep};
pub use generation::GenerationKwargs;
pub use group::{AggregateMetric, GroupConfig};
pub use keys::{GROUP_KEYS, TASK_KEYS};
pub use metric::{Given, MetricConfig};
pub use path::{ConfigPath, Named};
pub use scorer::ScorerConfig;
pub use task::TaskConfig;

pub(crate) use read::value_text;
pub(crate) use words::{listed, quoted, shortened};

#[cfg(test)]
mod tests;
