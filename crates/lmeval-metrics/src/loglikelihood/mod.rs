//! Metrics of log-likelihoods. One file each.
//!
//! `acc_norm` and `acc_bytes` use the length of the option without its delimiter; every other metric divides by the
//! length of the string as sent.

mod acc;
mod acc_bytes;
mod acc_mutual_info;
mod acc_norm;
mod bits_per_byte;
mod bpb;
mod brier_score;
mod byte_perplexity;
mod choice_logprob;
mod choice_logprob_norm;
mod choice_prob_norm;
mod exact_match_mc;
mod f1;
mod likelihood;
mod logprob;
mod mcc;
mod perplexity;
mod target;
#[cfg(test)]
mod test_support;
mod word_perplexity;

use lmeval_pycompat::Value;

pub use self::acc::acc;
pub use self::acc_bytes::acc_bytes;
pub use self::acc_mutual_info::acc_mutual_info;
pub use self::acc_norm::acc_norm;
pub use self::bits_per_byte::bits_per_byte;
pub use self::bpb::bpb;
pub use self::brier_score::brier_score;
pub use self::byte_perplexity::byte_perplexity;
pub use self::choice_logprob::choice_logprob;
pub use self::choice_logprob_norm::choice_logprob_norm;
pub use self::choice_prob_norm::choice_prob_norm;
pub use self::exact_match_mc::exact_match_mc;
pub use self::f1::f1;
pub use self::likelihood::likelihood;
pub use self::logprob::logprob;
pub use self::mcc::mcc;
pub use self::perplexity::perplexity;
pub use self::word_perplexity::word_perplexity;
use crate::aggregation::{Aggregation, Mean};
use crate::error::MetricError;
use crate::item::{Item, LabelPair};
use crate::ll_results::LLResults;
use crate::metric::Metric;
use crate::number::Number;
use crate::output_type::OutputType;
use crate::vector::argmax;

const CHOICE: &[OutputType] = &[OutputType::MultipleChoice];
const ANY_OPTION: &[OutputType] = &[OutputType::Loglikelihood, OutputType::MultipleChoice];
const TARGET: &[OutputType] = &[OutputType::Loglikelihood];
const ROLLING: &[OutputType] = &[OutputType::LoglikelihoodRolling];

/// A metric with one value per document.
fn metric<T: Item>(
    name: &'static str,
    output_types: &'static [OutputType],
    aggregation: impl Aggregation<T> + 'static,
    function: fn(&Value, &LLResults) -> Result<T, MetricError>,
) -> Metric<T> {
    Metric::new(name, output_types, aggregation, move |_| {
        Ok(Box::new(move |input| {
            let (reference, results) = input.likelihood()?;
            Ok(vec![function(reference, results)?])
        }))
    })
}

/// A metric with one number per document and the mean as its aggregation.
fn number_metric(
    name: &'static str,
    output_types: &'static [OutputType],
    function: fn(&Value, &LLResults) -> Result<Number, MetricError>,
) -> Metric<Number> {
    metric(name, output_types, Mean, function)
}

/// The target and the index of the most likely option.
fn label_pair(reference: &Value, results: &LLResults) -> Result<LabelPair, MetricError> {
    Ok(LabelPair { gold: reference.clone(), prediction: Value::Int(argmax(&results.lls)? as i64) })
}

/// Log-likelihoods per unit of length.
fn per_length(results: &LLResults, lengths: &[f64]) -> Vec<f64> {
    results.lls.iter().zip(lengths).map(|(ll, length)| ll / length).collect()
}
