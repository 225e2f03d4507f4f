//! Metrics, aggregations, reductions and standard errors.
//!
//! A score is computed in three steps: a metric computes one value per repeat of a document, a reduction combines the
//! repeats, and an aggregation combines all documents into one number, which has a standard error. [`Metric`] tracks
//! the types of these steps; [`AnyMetric`], [`AnyReduction`] and [`AnyAggregation`] are type-erased, for lookup by
//! name.
//!
//! ```
//! use lmeval_metrics::{LLResults, MetricInput, StandardError, metric, stderr_for_metric};
//! use lmeval_pycompat::{Dict, Value};
//!
//! let accuracy = metric("acc").unwrap();
//! let score = accuracy.bind(&Dict::new()).unwrap();
//! let results = LLResults::from_answers(&[(-1.0, false), (-2.0, false)], &[], Vec::new()).unwrap();
//! let values: Vec<Value> = [0, 1, 0, 0]
//!     .into_iter()
//!     .map(|target| {
//!         let reference = Value::Int(target);
//!         let input = MetricInput::Likelihood { reference: &reference, results: &results };
//!         score(input).unwrap()[0].clone()
//!     })
//!     .collect();
//! assert_eq!(accuracy.aggregation().aggregate(&values).unwrap().to_f64(), 0.75);
//! let error = stderr_for_metric(&*accuracy.aggregation(), &values, 100_000).unwrap();
//! assert_eq!(error, StandardError::Known(0.25));
//! ```
//!
//! Summation order, ties, resampling and rounding match the reference harness on CPython 3.11 and numpy.

pub mod aggregation;
pub mod agreement;
mod error;
pub mod generation;
mod item;
mod ll_results;
pub mod loglikelihood;
mod metric;
mod near;
mod number;
mod options;
mod output_type;
pub mod preference;
pub mod reduction;
mod registry;
mod stderr;
pub mod vector;

pub use aggregation::{Aggregation, AnyAggregation, Resample};
pub use error::MetricError;
pub use item::{GoldLikelihoods, Item, LabelPair, TextPair, Weighted};
pub use ll_results::LLResults;
pub use metric::{AnyMetric, BoundMetric, Metric, MetricFunction, MetricInput, bypass};
pub use near::{edit_distance, nearest};
pub use number::Number;
pub use options::{OptionEntry, OptionKind, OptionProblem, OptionTable, UnknownOptions};
pub use output_type::{OutputType, UnknownOutputType};
pub use reduction::{AnyReduction, Reduced, Reduction};
pub use registry::{
    AGGREGATIONS, BuiltInAggregation, BuiltInReduction, METRICS, REDUCTIONS, aggregation, metric, reduction,
    reduction_counts,
};
pub use stderr::{
    StandardError, bootstrap_plan, bootstrap_stderr, combined_stderr_unweighted, mean_stderr, pooled_stderr,
    sample_stddev, stderr_for_metric, weighted_mean,
};
