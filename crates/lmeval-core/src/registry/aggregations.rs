//! Aggregations: from the values of all documents to one number.

use std::borrow::Cow;

use super::table::Entry;

/// What an aggregation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AggregationInput {
    /// One number per document.
    Numbers,
    /// A pair of sum and length per document.
    WeightedPairs,
    /// A pair of gold answer and prediction per document.
    GoldAndPrediction,
    /// A pair of references and predicted text per document.
    ReferencesAndText,
    /// Whatever there is.
    Any,
}

/// Knowledge about one aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregationEntry {
    /// The name used in `aggregation:`.
    pub name: Cow<'static, str>,
    /// What it works on.
    pub input: AggregationInput,
    /// One line for listings.
    pub summary: Cow<'static, str>,
}

impl AggregationEntry {
    /// An entry.
    pub const fn new(name: &'static str, input: AggregationInput, summary: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), input, summary: Cow::Borrowed(summary) }
    }
}

impl Entry for AggregationEntry {
    const KIND: &'static str = "aggregation";

    fn name(&self) -> &str {
        &self.name
    }
}

/// The built-in aggregations.
pub static AGGREGATIONS: &[AggregationEntry] = &[
    AggregationEntry::new("mean", AggregationInput::Numbers, "Arithmetic mean"),
    AggregationEntry::new("median", AggregationInput::Numbers, "Upper median"),
    AggregationEntry::new("nanmean", AggregationInput::Numbers, "Mean of the values that are numbers"),
    AggregationEntry::new("weighted_mean", AggregationInput::WeightedPairs, "Sum of totals / total weight"),
    AggregationEntry::new("perplexity", AggregationInput::Numbers, "exp of the negated mean"),
    AggregationEntry::new("weighted_perplexity", AggregationInput::WeightedPairs, "exp(-sum / total length)"),
    AggregationEntry::new("bits_per_byte", AggregationInput::WeightedPairs, "Bits per unit of length"),
    AggregationEntry::new("bypass", AggregationInput::Any, "The constant 999, for runs that only predict"),
    AggregationEntry::new("f1", AggregationInput::GoldAndPrediction, "F1 score of the label 1"),
    AggregationEntry::new(
        "matthews_corrcoef",
        AggregationInput::GoldAndPrediction,
        "Matthews correlation coefficient",
    ),
    AggregationEntry::new("bleu", AggregationInput::ReferencesAndText, "Corpus BLEU"),
    AggregationEntry::new("chrf", AggregationInput::ReferencesAndText, "Corpus chrF, characters only"),
    AggregationEntry::new("chrf++", AggregationInput::ReferencesAndText, "Corpus chrF with word order 2"),
    AggregationEntry::new("ter", AggregationInput::ReferencesAndText, "Translation edit rate"),
    AggregationEntry::new("brier_score", AggregationInput::Numbers, "Mean of the Brier scores"),
];
