//! Scorers, metrics, aggregations and reductions by name.

use std::fmt;
use std::sync::Arc;

use lmeval_metrics::{AnyAggregation, AnyMetric, AnyReduction};
use lmeval_pycompat::Dict;

use super::choice_match::ChoiceMatchScorer;
use super::error::ScoreError;
use super::first_token::FirstTokenScorer;
use super::regex_extraction::RegexExtractionScorer;
use super::scorer::Scorer;
use super::spec::ScorerSpec;
use crate::near::nearest;
use crate::registry::{
    AGGREGATIONS, AggregationEntry, AlreadyRegistered, Entry, METRICS, MetricEntry, REDUCTIONS,
    ReductionEntry, Registered, ScorerEntry, UnknownName,
};

/// Makes a scorer from its keyword arguments.
pub type ScorerConstructor = Arc<dyn Fn(&Dict) -> Result<Arc<dyn Scorer>, ScoreError> + Send + Sync>;

/// The names that scoring looks up: what is built in, and what a program adds.
///
/// ```
/// use std::sync::Arc;
/// use lmeval_core::scorers::{GenScorer, ScoringNames};
///
/// let mut names = ScoringNames::default();
/// names.register_scorer("plain", Arc::new(|_| Ok(Arc::new(GenScorer)))).unwrap();
/// assert!(names.register_scorer("regex", Arc::new(|_| Ok(Arc::new(GenScorer)))).is_err());
/// ```
#[derive(Clone, Default)]
pub struct ScoringNames {
    scorers: Vec<(String, ScorerConstructor)>,
    metrics: Vec<Arc<dyn AnyMetric>>,
    aggregations: Vec<(String, Arc<dyn AnyAggregation>)>,
    reductions: Vec<(String, Arc<dyn AnyReduction>)>,
    /// What Python code registered, by kind and name.
    registered: Vec<(&'static str, String, Registered)>,
}

impl fmt::Debug for ScoringNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics: Vec<&str> = self.metrics.iter().map(|metric| metric.name()).collect();
        f.debug_struct("ScoringNames")
            .field("scorers", &names_of(&self.scorers))
            .field("metrics", &metrics)
            .field("aggregations", &names_of(&self.aggregations))
            .field("reductions", &names_of(&self.reductions))
            .field("registered", &self.registered)
            .finish()
    }
}

const BUILT_IN_SCORERS: [&str; 3] = ["choice_match", "first_token", "regex"];

impl ScoringNames {
    /// Adds a scorer; a name never changes its meaning.
    pub fn register_scorer(
        &mut self,
        name: impl Into<String>,
        constructor: ScorerConstructor,
    ) -> Result<(), AlreadyRegistered> {
        let name = name.into();
        let taken = BUILT_IN_SCORERS.contains(&name.as_str());
        add(&mut self.scorers, ScorerEntry::KIND, name, constructor, taken)
    }

    /// Adds a metric; a name never changes its meaning.
    pub fn register_metric(&mut self, metric: Arc<dyn AnyMetric>) -> Result<(), AlreadyRegistered> {
        if self.metric(metric.name()).is_some() {
            return Err(AlreadyRegistered { kind: MetricEntry::KIND, name: metric.name().to_owned() });
        }
        self.metrics.push(metric);
        Ok(())
    }

    /// Adds an aggregation; a name never changes its meaning.
    pub fn register_aggregation(
        &mut self,
        name: impl Into<String>,
        aggregation: Arc<dyn AnyAggregation>,
    ) -> Result<(), AlreadyRegistered> {
        let name = name.into();
        let taken = lmeval_metrics::aggregation(&name).is_some();
        add(&mut self.aggregations, AggregationEntry::KIND, name, aggregation, taken)
    }

    /// Adds a reduction; a name never changes its meaning.
    pub fn register_reduction(
        &mut self,
        name: impl Into<String>,
        reduction: Arc<dyn AnyReduction>,
    ) -> Result<(), AlreadyRegistered> {
        let name = name.into();
        let taken = lmeval_metrics::reduction(&name).is_some();
        add(&mut self.reductions, ReductionEntry::KIND, name, reduction, taken)
    }

