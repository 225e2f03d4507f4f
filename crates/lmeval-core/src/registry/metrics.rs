//! Metrics: from one document's answers to a value.

use std::borrow::Cow;

use self::Direction::{Down, Up};
use self::MetricValue::{Number, NumberPerAnswer, Pair};
use super::Provider;
use super::options::{OptionEntry, OptionKind, OptionTable};
use super::table::Entry;
use crate::near::nearest;
use crate::output_type::OutputType::{
    self, GenerateUntil, Loglikelihood, LoglikelihoodRolling, MultipleChoice,
};

/// An aggregation or reduction that a metric has when the task names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricOwn {
    /// A registered one.
    Named(Cow<'static, str>),
    /// One that belongs to the metric alone.
    Own,
}

impl MetricOwn {
    /// The registered name.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Own => None,
        }
    }
}

/// What a metric gives for one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricValue {
    /// One number.
    Number,
    /// One number per answer.
    NumberPerAnswer,
    /// A pair that only an aggregation over all documents turns into a number.
    Pair,
}

/// Knowledge about one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricEntry {
    /// The name used in `metric:`.
    pub name: Cow<'static, str>,
    /// The output types it is made for.
    pub output_types: Cow<'static, [OutputType]>,
    /// Whether a higher score is a better one.
    pub higher_is_better: bool,
    /// Its aggregation.
    pub aggregation: MetricOwn,
    /// Its reduction.
    pub reduction: MetricOwn,
    /// What it gives for one document.
    pub value: MetricValue,
    /// Keyword arguments.
    pub options: OptionTable,
    /// Who computes it.
    pub provider: Provider,
    /// One line for listings.
    pub summary: Cow<'static, str>,
}

impl MetricEntry {
    /// Whether the score exists only for all documents together.
    pub fn needs_corpus(&self) -> bool {
        self.value == Pair
    }

    /// Whether the metric is made for an output type.
    pub fn fits(&self, output_type: OutputType) -> bool {
        self.output_types.contains(&output_type)
    }

    const fn number(
        name: &'static str,
        output_types: &'static [OutputType],
        direction: Direction,
        summary: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            output_types: Cow::Borrowed(output_types),
            higher_is_better: matches!(direction, Up),
            aggregation: MetricOwn::Named(Cow::Borrowed("mean")),
            reduction: MetricOwn::Named(Cow::Borrowed("take_first")),
            value: Number,
            options: OptionTable::lenient(SEVERAL_TARGETS),
            provider: Provider::BuiltIn,
            summary: Cow::Borrowed(summary),
        }
    }

    const fn per_answer(name: &'static str, options: &'static [OptionEntry], summary: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            output_types: Cow::Borrowed(GENERATION),
            higher_is_better: true,
            aggregation: MetricOwn::Named(Cow::Borrowed("mean")),
            reduction: MetricOwn::Named(Cow::Borrowed("take_first")),
            value: NumberPerAnswer,
            options: OptionTable::lenient(options),
            provider: Provider::BuiltIn,
            summary: Cow::Borrowed(summary),
        }
    }

    const fn corpus(
        name: &'static str,
        output_types: &'static [OutputType],
        direction: Direction,
        aggregation: &'static str,
        value: MetricValue,
        summary: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            output_types: Cow::Borrowed(output_types),
            higher_is_better: matches!(direction, Up),
            aggregation: MetricOwn::Named(Cow::Borrowed(aggregation)),
            reduction: MetricOwn::Own,
            value,
            options: OptionTable::lenient(SEVERAL_TARGETS),
            provider: Provider::BuiltIn,
            summary: Cow::Borrowed(summary),
        }
    }
}

impl Entry for MetricEntry {
    const KIND: &'static str = "metric";

    fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

// Every metric is offered this one, whether it looks at it or not.
const SEVERAL_TARGETS: &[OptionEntry] =
    &[OptionEntry::optional("multiple_targets", OptionKind::Truth, "False")];

const EXACT_MATCH: &[OptionEntry] = &[
    OptionEntry::optional("multiple_targets", OptionKind::Truth, "False"),
    OptionEntry::optional("regexes_to_ignore", OptionKind::Patterns, "None"),
    OptionEntry::optional("ignore_case", OptionKind::Truth, "False"),
    OptionEntry::optional("ignore_punctuation", OptionKind::Truth, "False"),
    OptionEntry::optional("ignore_numbers", OptionKind::Truth, "False"),
];

const ROUGE: &[OptionEntry] = &[
    OptionEntry::optional("multiple_targets", OptionKind::Truth, "False"),
    OptionEntry::optional("use_stemmer", OptionKind::Truth, "False"),
];

const CHOICE: &[OutputType] = &[MultipleChoice];
const LIKELIHOOD: &[OutputType] = &[Loglikelihood, MultipleChoice];
const ROLLING: &[OutputType] = &[LoglikelihoodRolling];
const GENERATION: &[OutputType] = &[GenerateUntil];
// Reference: a generation is scored by the pairs of target and answer, as 0.4 does.
const CHOICE_OR_GENERATION: &[OutputType] = &[MultipleChoice, GenerateUntil];

/// The built-in metrics.
pub static METRICS: &[MetricEntry] = &[
    MetricEntry::number("acc", LIKELIHOOD, Up, "The most likely option is the gold one"),
    MetricEntry::number("acc_norm", CHOICE, Up, "Accuracy by log-likelihood per character"),
    MetricEntry::number("acc_bytes", CHOICE, Up, "Accuracy by log-likelihood per byte"),
    MetricEntry::number("acc_mutual_info", CHOICE, Up, "Accuracy by what the context adds to the option"),
    MetricEntry {
        name: Cow::Borrowed("acc_all"),
        output_types: Cow::Borrowed(&[Loglikelihood]),
        higher_is_better: true,
        aggregation: MetricOwn::Named(Cow::Borrowed("mean")),
        reduction: MetricOwn::Named(Cow::Borrowed("take_first")),
        value: Number,
        options: OptionTable::lenient(SEVERAL_TARGETS),
        provider: Provider::TaskCode,
        summary: Cow::Borrowed("All answers to one question are right, as `process_results` says"),
    },
    MetricEntry::number("exact_match_mc", CHOICE, Up, "The gold option is the greedy continuation"),
    MetricEntry::number("bpb", LIKELIHOOD, Down, "Bits per byte of the gold option"),
    MetricEntry::number("logprob", LIKELIHOOD, Up, "Log-likelihood of the gold option"),
    MetricEntry::number("choice_logprob", CHOICE, Up, "Log-probability of the gold option among all"),
    MetricEntry::number("choice_prob_norm", CHOICE, Up, "Probability of the gold option, per byte"),
    MetricEntry::number("choice_logprob_norm", CHOICE, Up, "Log-probability of the gold option, per byte"),
    MetricEntry::number("brier_score", CHOICE, Down, "Squared distance of the probabilities from the gold"),
    MetricEntry {
        name: Cow::Borrowed("bypass"),
        output_types: Cow::Borrowed(&[Loglikelihood, MultipleChoice, GenerateUntil]),
        higher_is_better: true,
        aggregation: MetricOwn::Named(Cow::Borrowed("bypass")),
        reduction: MetricOwn::Named(Cow::Borrowed("take_first")),
        value: Number,
        options: OptionTable::lenient(SEVERAL_TARGETS),
        provider: Provider::BuiltIn,
        summary: Cow::Borrowed("No score, for runs that only predict"),
    },
    MetricEntry {
        name: Cow::Borrowed("exact_match"),
        output_types: Cow::Borrowed(GENERATION),
        higher_is_better: true,
        aggregation: MetricOwn::Named(Cow::Borrowed("mean")),
        reduction: MetricOwn::Named(Cow::Borrowed("pass@k")),
        value: NumberPerAnswer,
        options: OptionTable::strict(EXACT_MATCH),
        provider: Provider::BuiltIn,
        summary: Cow::Borrowed("The answer equals the target"),
    },
    MetricEntry::corpus(
        "perplexity",
        &[Loglikelihood],
        Down,
        "perplexity",
        Number,
        "Perplexity of the target",
    ),
    MetricEntry::corpus(
        "word_perplexity",
        ROLLING,
        Down,
        "weighted_perplexity",
        Pair,
        "Perplexity per word of the text",
    ),
    MetricEntry::corpus(
        "byte_perplexity",
        ROLLING,
        Down,
        "weighted_perplexity",
        Pair,
        "Perplexity per byte of the text",
    ),
    MetricEntry::corpus("bits_per_byte", ROLLING, Down, "bits_per_byte", Pair, "Bits per byte of the text"),
    MetricEntry::corpus("f1", CHOICE_OR_GENERATION, Up, "f1", Pair, "F1 score of the option with index 1"),
    MetricEntry::corpus(
        "mcc",
        CHOICE_OR_GENERATION,
        Up,
        "matthews_corrcoef",
        Pair,
        "Matthews correlation coefficient",
    ),
    MetricEntry {
        name: Cow::Borrowed("likelihood"),
        output_types: Cow::Borrowed(CHOICE),
        higher_is_better: true,
        aggregation: MetricOwn::Own,
        reduction: MetricOwn::Own,
        value: Pair,
        options: OptionTable::lenient(SEVERAL_TARGETS),
        provider: Provider::BuiltIn,
        summary: Cow::Borrowed("Gold index and all log-likelihoods, for an aggregation of the task"),
    },
    MetricEntry::corpus("bleu", GENERATION, Up, "bleu", Pair, "Corpus BLEU"),
    MetricEntry::corpus("chrf", GENERATION, Up, "chrf", Pair, "Corpus chrF, characters only"),
    MetricEntry::corpus("chrf++", GENERATION, Up, "chrf++", Pair, "Corpus chrF with word order 2"),
    MetricEntry::corpus("ter", GENERATION, Down, "ter", Pair, "Translation edit rate"),
    MetricEntry::per_answer("rouge1", ROUGE, "F-measure of the words that answer and target share"),
    MetricEntry::per_answer("rouge2", ROUGE, "F-measure of the word pairs that answer and target share"),
    MetricEntry::per_answer("rougeL", ROUGE, "F-measure of the longest common subsequence of words"),
    MetricEntry::per_answer("rougeLsum", ROUGE, "F-measure of the longest common subsequences of all lines"),
    MetricEntry::per_answer("squad_exact_match", SEVERAL_TARGETS, "The normalised answer equals a target"),
    MetricEntry::per_answer("squad_f1", SEVERAL_TARGETS, "F1 of the words of the normalised answer"),
];

/// The metrics of a task that names none.
pub fn default_metrics(output_type: OutputType) -> &'static [&'static str] {
    match output_type {
        GenerateUntil => &["exact_match"],
        Loglikelihood => &["perplexity", "acc"],
        LoglikelihoodRolling => &["word_perplexity", "byte_perplexity", "bits_per_byte"],
        MultipleChoice => &["acc", "acc_norm"],
    }
}

