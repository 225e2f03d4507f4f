//! The built-in metrics, aggregations and reductions: one line each.

use std::sync::{Arc, LazyLock};

use lmeval_pycompat::Value;

use crate::aggregation::{
    Aggregation, AnyAggregation, BitsPerByte, Bypass, F1, Matthews, Mean, Median, NanMean, Perplexity,
    WeightedMean, WeightedPerplexity, erase_aggregation,
};
use crate::generation::{
    Bleu, ChrF, RougeKind, Ter, bleu, chrf, chrf_plus_plus, exact_match, rouge_metric,
    squad_exact_match_metric, squad_f1_metric, ter,
};
use crate::item::{Item, LabelPair, TextPair, Weighted};
use crate::loglikelihood::{
    acc, acc_bytes, acc_mutual_info, acc_norm, bits_per_byte, bpb, brier_score, byte_perplexity,
    choice_logprob, choice_logprob_norm, choice_prob_norm, exact_match_mc, f1, likelihood, logprob, mcc,
    perplexity, word_perplexity,
};
use crate::metric::{AnyMetric, Metric, bypass};
use crate::number::Number;
use crate::options::{OptionTable, SEVERAL_TARGETS};
use crate::output_type::OutputType::{self, GenerateUntil, Loglikelihood, MultipleChoice};
use crate::reduction::{
    AnyReduction, AverageAtK, MajorityAtK, MeanOfRepeats, PassAtK, PassPowerK, Reduction, TakeFirst,
    erase_reduction,
};

// Reference: generations are scored by pairs of target and answer, as in 0.4.
const CHOICE_OR_GENERATION: &[OutputType] = &[MultipleChoice, GenerateUntil];
// Predict-only runs use `bypass` for every output type; tasks name it for these.
const PREDICTED: &[OutputType] = &[Loglikelihood, MultipleChoice, GenerateUntil];

/// The built-in metrics.
pub static METRICS: LazyLock<Vec<Arc<dyn AnyMetric>>> = LazyLock::new(|| {
    vec![
        any(acc(), "The most likely option is the gold one"),
        any(acc_norm(), "Accuracy by log-likelihood per character"),
        any(acc_bytes(), "Accuracy by log-likelihood per byte"),
        any(acc_mutual_info(), "Accuracy by the log-likelihood gained from the context"),
        any(exact_match_mc(), "The gold option is the greedy continuation"),
        any(bpb(), "Bits per byte of the gold option"),
        any(logprob(), "Log-likelihood of the gold option"),
        any(choice_logprob(), "Log-probability of the gold option among all"),
        any(choice_prob_norm(), "Probability of the gold option, per byte"),
        any(choice_logprob_norm(), "Log-probability of the gold option, per byte"),
        any(brier_score(), "Squared error of the option probabilities"),
        any(bypass().listed_for(PREDICTED), "No score, for predict-only runs"),
        any(exact_match(), "The answer equals the target"),
        any(perplexity(), "Perplexity of the target"),
        any(word_perplexity(), "Perplexity per word of the text"),
        any(byte_perplexity(), "Perplexity per byte of the text"),
        any(bits_per_byte(), "Bits per byte of the text"),
        any(f1().listed_for(CHOICE_OR_GENERATION), "F1 score of the option with index 1"),
        any(mcc().listed_for(CHOICE_OR_GENERATION), "Matthews correlation coefficient"),
        any(likelihood(), "Gold index and all log-likelihoods, for an aggregation of the task"),
        any(bleu(), "Corpus BLEU"),
        any(chrf(), "Corpus chrF, characters only"),
        any(chrf_plus_plus(), "Corpus chrF with word order 2"),
        any(ter(), "Translation edit rate"),
        any(
            rouge_metric("rouge1", RougeKind::Ngrams(1)),
            "F-measure of the words that answer and target share",
        ),
        any(
            rouge_metric("rouge2", RougeKind::Ngrams(2)),
            "F-measure of the word pairs that answer and target share",
        ),
        any(
            rouge_metric("rougeL", RougeKind::Longest),
            "F-measure of the longest common subsequence of words",
        ),
        any(
            rouge_metric("rougeLsum", RougeKind::LongestOfLines),
            "F-measure of the longest common subsequences of all lines",
        ),
        any(squad_exact_match_metric(), "The normalised answer equals a target"),
        any(squad_f1_metric(), "F1 of the words of the normalised answer"),
    ]
});

/// A built-in aggregation.
#[derive(Clone)]
pub struct BuiltInAggregation {
    /// The name used in `aggregation:`.
    pub name: &'static str,
    /// A one-line description for listings.
    pub summary: &'static str,
    /// The implementation, type-erased.
    pub aggregation: Arc<dyn AnyAggregation>,
}

