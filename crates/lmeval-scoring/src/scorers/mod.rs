//! Scorers: turn a model's answers into scores.
//!
//! [`build_scorer`] builds a [`ScoringPipeline`] from one entry of `filter_list`: filters, metrics and the [`Scorer`]
//! that applies them. The pipelines of a task form a [`TaskScorer`], which takes [`AnsweredDocument`]s and produces
//! one [`ScoredDoc`] and one [`ReducedDoc`] per document, then one score with its standard error per metric, under a
//! [`MetricKey`]. Task code that replaces the metrics implements [`TaskCode`].

mod aggregate;
mod answered;
mod bound_metrics;
mod bounds;
mod build;
mod choice_match;
mod documents;
mod each_target;
mod error;
mod first_token;
mod gen_scorer;
mod input;
mod ll_scorer;
mod logged;
mod metric;
mod metric_key;
mod needs;
mod overrides;
mod pipeline;
mod process_results;
mod reduce;
mod regex_extraction;
mod registered_scorer;
mod registry;
mod repeats;
mod resolve;
mod scored;
mod scorer;
mod spec;
mod task_code;
mod task_scorer;

pub use aggregate::Aggregated;
pub use answered::{AnsweredDocument, AnsweredInstance, loglikelihood_response};
pub use bound_metrics::BoundMetrics;
pub use bounds::{Bounds, ScoreBounds};
pub use build::{ScoringSources, TaskFacts, build_predict_only, build_scorer};

pub use error::ScoreError;

pub use gen_scorer::GenScorer;
pub use input::ScoringInput;
pub use ll_scorer::FromInstances;

pub use metric::{MetricAggregation, MetricFunction, MetricReduction, PipelineMetric};
pub use metric_key::{MetricKey, NotAMetricKey, parent_metric};
pub use needs::Needs;
pub use pipeline::ScoringPipeline;

pub use registered_scorer::ScorerDefaults;
pub(crate) use registry::built_in;
pub use repeats::with_reductions;
pub use scored::{ReducedDoc, ScoredDoc, Scores};
pub use scorer::Scorer;
pub use spec::{MetricSpec, PipelineSpec, Reference, ScorerSpec, Setting};
pub use task_code::{HostAggregation, HostMetric, HostReduction, HostScorer, TaskCode};
pub use task_scorer::{Exported, Restored, TaskScorer};
