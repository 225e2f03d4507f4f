//! Counts of gold and predicted labels.

use std::collections::{BTreeMap, BTreeSet};

use lmeval_pycompat::Value;

use crate::error::MetricError;
use crate::item::LabelPair;

/// A class label. Labels of one type are sorted; types do not mix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Int(i64),
    Text(String),
}

impl Label {
    fn from_value(value: &Value) -> Result<Self, MetricError> {
        match value {
            Value::Str(text) => Ok(Self::Text(text.to_string())),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Ok(Self::Int(*number as i64))
            }
            _ => value.as_i64().map(Self::Int).ok_or_else(|| MetricError::wrong_value("a label", value)),
        }
    }
}

/// Documents grouped by their pair of labels, so that a resample is a count per pair.
pub(super) struct LabelCounts {
    labels: Vec<Label>,
    /// Distinct pairs of indices into `labels`, gold first.
    pairs: Vec<(usize, usize)>,
    /// The index of each document's pair.
    documents: Vec<u32>,
    /// For at most four pairs: a one in the 16-bit lane of each document's pair. Summing these in a register takes
    /// half the time of counting in memory (0.3 instead of 0.6 ns per draw).
    packed: Vec<u64>,
}

/// The number of 16-bit counts that fit into a word.
const PACKED: usize = 4;

impl LabelCounts {
    pub(super) fn new(items: &[LabelPair]) -> Result<Self, MetricError> {
        if items.is_empty() {
            return Err(MetricError::NoValues);
        }
        let documents: Vec<(Label, Label)> = items
            .iter()
            .map(|item| Ok((Label::from_value(&item.gold)?, Label::from_value(&item.prediction)?)))
            .collect::<Result<_, MetricError>>()?;
        let distinct: BTreeSet<&Label> = documents.iter().flat_map(|(gold, other)| [gold, other]).collect();
        let kinds: BTreeSet<bool> = distinct.iter().map(|label| matches!(label, Label::Text(_))).collect();
        if kinds.len() > 1 {
            let strange =
                items.iter().find(|item| item.gold.as_str().is_some() || item.prediction.as_str().is_some());
            let strange = strange.map_or(&Value::None, |item| &item.prediction);
            return Err(MetricError::wrong_value("labels of one type", strange));
        }
        let labels: Vec<Label> = distinct.into_iter().cloned().collect();
        let index_of = |label: &Label| labels.binary_search(label).unwrap_or_default();
        let mut numbers = BTreeMap::new();
        let mut pairs = Vec::new();
        let documents: Vec<u32> = documents
            .iter()
            .map(|(gold, prediction)| {
                let pair = (index_of(gold), index_of(prediction));
                *numbers.entry(pair).or_insert_with(|| {
                    pairs.push(pair);
                    pairs.len() as u32 - 1
                })
            })
            .collect();
        let packed = if pairs.len() <= PACKED {
            documents.iter().map(|pair| 1 << (16 * pair)).collect()
        } else {
            Vec::new()
        };
        Ok(Self { labels, pairs, documents, packed })
    }

    /// The labels that occur in a resample, with their counts.
    pub(super) fn count(&self, draws: &[u32]) -> Vec<LabelCount<'_>> {
        if self.packed.is_empty() || draws.len() > usize::from(u16::MAX) {
            let mut drawn = vec![0; self.pairs.len()];
            for draw in draws {
                drawn[self.documents[*draw as usize] as usize] += 1;
            }
            return self.label_counts(&drawn);
        }
        let total = draws.iter().fold(0, |total, draw| total + self.packed[*draw as usize]);
        let drawn: [u64; PACKED] = std::array::from_fn(|pair| (total >> (16 * pair)) & 0xffff);
        self.label_counts(&drawn)
    }

    /// Counts per label from counts per pair.
    fn label_counts(&self, drawn: &[u64]) -> Vec<LabelCount<'_>> {
        let mut counts: Vec<LabelCount<'_>> = self.labels.iter().map(LabelCount::new).collect();
        for ((gold, prediction), count) in self.pairs.iter().zip(drawn) {
            counts[*gold].gold += count;
            counts[*prediction].predicted += count;
            if gold == prediction {
                counts[*gold].right += count;
            }
        }
        counts.retain(|count| count.gold + count.predicted > 0);
        counts
    }
}

/// How often a label is gold, predicted, and both.
pub(super) struct LabelCount<'a> {
    pub(super) label: &'a Label,
    pub(super) gold: u64,
    pub(super) predicted: u64,
    pub(super) right: u64,
}

impl<'a> LabelCount<'a> {
    fn new(label: &'a Label) -> Self {
        Self { label, gold: 0, predicted: 0, right: 0 }
    }

    /// F1 of this label: `2·TP / (2·TP + FP + FN)`; 0 if undefined.
    pub(super) fn f1(&self) -> f64 {
        f1(self.right, self.gold, self.predicted)
    }
}

/// F1 from the counts of correct predictions, gold labels and predicted labels.
pub(super) fn f1(right: u64, gold: u64, predicted: u64) -> f64 {
    match gold + predicted {
        0 => 0.0,
        total => 2.0 * right as f64 / total as f64,
    }
}
