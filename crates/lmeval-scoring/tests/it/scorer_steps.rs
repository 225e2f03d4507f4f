//! Needs of scoring, steps that a scorer overrides, and values that aggregations do not accept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lmeval_core::{Diagnose, Dialect, DocId, OutputType};
use lmeval_metrics::aggregation::Mean;
use lmeval_metrics::{AnyMetric, Metric, MetricInput, Number};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::filters::{FilterDocs, FilterSpec};
use lmeval_scoring::groups::Directions;
use lmeval_scoring::registry::{MetricEntry, ScorerEntry};
use lmeval_scoring::scorers::{
    Aggregated, AnsweredDocument, HostAggregation, HostMetric, MetricKey, MetricSpec, Needs, ReducedDoc,
    Reference, ScoreError, ScoredDoc, Scorer, ScorerSpec, ScoringSources, Setting, TaskCode, TaskFacts,
    build_scorer,
};
use lmeval_scoring::{Host, HostError};

use crate::scorers::{chosen, facts, function, generated, pipeline, scorer_of, scores, sources};

/// A metric that returns lists, and an aggregation that accepts them.
#[derive(Debug)]
struct Lists;

impl HostMetric for Lists {
    fn compute(&self, references: &Value, predictions: &Value, _: &Dict) -> Result<Value, HostError> {
        let right = references == predictions;
        let marks = if right { vec![Value::Int(1), Value::Int(0)] } else { vec![Value::Int(0)] };
        Ok(Value::from(marks))
    }
}

impl HostAggregation for Lists {
    fn aggregate(&self, values: &[Value]) -> Result<Value, HostError> {
        Ok(Value::from(repr(&Value::list(values.iter().cloned()))))
    }
}

impl TaskCode for Lists {
    fn process_results(&self, _: &Arc<Dict>, results: &[Value]) -> Result<Option<Dict>, HostError> {
        let lists = Value::list([Value::Int(results.len() as i64), Value::Int(7)]);
        Ok(Some(std::iter::once((Value::str("lists"), lists)).collect()))
    }

    fn needs(&self) -> Needs {
        Needs { documents: true, ..Needs::NOTHING }
    }
}

impl Host for Lists {
    fn metric(&self, _: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(Arc::new(Lists))
    }

    fn aggregation(&self, _: &Arc<Function>) -> Result<Arc<dyn HostAggregation>, HostError> {
        Ok(Arc::new(Lists))
    }

    fn process_results(&self, _: &Arc<Function>) -> Result<Arc<dyn TaskCode>, HostError> {
        Ok(Arc::new(Lists))
    }
}

fn host_metric() -> MetricSpec {
    MetricSpec { metric: Reference::Function(function("utils.lists")), ..MetricSpec::named("") }
}

