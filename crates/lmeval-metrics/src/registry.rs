//! What the names of metrics, aggregations and reductions stand for.

use std::sync::Arc;

use crate::aggregation::{
    AnyAggregation, BitsPerByte, Bypass, F1, Matthews, Mean, Median, NanMean, Perplexity, WeightedMean,
    WeightedPerplexity, erase_aggregation,
};
use crate::generation::{
    Bleu, ChrF, RougeKind, Ter, TextCorpusMetric, exact_match, rouge_metric, squad_exact_match_metric,
    squad_f1_metric,
};
use crate::item::{Item, LabelPair, TextPair, Weighted};
use crate::loglikelihood::{
    BitsPerByteOfText, BytePerplexity, F1OfChoices, Likelihood, MatthewsOfChoices, PerplexityOfTarget,
    WordPerplexity, acc, acc_bytes, acc_mutual_info, acc_norm, bpb, brier_score, choice_logprob,
    choice_logprob_norm, choice_prob_norm, exact_match_mc, logprob,
};
use crate::metric::{AnyMetric, CorpusMetric, Metric, bypass};
use crate::number::Number;
use crate::reduction::{
    AnyReduction, AverageAtK, MajorityAtK, MeanOfRepeats, PassAtK, PassPowerK, Reduction, TakeFirst,
    erase_reduction,
};
use lmeval_pycompat::Value;

/// The names of all metrics.
pub const METRIC_NAMES: &[&str] = &[
    "acc",
    "acc_norm",
    "acc_bytes",
    "acc_mutual_info",
    "exact_match_mc",
    "bpb",
    "logprob",
    "choice_logprob",
    "choice_prob_norm",
    "choice_logprob_norm",
    "brier_score",
    "bypass",
    "exact_match",
    "perplexity",
    "word_perplexity",
    "byte_perplexity",
    "bits_per_byte",
    "f1",
    "mcc",
    "likelihood",
    "bleu",
    "chrf",
    "chrf++",
    "ter",
    "rouge1",
    "rouge2",
    "rougeL",
    "rougeLsum",
    "squad_exact_match",
    "squad_f1",
];

/// The names of all aggregations; `mcc` is understood for `matthews_corrcoef`, too.
pub const AGGREGATION_NAMES: &[&str] = &[
    "mean",
    "median",
    "nanmean",
    "weighted_mean",
    "perplexity",
    "weighted_perplexity",
    "bits_per_byte",
    "bypass",
    "f1",
    "matthews_corrcoef",
    "bleu",
    "chrf",
    "chrf++",
    "ter",
    "brier_score",
];

/// The metric of a name.
pub fn metric(name: &str) -> Option<Arc<dyn AnyMetric>> {
    Some(match name {
        "acc" => any(acc()),
        "acc_norm" => any(acc_norm()),
        "acc_bytes" => any(acc_bytes()),
        "acc_mutual_info" => any(acc_mutual_info()),
        "exact_match_mc" => any(exact_match_mc()),
        "bpb" => any(bpb()),
        "logprob" => any(logprob()),
        "choice_logprob" => any(choice_logprob()),
        "choice_prob_norm" => any(choice_prob_norm()),
        "choice_logprob_norm" => any(choice_logprob_norm()),
        "brier_score" => any(brier_score()),
        "bypass" => any(bypass()),
        "exact_match" => any(exact_match()),
        "perplexity" => corpus(PerplexityOfTarget),
        "word_perplexity" => corpus(WordPerplexity),
        "byte_perplexity" => corpus(BytePerplexity),
        "bits_per_byte" => corpus(BitsPerByteOfText),
        "f1" => corpus(F1OfChoices),
        "mcc" | "matthews_corrcoef" => corpus(MatthewsOfChoices),
        "likelihood" => corpus(Likelihood),
        "bleu" => corpus(TextCorpusMetric::BLEU),
        "chrf" => corpus(TextCorpusMetric::CHRF),
        "chrf++" => corpus(TextCorpusMetric::CHRF_PLUS_PLUS),
        "ter" => corpus(TextCorpusMetric::TER),
        "rouge1" => any(rouge_metric("rouge1", RougeKind::Ngrams(1))),
        "rouge2" => any(rouge_metric("rouge2", RougeKind::Ngrams(2))),
        "rougeL" => any(rouge_metric("rougeL", RougeKind::Longest)),
        "rougeLsum" => any(rouge_metric("rougeLsum", RougeKind::LongestOfLines)),
        "squad_exact_match" => any(squad_exact_match_metric()),
        "squad_f1" => any(squad_f1_metric()),
        _ => return None,
    })
}