/// The built-in aggregations.
pub static AGGREGATIONS: LazyLock<Vec<BuiltInAggregation>> = LazyLock::new(|| {
    vec![
        of::<Number>("mean", Mean, "Arithmetic mean"),
        of::<Number>("median", Median, "Upper median"),
        of::<Number>("nanmean", NanMean, "Mean of the values that are not NaN"),
        of::<Weighted>("weighted_mean", WeightedMean, "Sum of totals / total weight"),
        of::<Number>("perplexity", Perplexity, "exp of the negated mean"),
        of::<Weighted>("weighted_perplexity", WeightedPerplexity, "exp(-sum / total length)"),
        of::<Weighted>("bits_per_byte", BitsPerByte, "Bits per unit of length"),
        of::<Value>("bypass", Bypass, "The constant 999, for predict-only runs"),
        of::<LabelPair>("f1", F1::default(), "F1 score of the label 1"),
        of::<LabelPair>("matthews_corrcoef", Matthews, "Matthews correlation coefficient"),
        of::<TextPair>("bleu", Bleu, "Corpus BLEU"),
        of::<TextPair>("chrf", ChrF::default(), "Corpus chrF, characters only"),
        of::<TextPair>("chrf++", ChrF::plus_plus(), "Corpus chrF with word order 2"),
        of::<TextPair>("ter", Ter, "Translation edit rate"),
        of::<Number>("brier_score", Mean, "Mean of the Brier scores"),
    ]
});

fn of<K: Item>(
    name: &'static str,
    aggregation: impl Aggregation<K> + 'static,
    summary: &'static str,
) -> BuiltInAggregation {
    BuiltInAggregation { name, summary, aggregation: erase_aggregation(Arc::new(aggregation)) }
}

/// A built-in reduction.
///
/// A name that ends in `k` after `@` or `^` also matches every name with a number instead.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInReduction {
    /// The name used in `reduction:`.
    pub name: &'static str,
    /// A one-line description for listings.
    pub summary: &'static str,
    /// Creates it for the numbers of repeats in the name, or for all that fit if there are none.
    pub make: MakeReduction,
}

type MakeReduction = fn(Vec<usize>) -> Arc<dyn AnyReduction>;

/// The built-in reductions.
pub const REDUCTIONS: &[BuiltInReduction] = &[
    by(
        "take_first",
        |_| erase_reduction::<Value, Value>(Arc::new(TakeFirst)),
        "The value of the first repeat",
    ),
    by("mean", |_| numbers(MeanOfRepeats), "The mean over all repeats"),
    by("pass@k", |k| numbers(PassAtK { k }), "Probability that at least one of k repeats is correct"),
    by("pass^k", |k| numbers(PassPowerK { k }), "Probability that all of k repeats are correct"),
    by("avg@k", |k| numbers(AverageAtK { k }), "The mean over the first k repeats"),
    by("maj@k", |k| numbers(MajorityAtK { k }), "The most frequent value of the first k repeats"),
];

const fn by(name: &'static str, make: MakeReduction, summary: &'static str) -> BuiltInReduction {
    BuiltInReduction { name, summary, make }
}

/// The built-in metric of a name; `matthews_corrcoef` is an alias of `mcc`.
pub fn metric(name: &str) -> Option<Arc<dyn AnyMetric>> {
    let name = if name == "matthews_corrcoef" { "mcc" } else { name };
    METRICS.iter().find(|metric| metric.name() == name).cloned()
}

/// The built-in aggregation of a name; `mcc` is an alias of `matthews_corrcoef`.
pub fn aggregation(name: &str) -> Option<Arc<dyn AnyAggregation>> {
    let name = if name == "mcc" { "matthews_corrcoef" } else { name };
    AGGREGATIONS.iter().find(|entry| entry.name == name).map(|entry| Arc::clone(&entry.aggregation))
}

/// The built-in reduction of a name: `take_first`, `mean`, or `pass@k`, `pass^k`, `avg@k`, `maj@k`. A number instead
/// of `k` selects that one alone. `pass_at_k` is an alias of `pass@k`.
pub fn reduction(name: &str) -> Option<Arc<dyn AnyReduction>> {
    REDUCTIONS.iter().find_map(|entry| Some((entry.make)(reduction_counts(entry.name, name)?)))
}