// The package's metric of this name is the built-in one, down to its options.
const SAME_AS_EVALUATE: &[&str] = &["exact_match"];

// Names of Python's `evaluate` package that tasks of the 0.4 line give without computing them themselves.
const EVALUATE_METRICS: &[&str] = &[
    "accuracy",
    "bertscore",
    "bleu",
    "bleurt",
    "brier_score",
    "cer",
    "character",
    "charcut_mt",
    "chrf",
    "code_eval",
    "comet",
    "competition_math",
    "coval",
    "cuad",
    "exact_match",
    "f1",
    "frugalscore",
    "glue",
    "google_bleu",
    "indic_glue",
    "mae",
    "mahalanobis",
    "mape",
    "mase",
    "matthews_correlation",
    "mauve",
    "mean_iou",
    "meteor",
    "mse",
    "nist_mt",
    "pearsonr",
    "perplexity",
    "poseval",
    "precision",
    "r_squared",
    "recall",
    "rl_reliability",
    "roc_auc",
    "rouge",
    "sacrebleu",
    "sari",
    "seqeval",
    "smape",
    "spearmanr",
    "squad",
    "squad_v2",
    "super_glue",
    "ter",
    "trec_eval",
    "wer",
    "wiki_split",
    "xnli",
    "xtreme_s",
];

/// Whether Python's `evaluate` package is known to have a metric of this name; a name with a slash is one that a
/// user published there.
pub fn is_evaluate_metric(name: &str) -> bool {
    EVALUATE_METRICS.contains(&name)
        || name.split_once('/').is_some_and(|(user, metric)| !user.is_empty() && !metric.is_empty())
}

/// Whether Python's `evaluate` package computes a metric of a task, and not this program.
///
/// `asked_for` says that the task has `hf_evaluate: true` for the metric. Log-likelihoods never go there: what is
/// computed of them depends on the name alone.
///
/// ```
/// use lmeval_core::OutputType::{GenerateUntil, MultipleChoice};
/// use lmeval_core::registry::needs_evaluate;
///
/// assert!(needs_evaluate("wer", GenerateUntil, false));
/// assert!(needs_evaluate("f1", GenerateUntil, true));
/// assert!(!needs_evaluate("f1", MultipleChoice, true));
/// assert!(!needs_evaluate("exact_match", GenerateUntil, true));
/// ```
pub fn needs_evaluate(name: &str, output_type: OutputType, asked_for: bool) -> bool {
    let is_built_in = METRICS.iter().any(|entry| entry.name == name && entry.provider == Provider::BuiltIn);
    output_type == GenerateUntil
        && !SAME_AS_EVALUATE.contains(&name)
        && match (is_built_in, asked_for) {
            (true, true) => is_evaluate_metric(name),
            (true, false) => false,
            (false, true) => true,
            (false, false) => is_evaluate_metric(name),
        }
}

