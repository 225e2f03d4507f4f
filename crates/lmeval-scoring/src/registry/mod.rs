//! The registry: everything that a task or a run refers to by name, with the code for each name.
//!
//! A [`Registry`] has one [`Table`] per kind. Each built-in entry is one line in the list of its kind. A program adds
//! its own entries using [`Registry::register`] and passes the registry to the task manager, so that loading,
//! validation, listings and scoring all see them. Python registrations are another layer of the same tables.
//!
//! ```
//! use lmeval_scoring::registry::{FilterEntry, Registry};
//! use lmeval_scoring::filters::UPPERCASE;
//!
//! let mut registry = Registry::default();
//! registry.register(FilterEntry::new("shout", |_, _| Ok(Box::new(UPPERCASE)))).unwrap();
//! assert!(registry.filters.get("shout").is_some());
//! assert_eq!(registry.filters.find("shuot").unwrap_err().nearest, ["shout"]);
//! ```

mod entry;
mod evaluate;
mod kinds;
mod metric_config;
mod models;
mod registered;
mod table;

pub use entry::{Code, Entry, Kind};
pub use evaluate::{is_evaluate_metric, replacements_for_evaluate};
pub use kinds::{
    AggregationEntry, AggregationKind, FilterEntry, FilterFacts, FilterKind, FormatEntry, FormatKind,
    MetricEntry, MetricFacts, MetricKind, ReductionEntry, ReductionKind, SamplerEntry, SamplerKind,
    ScorerEntry, ScorerKind, default_metrics,
};
pub use lmeval_metrics::{OptionEntry, OptionKind, OptionProblem, OptionTable, UnknownOptions};
pub use metric_config::MetricConfigError;
pub use models::{ModelEntry, ModelKind, ModelNames};
pub use registered::{NameLookup, NameScope, Registered};
pub use table::{AlreadyRegistered, Table, UnknownName};

use std::sync::{Arc, LazyLock};

use lmeval_metrics::{AnyAggregation, AnyMetric, AnyReduction, bootstrap_stderr, reduction_counts};
use lmeval_pycompat::{Dict, Value};

use lmeval_core::Diagnostic;

/// The tables of all kinds. Cloning is cheap until an entry is added.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Per-document metrics.
    pub metrics: Table<MetricKind>,
    /// Aggregations over documents.
    pub aggregations: Table<AggregationKind>,
    /// Reductions over repeats.
    pub reductions: Table<ReductionKind>,
    /// Answer filters.
    pub filters: Table<FilterKind>,
    /// Scorers, as named by `scorer:`.
    pub scorers: Table<ScorerKind>,
    /// Few-shot samplers.
    pub samplers: Table<SamplerKind>,
    /// Prompt formats.
    pub formats: Table<FormatKind>,
    /// Model backends.
    pub models: Table<ModelKind>,
}

/// The built-in entries, constructed once.
static BUILT_IN: LazyLock<Registry> = LazyLock::new(|| Registry {
    metrics: Table::new(kinds::metrics()),
    aggregations: Table::new(kinds::aggregations()),
    reductions: Table::new(kinds::reductions()),
    filters: Table::new(crate::filters::built_in()),
    scorers: Table::new(crate::scorers::built_in()),
    samplers: Table::new(crate::sampler::built_in()),
    formats: Table::new(crate::formats::built_in()),
    models: Table::new(Vec::new()),
});

impl Default for Registry {
    /// The built-in entries.
    fn default() -> Self {
        BUILT_IN.clone()
    }
}

impl Registry {
    /// Adds an entry of any kind. Fails if a different entry already has the name; adding the same entry again is
    /// allowed.
    pub fn register<K: Kind>(&mut self, entry: impl Into<Entry<K>>) -> Result<(), AlreadyRegistered> {
        K::table_mut(self).register(entry.into())
    }

    /// Adds a Python registration. Kinds that Python cannot register are ignored.
    pub fn add_python(&mut self, kind: &str, name: &str, registered: Registered) {
        match kind {
            MetricKind::NAME => self.metrics.add_python(name, registered),
            AggregationKind::NAME => self.aggregations.add_python(name, registered),
            ReductionKind::NAME => self.reductions.add_python(name, registered),
            FilterKind::NAME => self.filters.add_python(name, registered),
            ScorerKind::NAME => self.scorers.add_python(name, registered),
            SamplerKind::NAME => self.samplers.add_python(name, registered),
            ModelKind::NAME => self.models.add_python(name, registered),
            _ => {}
        }
    }

    /// The Rust metric of a name.
    pub fn metric(&self, name: &str) -> Option<&Arc<dyn AnyMetric>> {
        self.metrics.get_rust(name)?.code.rust()
    }

    /// The Rust aggregation of a name.
    pub fn aggregation(&self, name: &str) -> Result<&Arc<dyn AnyAggregation>, UnknownName> {
        let found = self.aggregations.get_rust(name).and_then(|entry| entry.code.rust());
        found.ok_or_else(|| self.aggregations.unknown(name))
    }

    /// Answers Python code that has `values` of its own: their score by the Rust aggregation `name` or, if `resamples`
    /// is a number, the standard error of the score over that many resamples.
    pub fn aggregate_for_python(&self, query: &Dict) -> Result<Value, Box<Diagnostic>> {
        let failed = |message: String| Box::new(Diagnostic::new(message));
        let part = |name: &str| query.get_str(name).cloned().unwrap_or_default();
        let (name, values, resamples) = (part("name"), part("values"), part("resamples"));
        let values = values.as_list().ok_or_else(|| failed("The values must be a list".to_owned()))?;
        let aggregation = self.aggregation(name.as_str().unwrap_or_default());
        let aggregation = aggregation.map_err(|error| failed(error.to_string()))?;
        let score = match resamples.as_i64().and_then(|count| usize::try_from(count).ok()) {
            None => aggregation.aggregate(values).map(Value::from),
            Some(resamples) => aggregation
                .prepare(values)
                .and_then(|prepared| bootstrap_stderr(&*prepared, values.len(), resamples))
                .map(Value::Float),
        };
        score.map_err(|error| failed(error.to_string()))
    }

    /// The Rust reduction of a name.
    pub fn reduction(&self, name: &str) -> Result<Arc<dyn AnyReduction>, UnknownName> {
        let made = self.reductions.get_rust(name).and_then(|entry| {
            let counts = reduction_counts(&entry.name, name)?;
            Some((entry.code.rust()?)(counts))
        });
        made.ok_or_else(|| self.reductions.unknown(name))
    }
}