/// The length of the prompt, as a Rust metric.
fn prompt_length() -> Arc<dyn AnyMetric> {
    Arc::new(Metric::new("prompt_length", &[OutputType::MultipleChoice], Mean, |_| {
        Ok(Box::new(|input: MetricInput<'_>| Ok(vec![Number::Int(input.likelihood()?.1.ctx.len() as i64)])))
    }))
}

#[test]
fn needs_include_everything_that_is_read() {
    let mut sources = ScoringSources { host: Arc::new(Lists), ..sources() };
    sources.registry.register(MetricEntry::new(prompt_length())).unwrap();
    sources.registry.register(ScorerEntry::new("steps", |_| Ok(Arc::new(Steps)))).unwrap();
    let together = Needs { together: true, ..Needs::NOTHING };
    let documents = Needs { documents: true, ..together };
    let prompts = Needs { prompts: true, ..Needs::NOTHING };
    let (choice, text) = (OutputType::MultipleChoice, OutputType::GenerateUntil);
    for (output_type, filters, metrics, expected) in [
        (choice, vec![], vec![], Needs::NOTHING),
        (choice, vec![FilterSpec::named("take_first")], vec![MetricSpec::named("acc_norm")], Needs::NOTHING),
        (text, vec![FilterSpec::named("regex")], vec![MetricSpec::named("bleu")], Needs::NOTHING),
        (text, vec![FilterSpec::named("multi_choice_regex")], vec![], documents),
        // Functions get prompts only as part of log-likelihoods.
        (text, vec![], vec![host_metric()], together),
        (choice, vec![], vec![MetricSpec::named("acc"), host_metric()], prompts | together),
        // The filter checks the very first request.
        (text, vec![FilterSpec::named("take_first_k").with("k", 1_i64)], vec![], together),
        // The metric does not declare that it ignores prompts.
        (choice, vec![], vec![MetricSpec::named("prompt_length")], prompts),
    ] {
        let spec = pipeline("none", &filters, &metrics);
        let built = build_scorer(Some(&spec), facts(output_type), &sources).unwrap();
        assert_eq!(built.needs(), expected, "{filters:?} {metrics:?}");
        let code = sources.host.process_results(&function("utils.process")).unwrap();
        let scorer = scorer_of(vec![built], output_type).with_code(Some(code));
        assert_eq!(scorer.needs(), expected | documents);
    }
    let own = ScorerSpec { kind: "steps".to_owned(), kwargs: Dict::new() };
    let built = build_scorer(None, TaskFacts { scorer: Some(&own), ..facts(text) }, &sources).unwrap();
    assert_eq!(built.needs(), Needs::EVERYTHING);
    let named = ScorerSpec { kind: "first_token".to_owned(), kwargs: Dict::new() };
    let built = build_scorer(None, TaskFacts { scorer: Some(&named), ..facts(text) }, &sources).unwrap();
    assert_eq!(built.needs(), Needs::NOTHING);
    let spec = pipeline("none", &[], &[MetricSpec::named("prompt_length")]);
    let built = build_scorer(Some(&spec), facts(choice), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], choice);
    scorer.score(&[chosen(0, &Value::Int(0), &[("a", -1.0, true), ("b", -2.0, false)])]).unwrap();
    assert_eq!(scores(&scorer), "prompt_length,none=1.0");
}

/// A Rust scorer that overrides every step.
#[derive(Debug)]
struct Steps;

impl Scorer for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        Some(vec![MetricSpec::named("exact_match")])
    }

    fn apply_filter(
        &self,
        documents: &[AnsweredDocument],
        _: OutputType,
    ) -> Result<Option<Vec<Value>>, ScoreError> {
        let answers = documents.iter().flat_map(|document| &document.answers);
        Ok(Some(answers.map(|answer| Value::list([answer.responses[0].clone()])).collect()))
    }

    fn reduce(&self, scored: &[ScoredDoc]) -> Result<Option<Vec<ReducedDoc>>, ScoreError> {
        let reduced = scored.iter().map(|scored| ReducedDoc {
            doc_id: scored.doc_id,
            values: [("right", scored.scores.get("exact_match").unwrap()[0].clone())].into_iter().collect(),
        });
        Ok(Some(reduced.collect()))
    }

    fn aggregate(
        &self,
        reduced: &[ReducedDoc],
        bootstrap_iters: i64,
    ) -> Result<Option<Aggregated>, ScoreError> {
        let total: i64 = reduced.iter().filter_map(|one| one.values.get("right")?.as_i64()).sum();
        let metrics = vec![(MetricKey::new("total", "steps"), Value::Int(total + bootstrap_iters))];
        Ok(Some(Aggregated { metrics, sample_len: reduced.len(), ..Aggregated::default() }))
    }

    fn higher_is_better(&self, reduced: &[ReducedDoc]) -> Result<Option<Directions>, ScoreError> {
        assert_eq!(reduced.len(), 2);
        Ok(Some([("total", Some(false))].into_iter().collect()))
    }
}

#[test]
fn scorer_overrides_steps() {
    let mut sources = sources();
    sources.registry.register(ScorerEntry::new("steps", |_| Ok(Arc::new(Steps)))).unwrap();
    let spec = ScorerSpec { kind: "steps".to_owned(), kwargs: Dict::new() };
    let facts = TaskFacts { scorer: Some(&spec), ..facts(OutputType::GenerateUntil) };
    let built = build_scorer(None, facts, &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    let documents = [generated(0, "a", &["a", "x"]), generated(3, "a", &["b", "a"])];
    scorer.score(&documents).unwrap();
    assert_eq!(scorer.pipelines()[0].filtered(1), [vec![Value::str("b")]]);
    assert_eq!(scores(&scorer), "total,steps=1");
    assert_eq!(repr(&scorer.aggregate(5).unwrap().metrics[0].1), "6");
    assert_eq!(scorer.higher_is_better().get("total"), Some(&Some(false)));
}

#[test]
fn keeps_lists_for_one_answer() {
    let documents = [generated(0, "a", &["a"]), generated(4, "a", &["b"])];
    let score = |dialect: Dialect, aggregation: Setting<Reference>| {
        let sources = ScoringSources { host: Arc::new(Lists), ..ScoringSources::new(&dialect) };
        let spec = pipeline("none", &[], &[MetricSpec { aggregation, ..host_metric() }]);
        let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
        let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
        scorer.score(&documents).unwrap();
        scorer.aggregate(0).map(|aggregated| repr(&aggregated.metrics[0].1))
    };
    let own = || Setting::Given(Reference::Function(function("utils.all")));
    for dialect in [Dialect::V05, Dialect::V04] {
        assert_eq!(score(dialect, own()).unwrap(), "'[[1, 0], [0]]'");
        let error = score(dialect, Setting::Given("mean".into())).unwrap_err();
        assert!(matches!(&error, ScoreError::AggregationValue { document: DocId(0), .. }), "{error:?}");
        let expected = "The aggregation `mean` of `lists` does not accept the value of document 0";
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.hints().len(), 1);
    }
    // This aggregation accepts pairs; the other document does not have one.
    let error = score(Dialect::V05, Setting::Given("weighted_mean".into())).unwrap_err();
    assert!(matches!(&error, ScoreError::AggregationValue { document: DocId(4), .. }), "{error:?}");
}

