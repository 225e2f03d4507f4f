//! Scorers that are Python classes.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, repr};

use super::aggregate::Aggregated;
use super::answered::{AnsweredDocument, AnsweredInstance};
use super::build::ScoringSources;
use super::error::ScoreError;
use super::input::{ScoringInput, as_text};
use super::ll_scorer::target;
use super::metric::text_keys;
use super::needs::Needs;
use super::overrides::{self, Overrides};
use super::scored::{ReducedDoc, ScoredDoc, Scores};
use super::scorer::Scorer;
use super::spec::{MetricSpec, PipelineSpec, Reference, ScorerSpec, Setting};
use super::task_code::HostScorer;
use crate::filters::{FilterFunction, FilterSpec};
use crate::groups::Directions;
use crate::registry::Registered;
use lmeval_core::DocId;
use lmeval_core::OutputType;

/// The granularity at which a scorer has code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// No code: only default filters and metrics.
    Config,
    /// Scores one document at a time.
    Document,
    /// Scores all documents at once.
    Batch,
}

/// The filters and metrics that a Python class uses if the task names none.
#[derive(Clone, Debug, Default)]
pub struct ScorerDefaults {
    /// The default filters.
    pub filters: Option<Vec<FilterSpec>>,
    /// The default metrics.
    pub metrics: Option<Vec<MetricSpec>>,
    /// The metrics that cannot be looked up by name.
    pub records: Vec<(String, Registered)>,
}

impl ScorerDefaults {
    /// Reads the defaults from a scorer's registration.
    pub fn of(scorer: &str, registered: &Registered) -> Result<Self, ScoreError> {
        let list = |name: &str| registered.facts.get_str(name).and_then(Value::as_list);
        let wrong = |message: String| ScoreError::ScorerDefaults { scorer: scorer.to_owned(), message };
        let mut records = Vec::new();
        let filters = list("filters").map(|steps| {
            let steps = steps.iter().map(FilterSpec::from_value);
            steps.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))
        });
        let metrics = list("metrics").map(|entries| {
            let mut metrics = Vec::with_capacity(entries.len());
            for entry in entries {
                metrics.push(match record(entry) {
                    Some((name, registered)) => {
                        let kwargs = registered.facts.get_str("kwargs").and_then(Value::as_dict);
                        let kwargs = kwargs.cloned().unwrap_or_default();
                        let spec = MetricSpec { kwargs, ..MetricSpec::named(&name) };
                        records.push((name, registered));
                        spec
                    }
                    None => MetricSpec::from_value(entry).map_err(|error| wrong(error.to_string()))?,
                });
            }
            Ok::<_, ScoreError>(metrics)
        });
        Ok(Self { filters: filters.transpose()?, metrics: metrics.transpose()?, records })
    }
}

/// The name and function of a metric that the class holds as an object.
fn record(entry: &Value) -> Option<(String, Registered)> {
    let facts = entry.as_dict()?;
    let name = facts.get_str("record").and_then(Value::as_str)?;
    let Some(Value::Function(function)) = facts.get_str("function") else { return None };
    Some((name.to_owned(), Registered { function: Arc::clone(function), facts: facts.clone() }))
}

/// A Python class as a scorer.
#[derive(Debug)]
pub(super) struct RegisteredScorer {
    name: String,
    tier: Tier,
    own: Overrides,
    defaults: ScorerDefaults,
    host: Option<Arc<dyn HostScorer>>,
}

impl RegisteredScorer {
    pub(super) fn new(name: &str, registered: &Registered) -> Result<Self, ScoreError> {
        let tier = match registered.text("tier") {
            Some("batch") => Tier::Batch,
            Some("document") => Tier::Document,
            _ => Tier::Config,
        };
        let defaults = ScorerDefaults::of(name, registered)?;
        Ok(Self { name: name.to_owned(), tier, own: Overrides::default(), defaults, host: None })
    }

    /// Attaches the instance of the class.
    pub(super) fn with_host(mut self, host: Arc<dyn HostScorer>) -> Self {
        self.own = Overrides::of(&*host);
        if self.own.score && self.tier == Tier::Config {
            self.tier = Tier::Document;
        }
        self.host = Some(host);
        self
    }
}

