//! The kinds of entries, and the built-in metrics, aggregations and reductions.

use std::borrow::Cow;
use std::sync::Arc;

use lmeval_metrics::aggregation::erase_aggregation;
use lmeval_metrics::reduction::erase_reduction;
use lmeval_metrics::{
    AGGREGATIONS, Aggregation, AnyAggregation, AnyMetric, AnyReduction, Item, METRICS, Metric, REDUCTIONS,
    Reduction, reduction_counts,
};
use lmeval_pycompat::Dict;

use super::Registry;
use super::entry::{Code, Entry, Kind};
use super::table::Table;
use crate::filters::{Arguments, Filter, FilterContext, FilterError};
use crate::formats::Format;
use crate::sampler::Sampler;
use crate::scorers::{ScoreError, Scorer};
use lmeval_core::OutputType::{self, GenerateUntil, Loglikelihood, LoglikelihoodRolling, MultipleChoice};

/// Defines the marker type of a kind and the alias of its entries.
macro_rules! kind {
    ($(#[$docs:meta])* $kind:ident, $entry:ident, $word:literal, $table:ident, $code:ty, $facts:ty $(, $answers:expr)?) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        #[doc = concat!("A registry entry for a ", $word, ".")]
        pub type $entry = Entry<$kind>;

        impl Kind for $kind {
            const NAME: &'static str = $word;
            type Code = $code;
            type Facts = $facts;

            fn table_mut(registry: &mut Registry) -> &mut Table<Self> {
                &mut registry.$table
            }

            $(fn matches_name(entry: &Entry<Self>, name: &str) -> bool {
                let answers: fn(&str, &str) -> bool = $answers;
                answers(&entry.name, name)
            })?
        }
    };
}

type MakeFilter =
    dyn Fn(&Arguments<'_>, &FilterContext) -> Result<Box<dyn Filter>, FilterError> + Send + Sync;
type MakeScorer = dyn Fn(&Dict) -> Result<Arc<dyn Scorer>, ScoreError> + Send + Sync;

kind!(
    /// Metrics: map one document's answers to a value.
    MetricKind, MetricEntry, "metric", metrics, dyn AnyMetric, MetricFacts,
    |entry, name| entry == "mcc" && name == "matthews_corrcoef"
);
kind!(
    /// Aggregations: map the values of all documents to one score.
    AggregationKind, AggregationEntry, "aggregation", aggregations, dyn AnyAggregation, (),
    |entry, name| entry == "matthews_corrcoef" && name == "mcc"
);
kind!(
    /// Reductions: map the values of one document's repeats to one value.
    ///
    /// A name that ends in `k` after `@` or `^` also matches every name with a number instead: `pass@k` matches
    /// `pass@5`. The spelling `pass_at_k` is accepted too.
    ReductionKind, ReductionEntry, "reduction", reductions,
    dyn Fn(Vec<usize>) -> Arc<dyn AnyReduction> + Send + Sync, (),
    |entry, name| reduction_counts(entry, name).is_some()
);
kind!(
    /// Filters: extract the scored part of a model's answer.
    FilterKind, FilterEntry, "filter", filters, MakeFilter, FilterFacts
);
kind!(
    /// Scorers: turn filtered answers into scores.
    ScorerKind, ScorerEntry, "scorer", scorers, MakeScorer, ()
);
kind!(
    /// Samplers: select documents as few-shot examples.
    SamplerKind, SamplerEntry, "sampler", samplers, dyn Fn() -> Box<dyn Sampler> + Send + Sync, ()
);

kind!(
    /// Prompt formats: different ways to ask the same question.
    FormatKind, FormatEntry, "format", formats, Format, ()
);

/// Metadata of a metric.
#[derive(Clone, Debug)]
pub struct MetricFacts {
    /// Whether higher scores are better.
    pub higher_is_better: bool,
    /// The name of its aggregation; `None` if the aggregation is specific to the metric.
    pub aggregation: Option<&'static str>,
    /// The name of its reduction; `None` if the reduction is specific to the metric.
    pub reduction: Option<&'static str>,
    /// Whether the score exists only for the complete corpus, not for single documents.
    pub needs_corpus: bool,
}

impl Default for MetricFacts {
    fn default() -> Self {
        Self {
            higher_is_better: true,
            aggregation: Some("mean"),
            reduction: Some("take_first"),
            needs_corpus: false,
        }
    }
}

/// Metadata of a filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilterFacts {
    /// Whether dialect 0.4 rejects unknown arguments, which otherwise have no effect.
    pub strict_in_v04: bool,
}

impl MetricEntry {
    /// An entry for a metric, with the metadata that the metric declares.
    pub fn new(metric: Arc<dyn AnyMetric>) -> Self {
        Self {
            name: Cow::Owned(metric.name().to_owned()),
            summary: Cow::Owned(metric.summary().to_owned()),
            options: metric.options(),
            output_types: Cow::Borrowed(metric.listed_for()),
            facts: MetricFacts {
                higher_is_better: metric.higher_is_better(),
                aggregation: metric.aggregation().name(),
                reduction: metric.reduction().name(),
                needs_corpus: metric.needs_corpus(),
            },
            code: Code::Program(metric),
        }
    }
}

impl<T: Item, K: Item> From<Metric<T, K>> for MetricEntry {
    fn from(metric: Metric<T, K>) -> Self {
        Self::new(Arc::new(metric))
    }
}

impl AggregationEntry {
    /// An entry for an aggregation.
    pub fn new<K: Item>(
        name: impl Into<Cow<'static, str>>,
        aggregation: impl Aggregation<K> + 'static,
    ) -> Self {
        Self::with_code(name, Code::Program(erase_aggregation(Arc::new(aggregation))))
    }
}

impl ReductionEntry {
    /// An entry for a reduction.
    pub fn new<T: Item, K: Item>(
        name: impl Into<Cow<'static, str>>,
        reduction: impl Reduction<T, K> + 'static,
    ) -> Self {
        let reduction = erase_reduction(Arc::new(reduction));
        Self::with_counts(name, move |_| Arc::clone(&reduction))
    }

    /// An entry for a reduction whose name, such as `best@k`, may include a number of repeats.
    pub fn with_counts(
        name: impl Into<Cow<'static, str>>,
        make: impl Fn(Vec<usize>) -> Arc<dyn AnyReduction> + Send + Sync + 'static,
    ) -> Self {
        Self::with_code(name, Code::Program(Arc::new(make)))
    }
}

impl FilterEntry {
    /// An entry for a filter, which is created from a step's keyword arguments.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        make: impl Fn(&Arguments<'_>, &FilterContext) -> Result<Box<dyn Filter>, FilterError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::with_code(name, Code::Program(Arc::new(make)))
    }

    /// Makes dialect 0.4 reject unknown arguments.
    pub(crate) fn strict_in_v04(mut self) -> Self {
        self.facts.strict_in_v04 = true;
        self
    }
}