    /// Adds what Python code registered: a metric, an aggregation, a reduction or a scorer. It comes before what is
    /// built in.
    pub fn add_registered(&mut self, kind: &'static str, name: impl Into<String>, registered: Registered) {
        let name = name.into();
        self.registered.retain(|(of, known, _)| *of != kind || *known != name);
        self.registered.push((kind, name, registered));
    }

    /// What Python code registered under a name.
    pub fn registered(&self, kind: &str, name: &str) -> Option<&Registered> {
        let found = self.registered.iter().find(|(of, known, _)| *of == kind && known == name);
        found.map(|(_, _, registered)| registered)
    }

    /// The metric of a name.
    pub fn metric(&self, name: &str) -> Option<Arc<dyn AnyMetric>> {
        let added = self.metrics.iter().find(|metric| metric.name() == name).cloned();
        added.or_else(|| lmeval_metrics::metric(name))
    }

    /// The aggregation of a name.
    pub fn aggregation(&self, name: &str) -> Result<Arc<dyn AnyAggregation>, UnknownName> {
        let added = self.aggregations.iter().find(|(known, _)| known == name);
        added
            .map(|(_, aggregation)| Arc::clone(aggregation))
            .or_else(|| lmeval_metrics::aggregation(name))
            .ok_or_else(|| unknown(AggregationEntry::KIND, name, &names_of(&self.aggregations), AGGREGATIONS))
    }

    /// The reduction of a name.
    pub fn reduction(&self, name: &str) -> Result<Arc<dyn AnyReduction>, UnknownName> {
        let added = self.reductions.iter().find(|(known, _)| known == name);
        added
            .map(|(_, reduction)| Arc::clone(reduction))
            .or_else(|| lmeval_metrics::reduction(name))
            .ok_or_else(|| unknown(ReductionEntry::KIND, name, &names_of(&self.reductions), REDUCTIONS))
    }

    /// Whether there is a scorer of this name.
    pub fn has_scorer(&self, name: &str) -> bool {
        BUILT_IN_SCORERS.contains(&name) || self.scorers.iter().any(|(known, _)| known == name)
    }

    /// Makes the scorer that a task names.
    pub fn scorer(&self, spec: &ScorerSpec) -> Result<Arc<dyn Scorer>, ScoreError> {
        let built_in: Arc<dyn Scorer> = match spec.kind.as_str() {
            "choice_match" => Arc::new(ChoiceMatchScorer),
            "first_token" => Arc::new(FirstTokenScorer),
            "regex" => Arc::new(RegexExtractionScorer),
            name => {
                let Some((_, constructor)) = self.scorers.iter().find(|(known, _)| known == name) else {
                    let mut known = names_of(&self.scorers);
                    known.extend(BUILT_IN_SCORERS);
                    return Err(unknown::<ScorerEntry>(ScorerEntry::KIND, name, &known, &[]).into());
                };
                return constructor(&spec.kwargs);
            }
        };
        // Reference: the built-in scorers have no arguments; patterns are given to filters.
        match spec.kwargs.keys().next() {
            None => Ok(built_in),
            Some(argument) => Err(ScoreError::ScorerArgument {
                scorer: spec.kind.clone(),
                argument: lmeval_pycompat::repr::str(argument),
            }),
        }
    }
}

fn add<T>(
    added: &mut Vec<(String, T)>,
    kind: &'static str,
    name: String,
    item: T,
    taken: bool,
) -> Result<(), AlreadyRegistered> {
    if taken || added.iter().any(|(known, _)| *known == name) {
        return Err(AlreadyRegistered { kind, name });
    }
    added.push((name, item));
    Ok(())
}

fn names_of<T>(added: &[(String, T)]) -> Vec<&str> {
    added.iter().map(|(name, _)| name.as_str()).collect()
}

fn unknown<T: Entry>(kind: &'static str, name: &str, added: &[&str], built_in: &'static [T]) -> UnknownName {
    let mut known: Vec<&str> = added.to_vec();
    known.extend(built_in.iter().map(Entry::name));
    known.sort_unstable();
    UnknownName {
        kind,
        name: name.to_owned(),
        nearest: nearest(name, known.iter().copied()).into_iter().map(str::to_owned).collect(),
        known: known.into_iter().map(str::to_owned).collect(),
    }
}

/// Knowledge about a built-in metric.
pub(super) fn entry_of(name: &str) -> Option<&'static MetricEntry> {
    METRICS.iter().find(|entry| entry.name == name)
}