/// The numbers of repeats that `name` selects for the reduction `known`: empty for all that fit; `None` if the name
/// refers to another reduction.
///
/// ```
/// use lmeval_metrics::reduction_counts;
///
/// assert_eq!(reduction_counts("pass@k", "pass_at_5"), Some(vec![5]));
/// assert_eq!(reduction_counts("pass@k", "pass@k"), Some(vec![]));
/// assert_eq!(reduction_counts("pass@k", "avg@5"), None);
/// ```
pub fn reduction_counts(known: &str, name: &str) -> Option<Vec<usize>> {
    let name = name.replace("_at_", "@");
    if name == known {
        return Some(Vec::new());
    }
    let stem = known.strip_suffix('k').filter(|stem| stem.ends_with(['@', '^']))?;
    let count = name.strip_prefix(stem)?;
    if count.starts_with('0') || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    count.parse().ok().map(|count| vec![count])
}

// No built-in metric reads prompts; a test varies them.
fn any<T: Item>(metric: Metric<T>, summary: &'static str) -> Arc<dyn AnyMetric> {
    let mut metric = metric.without_prompt().with_summary(summary);
    if metric.options() == OptionTable::OPEN {
        metric = metric.with_options(OptionTable::lenient(SEVERAL_TARGETS));
    }
    Arc::new(metric)
}

fn numbers(reduction: impl Reduction<Number, Number> + 'static) -> Arc<dyn AnyReduction> {
    erase_reduction(Arc::new(reduction))
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::Dict;

    use super::*;
    use crate::ll_results::LLResults;
    use crate::metric::MetricInput;
    use crate::reduction::Reduced;

    #[test]
    fn all_names_are_registered() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert_eq!((names.len(), AGGREGATIONS.len(), REDUCTIONS.len()), (30, 15, 6));
        for entry in AGGREGATIONS.iter() {
            let own = entry.aggregation.name().unwrap();
            assert!(own == entry.name || entry.name == "brier_score", "{own}");
        }
        assert!(metric("exat_match").is_none() && aggregation("sum").is_none());
        assert!(metric("acc").unwrap().aggregation().is_mean());
        assert!(!metric("perplexity").unwrap().aggregation().is_mean());
        assert!(!metric("ter").unwrap().higher_is_better());
    }

    /// A run drops prompts that no metric needs, so the declaration must be true.
    #[test]
    fn built_in_metrics_ignore_the_prompt() {
        let reference = Value::Int(1);
        let pairs = [(-1.5, true), (-0.5, false), (-3.0, false)];
        let texts = ["a", " b c", "é"].map(str::to_owned).to_vec();
        let results = LLResults::from_answers(&pairs, &pairs, texts).unwrap().with_target(reference.clone());
        let prompted = results.clone().with_context("What is it?");
        let references = [Value::str("a b c d")];
        for metric in METRICS.iter() {
            let name = metric.name();
            assert!(!metric.needs_prompt(), "{name}");
            let bound = metric.bind(&Dict::new()).unwrap();
            let likelihood = |results| bound(MetricInput::Likelihood { reference: &reference, results }).ok();
            let generation =
                bound(MetricInput::Generation { references: &references, predictions: &references }).ok();
            assert_eq!(likelihood(&results), likelihood(&prompted), "{name}");
            assert!(likelihood(&results).is_some() || generation.is_some(), "{name}");
        }
        let own = Metric::new("own", &[MultipleChoice], Mean, |_| {
            Ok(Box::new(|input| Ok(vec![Number::Int(input.likelihood()?.1.ctx.len() as i64)])))
        });
        assert!(AnyMetric::needs_prompt(&own) && !AnyMetric::needs_prompt(&own.without_prompt()));
    }

    #[test]
    fn reductions_parse_k() {
        let values = [1, 0, 0, 1].map(Value::Int);
        let names = |name: &str| match reduction(name).unwrap().reduce(&Value::None, &values).unwrap() {
            Reduced::Named(named) => named.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "),
            Reduced::One(value) => lmeval_pycompat::repr::repr(&value),
        };
        assert_eq!(names("pass@k"), "pass@1 pass@3 pass@4");
        assert_eq!(names("pass_at_2"), "pass@2");
        assert_eq!(names("maj@3"), "maj@3");
        assert_eq!(names("avg@k"), "avg@1 avg@3 avg@4");
        assert_eq!(names("pass^2"), "pass^2");
        assert_eq!(names("mean"), "0.5");
        assert_eq!(names("take_first"), "1");
        for name in
            ["", "pass", "pass@", "pass@0", "pass@x", "pass@-1", "mean@2", "pass@99999999999999999999"]
        {
            assert!(reduction(name).is_none(), "{name}");
        }
    }
}