/// The configuration from which a class builds the scorer of a pipeline.
pub(super) fn config(
    pipeline: &PipelineSpec,
    filters: &[FilterSpec],
    scorer: &ScorerSpec,
    output_type: OutputType,
    sources: &ScoringSources,
) -> Dict {
    let registry = &sources.registry;
    let registered = |kind: &str, name: &str| match kind {
        "metric" => registry.metrics.python(name),
        "aggregation" => registry.aggregations.python(name),
        _ => registry.reductions.python(name),
    };
    let part = |kind: &str, reference: &Reference| match reference {
        Reference::Name(name) => match registered(kind, name) {
            Some(registered) => Value::Function(Arc::clone(&registered.function)),
            None => Value::Str(Arc::clone(name)),
        },
        Reference::Function(function) => Value::Function(Arc::clone(function)),
    };
    let metric = |metric: &MetricSpec| {
        let mut entry = Dict::new();
        entry.insert("metric", part("metric", &metric.metric));
        entry.insert("kwargs", metric.kwargs.clone());
        for (kind, given) in [("aggregation", &metric.aggregation), ("reduction", &metric.reduction)] {
            let given = match given {
                Setting::Inherited => continue,
                Setting::Null => Value::None,
                Setting::Given(reference) => part(kind, reference),
            };
            entry.insert(kind, given);
        }
        if let Setting::Given(direction) = metric.higher_is_better {
            entry.insert("higher_is_better", direction);
        }
        Value::from(entry)
    };
    let step = |step: &FilterSpec| {
        let function = match &step.function {
            FilterFunction::Name(name) => match registry.filters.python(name) {
                Some(registered) => Value::Function(Arc::clone(&registered.function)),
                None => Value::str(name.as_str()),
            },
            FilterFunction::Class(class) => Value::Function(Arc::clone(class)),
        };
        Value::dict([("function", function), ("kwargs", Value::from(step.kwargs.clone()))])
    };
    let mut config = Dict::new();
    config.insert("name", pipeline.name.as_str());
    config.insert("filter", Value::list(filters.iter().map(step)));
    config.insert("metric_list", Value::list(pipeline.metrics.iter().map(metric)));
    config.insert("output_type", output_type.name());
    config.insert("kwargs", scorer.kwargs.clone());
    config
}

impl Scorer for RegisteredScorer {
    fn name(&self) -> &str {
        &self.name
    }

    fn default_filters(&self) -> Option<Vec<FilterSpec>> {
        self.defaults.filters.clone()
    }

    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        self.defaults.metrics.clone()
    }

    fn scores_by_metrics(&self) -> bool {
        self.tier == Tier::Config && self.own == Overrides::default()
    }

    fn needs(&self) -> Needs {
        let by_metrics = self.tier == Tier::Config && !self.own.apply_filter;
        if by_metrics { Needs { together: true, ..Needs::NOTHING } } else { Needs::EVERYTHING }
    }

    fn apply_filter(
        &self,
        documents: &[AnsweredDocument],
        output_type: OutputType,
    ) -> Result<Option<Vec<Value>>, ScoreError> {
        let Some(host) = self.host.as_ref().filter(|_| self.own.apply_filter) else { return Ok(None) };
        let sent: Vec<Value> =
            documents.iter().map(|document| sent_document(document, &[], output_type)).collect();
        let answers = host.apply_filter(&sent)?;
        drop(sent);
        let mut filtered = Vec::with_capacity(answers.len());
        for (document, answer) in documents.iter().zip(answers) {
            match answer {
                Value::List(requests) if requests.len() == document.answers.len() => {
                    filtered.extend(Arc::unwrap_or_clone(requests));
                }
                _ => {
                    let message = "`apply_filter` did not return one entry per request".to_owned();
                    return Err(self.failed(document.doc_id, message));
                }
            }
        }
        Ok(Some(filtered))
    }

    fn reduce(&self, scored: &[ScoredDoc]) -> Result<Option<Vec<ReducedDoc>>, ScoreError> {
        let host = self.host.as_deref().filter(|_| self.own.reduce);
        host.map(|host| overrides::reduce(host, scored)).transpose()
    }

    fn aggregate(
        &self,
        reduced: &[ReducedDoc],
        bootstrap_iters: i64,
    ) -> Result<Option<Aggregated>, ScoreError> {
        let host = self.host.as_deref().filter(|_| self.own.aggregate);
        host.map(|host| overrides::aggregate(host, &self.name, reduced, bootstrap_iters)).transpose()
    }

    fn higher_is_better(&self, reduced: &[ReducedDoc]) -> Result<Option<Directions>, ScoreError> {
        let host = self.host.as_deref().filter(|_| self.own.higher_is_better);
        host.map(|host| overrides::higher_is_better(host, reduced)).transpose()
    }

    fn score_documents(&self, inputs: &[ScoringInput<'_>]) -> Result<Vec<ScoredDoc>, ScoreError> {
        let Some(host) = self.host.as_ref().filter(|_| self.tier != Tier::Config && !inputs.is_empty())
        else {
            if let Some(first) = inputs.first().filter(|_| !self.scores_by_metrics()) {
                first.metrics.prepare(inputs)?;
            }
            return super::scorer::score_each(self, inputs);
        };
        let documents: Vec<Value> = inputs
            .iter()
            .map(|input| sent_document(input.document, input.filtered, input.output_type))
            .collect();
        let no_context = Dict::new();
        let context = inputs.first().map_or(&no_context, |first| first.metrics.context());
        let answers = host.score(&documents, context, self.tier == Tier::Batch)?;
        drop(documents);
        inputs.iter().zip(answers).map(|(input, answer)| self.scored(input, &answer)).collect()
    }
}

