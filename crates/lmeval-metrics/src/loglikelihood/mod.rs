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

pub use self::acc::{acc, acc_by_argmax};
pub use self::acc_bytes::acc_bytes;
pub use self::acc_mutual_info::acc_mutual_info;
pub use self::acc_norm::acc_norm;
pub use self::bits_per_byte::BitsPerByteOfText;
pub use self::bpb::bpb;
pub use self::brier_score::brier_score;
pub use self::byte_perplexity::BytePerplexity;
pub use self::choice_logprob::choice_logprob;
pub use self::choice_logprob_norm::choice_logprob_norm;
pub use self::choice_prob_norm::choice_prob_norm;
pub use self::exact_match_mc::exact_match_mc;
pub use self::f1::F1OfChoices;
pub use self::likelihood::Likelihood;
pub use self::logprob::logprob;
pub use self::mcc::MatthewsOfChoices;
pub use self::perplexity::PerplexityOfTarget;
pub use self::word_perplexity::WordPerplexity;
use crate::aggregation::Mean;
use crate::error::MetricError;
use crate::ll_results::LLResults;
use crate::metric::Metric;
use crate::number::Number;
use crate::output_type::OutputType;

const CHOICE: &[OutputType] = &[OutputType::MultipleChoice];
const ANY_OPTION: &[OutputType] = &[OutputType::Loglikelihood, OutputType::MultipleChoice];
const TARGET: &[OutputType] = &[OutputType::Loglikelihood];
const ROLLING: &[OutputType] = &[OutputType::LoglikelihoodRolling];

/// A metric with one number per document and the mean as its aggregation.
fn number_metric(
    name: &'static str,
    output_types: &'static [OutputType],
    function: fn(&Value, &LLResults) -> Result<Number, MetricError>,
) -> Metric<Number> {
    Metric::new(name, output_types, Mean, move |_| {
        Ok(Box::new(move |input| {
            let (reference, results) = input.likelihood()?;
            Ok(vec![function(reference, results)?])
        }))
    })
}

/// Log-likelihoods per unit of length.
fn per_length(results: &LLResults, lengths: &[f64]) -> Vec<f64> {
    results.lls.iter().zip(lengths).map(|(ll, length)| ll / length).collect()
}
