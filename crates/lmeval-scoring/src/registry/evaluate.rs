//! Metrics of Python's `evaluate` package, and built-in equivalents of names from other libraries.

use lmeval_metrics::nearest;

use super::Registry;
use lmeval_core::OutputType::{self, GenerateUntil};

// The built-in metric of this name behaves identically, including its options.
const SAME_AS_EVALUATE: &[&str] = &["exact_match"];

// Metrics of Python's `evaluate` package that 0.4 tasks name without computing them.
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

/// Whether Python's `evaluate` package has a metric of this name. A name with a slash is a metric published by a
/// user.
pub fn is_evaluate_metric(name: &str) -> bool {
    EVALUATE_METRICS.contains(&name)
        || name.split_once('/').is_some_and(|(user, metric)| !user.is_empty() && !metric.is_empty())
}

/// The built-in metrics that can replace a metric of Python's `evaluate` package.
pub fn replacements_for_evaluate(name: &str) -> &'static [&'static str] {
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

/// Names used by other libraries, with their built-in equivalents.
const USUAL_NAMES: [(&[&str], &[&str]); 6] = [
    (&["accuracy", "accuracy_score", "acc_score"], &["acc", "exact_match"]),
    (&["em", "exact", "match"], &["exact_match"]),
    (&["f1_score", "macro_f1"], &["f1"]),
    (&["matthews_corrcoef", "matthews_correlation"], &["mcc"]),
    (&["ppl"], &["perplexity", "word_perplexity"]),
    (&["brier"], &["brier_score"]),
];

impl Registry {
    /// Whether a task's metric is computed by Python's `evaluate` package.
    ///
    /// `requested` is true if the task sets `hf_evaluate: true` for the metric. Log-likelihood metrics never use the
    /// package: their computation depends only on the name.
    ///
    /// ```
    /// use lmeval_core::OutputType::{GenerateUntil, MultipleChoice};
    /// use lmeval_scoring::registry::Registry;
    ///
    /// let registry = Registry::default();
    /// assert!(registry.needs_evaluate("wer", GenerateUntil, false));
    /// assert!(registry.needs_evaluate("f1", GenerateUntil, true));
    /// assert!(!registry.needs_evaluate("f1", MultipleChoice, true));
    /// assert!(!registry.needs_evaluate("exact_match", GenerateUntil, true));
    /// ```
    pub fn needs_evaluate(&self, name: &str, output_type: OutputType, requested: bool) -> bool {
        output_type == GenerateUntil
            && !SAME_AS_EVALUATE.contains(&name)
            && match (self.metric(name).is_some(), requested) {
                (true, true) => is_evaluate_metric(name),
                (true, false) => false,
                (false, true) => true,
                (false, false) => is_evaluate_metric(name),
            }
    }

    /// The metrics for an output type that an unknown name may refer to, best first.
    ///
    /// ```
    /// use lmeval_core::OutputType::{GenerateUntil, MultipleChoice};
    /// use lmeval_scoring::registry::Registry;
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
    fn recognises_evaluate_metrics() {
        assert!(is_evaluate_metric("wer") && is_evaluate_metric("me/my_metric"));
        assert!(!is_evaluate_metric("exat_match") && !is_evaluate_metric("/"));
    }
}