impl RegisteredScorer {
    fn failed(&self, document: DocId, message: String) -> ScoreError {
        ScoreError::User { scorer: self.name.clone(), document, message }
    }

    fn scored(&self, input: &ScoringInput<'_>, answer: &Value) -> Result<ScoredDoc, ScoreError> {
        let part = |name: &str| answer.as_dict().and_then(|answer| answer.get_str(name));
        let mut scores = Scores::new();
        if let Some(given) = part("scores").and_then(Value::as_dict) {
            for (name, value) in text_keys(given, input.doc_id())? {
                if name.is_empty() || name.contains(',') {
                    return Err(ScoreError::MetricName { metric: name.to_string() });
                }
                scores.insert(name, value.as_list().map_or_else(|| vec![value.clone()], <[Value]>::to_vec));
            }
        } else if !answer.is_none() {
            return Err(self.failed(input.doc_id(), "it returned no scores".to_owned()));
        }
        let reference = part("reference").cloned().unwrap_or_default();
        Ok(ScoredDoc { doc_id: input.doc_id(), reference, scores })
    }
}

/// A document as Python receives it, with the filtered answers to each request if they exist.
fn sent_document(document: &AnsweredDocument, filtered: &[Vec<Value>], output_type: OutputType) -> Value {
    let AnsweredDocument { doc_id, document, choices, answers, .. } = document;
    let count = answers.iter().filter(|answer| !answer.instance.metadata.unconditional).count();
    let options = choices.as_deref().filter(|options| options.len() == count);
    let mut options = options.into_iter().flatten();
    let requests = answers.iter().enumerate().map(|(index, answer)| {
        let option = if answer.instance.metadata.unconditional { None } else { options.next() };
        let filtered = filtered.get(index).map_or(&[][..], Vec::as_slice);
        request(answer, filtered, option, output_type)
    });
    Value::dict([
        ("doc_id", Value::Int(doc_id.0 as i64)),
        ("doc", Value::Dict(Arc::clone(document))),
        ("requests", Value::list(requests)),
    ])
}

/// A request with its answers, keyed by the field names of `Instance`.
fn request(
    answer: &AnsweredInstance,
    filtered: &[Value],
    option: Option<&Value>,
    output_type: OutputType,
) -> Value {
    let instance = &answer.instance;
    let arguments = instance.arguments.to_values(false);
    let gold = match output_type {
        OutputType::GenerateUntil => as_text(&instance.gold).into_owned(),
        _ => target(&instance.gold, output_type),
    };
    let mut metadata = instance.metadata.to_dict();
    if let Some(option) = option {
        metadata.insert("option_text", repr::str(option));
    }
    Value::dict([
        ("request_type", Value::str(instance.request_type.name())),
        ("arguments", Value::tuple(arguments)),
        ("idx", Value::Int(instance.idx as i64)),
        ("metadata", Value::from(metadata)),
        ("resps", Value::list(answer.responses.iter().cloned())),
        ("filtered", Value::list(filtered.iter().cloned())),
        ("task_name", Value::Str(Arc::clone(&instance.task_name))),
        ("repeats", Value::Int(instance.repeats as i64)),
        ("target", gold),
    ])
}
