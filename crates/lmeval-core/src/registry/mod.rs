//! What a task can name: metrics, aggregations, reductions, filters, scorers and samplers.
//!
//! Each kind is one visible table of built-in entries plus what a program adds at run time. An entry is
//! knowledge about a name; the code that a name stands for is found by that name elsewhere.

mod aggregations;
mod filters;
mod metric_config;
mod metrics;
mod options;
mod reductions;
mod registered;
mod samplers;
mod scorers;
mod table;

pub use aggregations::{AGGREGATIONS, AggregationEntry, AggregationInput};
pub use filters::{FILTERS, FilterEntry};
pub use metric_config::{Metric, MetricConfigError};
pub use metrics::{
    METRICS, MetricEntry, MetricOwn, MetricValue, default_metrics, instead_of_evaluate, is_evaluate_metric,
    metrics_like, needs_evaluate,
};
pub use options::{OptionEntry, OptionKind, OptionProblem, OptionTable, UnknownOptions};
pub use reductions::{REDUCTIONS, ReductionEntry, reduction_count};
pub use registered::{NameLookup, NameScope, Registered, RegisteredHost};
pub use samplers::{SAMPLERS, SamplerEntry};
pub use scorers::{SCORERS, ScorerEntry, ScorerMetric};
pub use table::{AlreadyRegistered, Entry, Registry, UnknownName};

/// Who computes what a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// This program.
    BuiltIn,
    /// The Python code of a task, which registers the name when it is imported.
    TaskCode,
    /// A program or plug-in that registered the name at run time.
    User,
}

/// One registry of each kind: everything that names in a task are looked up in.
#[derive(Clone, Debug)]
pub struct Registries {
    /// Metrics.
    pub metrics: Registry<MetricEntry>,
    /// Aggregations.
    pub aggregations: Registry<AggregationEntry>,
    /// Reductions.
    pub reductions: Registry<ReductionEntry>,
    /// Filters.
    pub filters: Registry<FilterEntry>,
    /// Scorers.
    pub scorers: Registry<ScorerEntry>,
    /// Few-shot samplers.
    pub samplers: Registry<SamplerEntry>,
}

impl Default for Registries {
    fn default() -> Self {
        Self {
            metrics: Registry::new(METRICS),
            aggregations: Registry::new(AGGREGATIONS),
            reductions: Registry::new(REDUCTIONS),
            filters: Registry::new(FILTERS),
            scorers: Registry::new(SCORERS),
            samplers: Registry::new(SAMPLERS),
        }
    }
}