#[test]
fn process_results_lists_are_per_answer_or_one_value() {
    let sources = ScoringSources { host: Arc::new(Lists), ..sources() };
    let spec = pipeline("none", &[], &[MetricSpec::named("lists").with_reduction("mean")]);
    let build = || {
        let facts = TaskFacts { scores_itself: true, ..facts(OutputType::GenerateUntil) };
        let built = build_scorer(Some(&spec), facts, &sources).unwrap();
        let code = sources.host.process_results(&function("utils.process")).unwrap();
        scorer_of(vec![built], OutputType::GenerateUntil).with_code(Some(code))
    };
    let mut scorer = build();
    scorer.score(&[generated(0, "a", &["a", "b"])]).unwrap();
    assert_eq!(scores(&scorer), "lists,none=4.5");
    let mut scorer = build();
    scorer.score(&[generated(0, "a", &["a"])]).unwrap();
    let error = scorer.aggregate(0).unwrap_err();
    assert!(matches!(error, ScoreError::AggregationValue { document: DocId(0), .. }), "{error:?}");
}

#[test]
fn first_document_reveals_unsupported_values() {
    let sources = ScoringSources { host: Arc::new(Lists), ..sources() };
    for (metric, is_fine) in [
        (host_metric().with_aggregation("mean"), false),
        (host_metric().with_aggregation("weighted_mean"), true),
        (MetricSpec::named("exact_match"), true),
    ] {
        let spec = pipeline("none", &[], std::slice::from_ref(&metric));
        let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
        let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
        assert_eq!(scorer.check_first(&generated(0, "a", &["a"])).is_ok(), is_fine, "{metric:?}");
    }
}

/// Counts the calls of its metric and its filter; the metric fails on the answer `fail`.
#[derive(Clone, Debug, Default)]
struct Counted {
    metric: Arc<AtomicUsize>,
    filter: Arc<AtomicUsize>,
}

impl HostMetric for Counted {
    fn compute(&self, _: &Value, predictions: &Value, _: &Dict) -> Result<Value, HostError> {
        self.metric.fetch_add(1, Ordering::Relaxed);
        if predictions.as_list() == Some(&[Value::str("fail")]) {
            let (function, message) = ("utils.judge".to_owned(), "no answer in time".to_owned());
            return Err(HostError::Failed { function, message, traceback: None, hint: None });
        }
        Ok(Value::Float(1.0))
    }
}

impl Host for Counted {
    fn metric(&self, _: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(Arc::new(self.clone()))
    }

    fn call_filter(
        &self,
        _: &Function,
        responses: Vec<Value>,
        _: &FilterDocs<'_>,
    ) -> Result<Vec<Value>, HostError> {
        self.filter.fetch_add(1, Ordering::Relaxed);
        Ok(responses)
    }

    fn check_filter(&self, _: &Function) -> Result<(), HostError> {
        Ok(())
    }
}

#[test]
fn checking_first_document_calls_nothing_twice() {
    let own = FilterSpec::named("custom").with("filter_fn", Value::Function(function("utils.own")));
    let filters = [vec![], vec![FilterSpec::named("lowercase")], vec![own]];
    for (filters, calls_when_checked) in filters.into_iter().zip([1, 1, 0]) {
        let counted = Counted::default();
        let sources = ScoringSources { host: Arc::new(counted.clone()), ..sources() };
        let spec = pipeline("none", &filters, &[host_metric().with_aggregation("mean")]);
        let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
        let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
        let documents = [generated(0, "a", &["a"]), generated(1, "b", &["b"]), generated(2, "c", &["c"])];
        // The first document to be answered need not be the first of the split.
        scorer.check_first(&documents[1]).unwrap();
        assert_eq!(counted.metric.load(Ordering::Relaxed), calls_when_checked, "{filters:?}");
        assert_eq!(counted.filter.load(Ordering::Relaxed), 0, "{filters:?}");
        scorer.score(&documents).unwrap();
        assert_eq!(scores(&scorer), "lists,none=1.0");
        assert_eq!(counted.metric.load(Ordering::Relaxed), 3, "{filters:?}");
        assert!(counted.filter.load(Ordering::Relaxed) <= 1, "{filters:?}");
    }
}

#[test]
fn reports_failure_on_first_document() {
    let sources = ScoringSources { host: Arc::new(Counted::default()), ..sources() };
    let spec = pipeline("none", &[], &[host_metric().with_aggregation("mean")]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    let error = scorer.check_first(&generated(4, "a", &["fail"])).unwrap_err();
    assert!(matches!(error, ScoreError::HostOnDocument { document: DocId(4), .. }), "{error:?}");
}