/// The aggregation of a name.
pub fn aggregation(name: &str) -> Option<Arc<dyn AnyAggregation>> {
    Some(match name {
        "mean" | "brier_score" => erase_aggregation::<Number>(Arc::new(Mean)),
        "median" => erase_aggregation::<Number>(Arc::new(Median)),
        "nanmean" => erase_aggregation::<Number>(Arc::new(NanMean)),
        "weighted_mean" => erase_aggregation::<Weighted>(Arc::new(WeightedMean)),
        "perplexity" => erase_aggregation::<Number>(Arc::new(Perplexity)),
        "weighted_perplexity" => erase_aggregation::<Weighted>(Arc::new(WeightedPerplexity)),
        "bits_per_byte" => erase_aggregation::<Weighted>(Arc::new(BitsPerByte)),
        "bypass" => erase_aggregation::<Value>(Arc::new(Bypass)),
        "f1" => erase_aggregation::<LabelPair>(Arc::new(F1::default())),
        "mcc" | "matthews_corrcoef" => erase_aggregation::<LabelPair>(Arc::new(Matthews)),
        "bleu" => erase_aggregation::<TextPair>(Arc::new(Bleu)),
        "chrf" => erase_aggregation::<TextPair>(Arc::new(ChrF::default())),
        "chrf++" => erase_aggregation::<TextPair>(Arc::new(ChrF::plus_plus())),
        "ter" => erase_aggregation::<TextPair>(Arc::new(Ter)),
        _ => return None,
    })
}

/// The reduction of a name: `take_first`, `mean`, or `pass@k`, `pass^k`, `avg@k`, `maj@k`, where a number in the place
/// of `k` asks for that one alone. `pass_at_k` is `pass@k`.
pub fn reduction(name: &str) -> Option<Arc<dyn AnyReduction>> {
    let name = name.replace("_at_", "@");
    match name.as_str() {
        "take_first" => return Some(erase_reduction::<Value, Value>(Arc::new(TakeFirst))),
        "mean" => return Some(numbers(MeanOfRepeats)),
        _ => {}
    }
    let position = name.find(['@', '^'])? + 1;
    let (kind, count) = name.split_at(position);
    let k = match count {
        "k" => Vec::new(),
        _ if count.starts_with('0') || !count.bytes().all(|byte| byte.is_ascii_digit()) => return None,
        _ => vec![count.parse().ok()?],
    };
    Some(match kind {
        "pass@" => numbers(PassAtK { k }),
        "pass^" => numbers(PassPowerK { k }),
        "avg@" => numbers(AverageAtK { k }),
        "maj@" => numbers(MajorityAtK { k }),
        _ => return None,
    })
}

// No built-in metric reads prompts; a test gives each of them other ones.
fn any<T: Item>(metric: Metric<T>) -> Arc<dyn AnyMetric> {
    Arc::new(metric.without_prompt())
}

fn corpus(metric: impl CorpusMetric) -> Arc<dyn AnyMetric> {
    any(Metric::from_corpus(metric))
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
    fn every_name_is_there() {
        for name in METRIC_NAMES {
            assert_eq!(metric(name).unwrap().name(), *name);
        }
        for name in AGGREGATION_NAMES {
            assert!(aggregation(name).is_some(), "{name}");
        }
        assert!(metric("exat_match").is_none() && aggregation("sum").is_none());
        assert!(metric("acc").unwrap().aggregation().is_mean());
        assert!(!metric("perplexity").unwrap().aggregation().is_mean());
        assert!(!metric("ter").unwrap().higher_is_better());
    }

    /// A run lets go of prompts that no metric needs, so what is declared must be true.
    #[test]
    fn no_built_in_metric_reads_the_prompt() {
        let reference = Value::Int(1);
        let pairs = [(-1.5, true), (-0.5, false), (-3.0, false)];
        let texts = ["a", " b c", "é"].map(str::to_owned).to_vec();
        let results = LLResults::from_answers(&pairs, &pairs, texts).unwrap().with_target(reference.clone());
        let prompted = results.clone().with_context("What is it?");
        let references = [Value::str("a b c d")];
        for name in METRIC_NAMES {
            let metric = metric(name).unwrap();
            assert!(!metric.needs_prompt(), "{name}");
            let bound = metric.bind(&Dict::new()).unwrap();
            let likelihood = |results| bound(MetricInput::Likelihood { reference: &reference, results }).ok();
            let generation =
                bound(MetricInput::Generation { references: &references, predictions: &references }).ok();
            assert_eq!(likelihood(&results), likelihood(&prompted), "{name}");
            assert!(likelihood(&results).is_some() || generation.is_some(), "{name}");
        }
        let own = Metric::new("own", &["multiple_choice"], Mean, |_| {
            Ok(Box::new(|input| Ok(vec![Number::Int(input.likelihood()?.1.ctx.len() as i64)])))
        });
        assert!(AnyMetric::needs_prompt(&own) && !AnyMetric::needs_prompt(&own.without_prompt()));
    }

    #[test]
    fn reductions_take_their_k_from_the_name() {
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
