//! Metrics of Python's `evaluate` package, and names of other libraries for what is built in.

use lmeval_metrics::nearest;

use super::Registry;
use crate::OutputType::{self, GenerateUntil};

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

impl Registry {
    /// Whether Python's `evaluate` package computes a metric of a task, and not this program.
    ///
    /// `asked_for` says that the task has `hf_evaluate: true` for the metric. Log-likelihoods never go there: what is
    /// computed of them depends on the name alone.
    ///
    /// ```
    /// use lmeval_core::OutputType::{GenerateUntil, MultipleChoice};
    /// use lmeval_core::registry::Registry;
    ///
    /// let registry = Registry::default();
    /// assert!(registry.needs_evaluate("wer", GenerateUntil, false));
    /// assert!(registry.needs_evaluate("f1", GenerateUntil, true));
    /// assert!(!registry.needs_evaluate("f1", MultipleChoice, true));
    /// assert!(!registry.needs_evaluate("exact_match", GenerateUntil, true));
    /// ```
    pub fn needs_evaluate(&self, name: &str, output_type: OutputType, asked_for: bool) -> bool {
        output_type == GenerateUntil
            && !SAME_AS_EVALUATE.contains(&name)
            && match (self.metric(name).is_some(), asked_for) {
                (true, true) => is_evaluate_metric(name),
                (true, false) => false,
                (false, true) => true,
                (false, false) => is_evaluate_metric(name),
            }
    }

    /// The metrics that a name that is not one of them may mean, for a task of an output type; best first.
    ///
    /// ```
    /// use lmeval_core::OutputType::{GenerateUntil, MultipleChoice};
    /// use lmeval_core::registry::Registry;
    ///
    /// let registry = Registry::default();
    /// assert_eq!(registry.metrics_like("accuracy", MultipleChoice), ["acc"]);
    /// assert_eq!(registry.metrics_like("accuracy", GenerateUntil), ["exact_match"]);
    /// assert_eq!(registry.metrics_like("exat_match", GenerateUntil), ["exact_match"]);
    /// ```
    pub fn metrics_like(&self, name: &str, output_type: OutputType) -> Vec<&str> {
        let lower = name.to_lowercase();
        let usual = USUAL_NAMES.iter().find(|(others, _)| others.contains(&lower.as_str()));
        let fits = |name: &&str| self.metrics.get(name).is_some_and(|entry| entry.fits(output_type));
        let mut near: Vec<&str> =
            usual.into_iter().flat_map(|(_, names)| *names).copied().filter(fits).collect();
        let (fitting, others): (Vec<&str>, Vec<&str>) =
            nearest(name, self.metrics.names()).into_iter().partition(fits);
        for other in fitting {
            if !near.contains(&other) {
                near.push(other);
            }
        }
        if near.is_empty() { others } else { near }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_package_are_known() {
        assert!(is_evaluate_metric("wer") && is_evaluate_metric("me/my_metric"));
        assert!(!is_evaluate_metric("exat_match") && !is_evaluate_metric("/"));
    }
}