/// What can stand for a metric of Python's `evaluate` package: names of built-in metrics.
pub fn instead_of_evaluate(name: &str) -> &'static [&'static str] {
    match name {
        "accuracy" => &["exact_match"],
        "matthews_correlation" => &["mcc"],
        "rouge" => &["rouge1", "rouge2", "rougeL", "rougeLsum"],
        "sacrebleu" | "bleu" | "google_bleu" => &["bleu"],
        "chrf" => &["chrf", "chrf++"],
        "squad" | "squad_v2" => &["squad_exact_match", "squad_f1"],
        "ter" => &["ter"],
        _ => &[],
    }
}

/// Names of other libraries for what is built in.
const USUAL_NAMES: [(&[&str], &[&str]); 6] = [
    (&["accuracy", "accuracy_score", "acc_score"], &["acc", "exact_match"]),
    (&["em", "exact", "match"], &["exact_match"]),
    (&["f1_score", "macro_f1"], &["f1"]),
    (&["matthews_corrcoef", "matthews_correlation"], &["mcc"]),
    (&["ppl"], &["perplexity", "word_perplexity"]),
    (&["brier"], &["brier_score"]),
];

/// The built-in metrics that a name that is not one of them may mean, for a task of an output type; best first.
///
/// ```
/// use lmeval_core::OutputType::{GenerateUntil, MultipleChoice};
/// use lmeval_core::registry::metrics_like;
///
/// assert_eq!(metrics_like("accuracy", MultipleChoice), ["acc"]);
/// assert_eq!(metrics_like("accuracy", GenerateUntil), ["exact_match"]);
/// assert_eq!(metrics_like("exat_match", GenerateUntil), ["exact_match"]);
/// ```
pub fn metrics_like(name: &str, output_type: OutputType) -> Vec<&'static str> {
    let lower = name.to_lowercase();
    let usual = USUAL_NAMES.iter().find(|(others, _)| others.contains(&lower.as_str()));
    let fits = |name: &&str| METRICS.iter().any(|entry| entry.name == *name && entry.fits(output_type));
    let mut near: Vec<&str> = usual.into_iter().flat_map(|(_, names)| *names).copied().filter(fits).collect();
    let (fitting, others): (Vec<&str>, Vec<&str>) =
        nearest(name, METRICS.iter().map(|entry| &*entry.name)).into_iter().partition(fits);
    for other in fitting {
        if !near.contains(&other) {
            near.push(other);
        }
    }
    if near.is_empty() { others } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registries;

    #[test]
    fn defaults_are_registered_and_fit() {
        let registries = Registries::default();
        for output_type in OutputType::ALL {
            for name in default_metrics(output_type) {
                assert!(registries.metrics.get(name).unwrap().fits(output_type), "{name} {output_type}");
            }
        }
        for metric in METRICS {
            if let Some(name) = metric.aggregation.name() {
                assert!(registries.aggregations.get(name).is_some(), "{name}");
            }
            if let Some(name) = metric.reduction.name() {
                assert!(registries.reductions.get(name).is_some(), "{name}");
            }
        }
        for scorer in super::super::SCORERS {
            for filter in scorer.default_filters.iter() {
                assert!(registries.filters.get(filter).is_some(), "{filter}");
            }
            for metric in scorer.default_metrics.iter() {
                let entry = registries.metrics.get(&metric.metric).unwrap();
                assert!(metric.switches.iter().all(|option| entry.options.get(option).is_some()));
            }
        }
    }

    #[test]
    fn the_table_says_what_the_names_mean() {
        let registries = Registries::default();
        let get = |name: &str| registries.metrics.get(name).unwrap();
        assert_eq!(get("exact_match").reduction.name(), Some("pass@k"));
        assert!(!get("ter").higher_is_better);
        assert!(get("bleu").needs_corpus());
        assert!(!get("perplexity").needs_corpus());
        assert!(get("acc").fits(Loglikelihood));
        assert!(!get("acc_norm").fits(Loglikelihood));
        assert!(!get("bypass").fits(LoglikelihoodRolling));
        assert!(get("f1").fits(GenerateUntil) && get("mcc").fits(GenerateUntil));
        assert_eq!(METRICS.len(), 31);
        assert!(is_evaluate_metric("wer") && is_evaluate_metric("me/my_metric"));
        assert!(!is_evaluate_metric("exat_match") && !is_evaluate_metric("/"));
    }
}