impl ScorerEntry {
    /// An entry for a scorer, which is created from its keyword arguments.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        make: impl Fn(&Dict) -> Result<Arc<dyn Scorer>, ScoreError> + Send + Sync + 'static,
    ) -> Self {
        Self::with_code(name, Code::Program(Arc::new(make)))
    }
}

impl SamplerEntry {
    /// An entry for a sampler, which is created once per task.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        make: impl Fn() -> Box<dyn Sampler> + Send + Sync + 'static,
    ) -> Self {
        Self::with_code(name, Code::Program(Arc::new(make)))
    }
}

impl FormatEntry {
    /// An entry for a prompt format.
    pub fn new(name: impl Into<Cow<'static, str>>, format: Format) -> Self {
        let output_types = vec![format.output_type];
        Self::with_code(name, Code::Program(Arc::new(format))).output_types(output_types)
    }
}

pub(super) fn metrics() -> Vec<MetricEntry> {
    let mut entries: Vec<MetricEntry> =
        METRICS.iter().map(|metric| MetricEntry::new(Arc::clone(metric)).built_in()).collect();
    entries.push(
        MetricEntry::with_code("acc_all", Code::TaskCode)
            .output_types(vec![Loglikelihood])
            .summary("All answers to one question are correct, as computed by `process_results`"),
    );
    entries
}

pub(super) fn aggregations() -> Vec<AggregationEntry> {
    let entry = |known: &lmeval_metrics::BuiltInAggregation| {
        AggregationEntry::with_code(known.name, Code::BuiltIn(Arc::clone(&known.aggregation)))
            .summary(known.summary)
    };
    AGGREGATIONS.iter().map(entry).collect()
}

pub(super) fn reductions() -> Vec<ReductionEntry> {
    let entry = |known: &lmeval_metrics::BuiltInReduction| {
        ReductionEntry::with_code(known.name, Code::BuiltIn(Arc::new(known.make))).summary(known.summary)
    };
    REDUCTIONS.iter().map(entry).collect()
}

/// The metrics of a task that does not name any.
pub fn default_metrics(output_type: OutputType) -> &'static [&'static str] {
    match output_type {
        GenerateUntil => &["exact_match"],
        Loglikelihood => &["perplexity", "acc"],
        LoglikelihoodRolling => &["word_perplexity", "byte_perplexity", "bits_per_byte"],
        MultipleChoice => &["acc", "acc_norm"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::{FilterFunction, FilterSpec};
    use crate::scorers::Reference;

    #[test]
    fn default_metrics_support_their_output_type() {
        let registry = Registry::default();
        for output_type in OutputType::ALL {
            for name in default_metrics(output_type) {
                assert!(registry.metrics.get(name).unwrap().fits(output_type), "{name} {output_type}");
            }
        }
        for metric in registry.metrics.iter() {
            if let Some(name) = metric.facts.aggregation {
                assert!(registry.aggregations.get(name).is_some(), "{name}");
            }
            if let Some(name) = metric.facts.reduction {
                assert!(registry.reductions.get(name).is_some(), "{name}");
            }
        }
        for entry in registry.scorers.iter() {
            let mut options = Dict::new();
            if entry.name == "judge" {
                options.insert("role", "grader");
                options.insert("template", "reference_qa");
            }
            let scorer = (entry.code.rust().unwrap())(&options).unwrap();
            for FilterSpec { function, .. } in scorer.default_filters().into_iter().flatten() {
                let FilterFunction::Name(name) = function else { panic!("{function:?}") };
                assert!(registry.filters.get(&name).is_some(), "{name}");
            }
            for metric in scorer.default_metrics().into_iter().flatten() {
                let Reference::Name(name) = &metric.metric else { panic!("{metric:?}") };
                let known = registry.metrics.get(name).unwrap();
                assert!(known.options.check(&metric.kwargs).is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn entries_have_metadata() {
        let registry = Registry::default();
        let get = |name: &str| registry.metrics.get(name).unwrap();
        assert_eq!(get("exact_match").facts.reduction, Some("pass@k"));
        assert!(!get("ter").facts.higher_is_better);
        assert!(get("bleu").facts.needs_corpus);
        assert!(!get("perplexity").facts.needs_corpus);
        assert!(get("acc").fits(Loglikelihood));
        assert!(!get("acc_norm").fits(Loglikelihood));
        assert!(!get("bypass").fits(LoglikelihoodRolling));
        assert!(get("f1").fits(GenerateUntil) && get("mcc").fits(GenerateUntil));
        assert_eq!(registry.metrics.iter().count(), 31);
    }

    #[test]
    fn numbers_match_k() {
        let reductions = Registry::default().reductions;
        for name in ["pass@k", "pass@1", "pass^10", "avg@4", "maj@64"] {
            assert!(reductions.get(name).is_some(), "{name}");
        }
        for name in ["pass@", "pass@0", "pass@x", "pass@-1", "pass@01", "mean@2", "pass", "@k", "pass_at_"] {
            assert!(reductions.get(name).is_none(), "{name}");
        }
        assert_eq!(reductions.get("pass_at_k").map(|entry| &*entry.name), Some("pass@k"));
        assert_eq!(reductions.find("pass@kk").unwrap_err().nearest[0], "pass@k");
        assert!(reductions.get("pass@99999999999999999999999").is_none());
    }
}
