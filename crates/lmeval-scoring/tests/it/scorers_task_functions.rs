//! Scorers whose metrics, aggregations or `process_results` are task functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lmeval_core::{DocId, OutputType};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::groups::Directions;
use lmeval_scoring::scorers::{
    HostAggregation, HostMetric, MetricSpec, Reference, ScoreError, ScoringSources, Setting, TaskCode,
    TaskFacts, build_scorer,
};
use lmeval_scoring::{Host, HostError};

use crate::scorers::{facts, function, generated, pipeline, scorer_of, scores, sources};

/// Scoring functions of a task, without Python.
#[derive(Debug)]
struct FlagsHost;

#[derive(Debug)]
struct Code;

#[derive(Debug)]
struct Flatten;

impl HostAggregation for Flatten {
    fn aggregate(&self, values: &[Value]) -> Result<Value, HostError> {
        let flat: Vec<f64> =
            values.iter().flat_map(|value| value.as_list().unwrap()).filter_map(Value::to_f64).collect();
        Ok(Value::Float(flat.iter().sum::<f64>() / flat.len() as f64))
    }
}

/// Fails on one document and counts its calls.
#[derive(Debug, Default)]
struct Failing(AtomicUsize);

impl HostMetric for Failing {
    fn compute(&self, references: &Value, predictions: &Value, _: &Dict) -> Result<Value, HostError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if references != predictions {
            return Err(HostError::needs_python(&function("utils.failing")));
        }
        Ok(Value::Int(1))
    }
}

#[derive(Debug)]
struct FailingHost(Arc<Failing>);

impl Host for FailingHost {
    fn metric(&self, _: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(self.0.clone())
    }
}

#[test]
fn stops_calling_a_failed_function() {
    let metric = Arc::new(Failing::default());
    let sources = ScoringSources { host: Arc::new(FailingHost(Arc::clone(&metric))), ..sources() };
    let failing = MetricSpec {
        metric: Reference::Function(function("utils.failing")),
        ..MetricSpec::named("failing").with_aggregation("mean")
    };
    let spec = pipeline("none", &[], &[failing]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    let documents = [generated(0, "a", &["a"]), generated(7, "a", &["b"]), generated(8, "a", &["a"])];
    let error = scorer.score(&documents).unwrap_err();
    assert!(matches!(error, ScoreError::HostOnDocument { document: DocId(7), .. }), "{error}");
    assert_eq!(metric.0.load(Ordering::Relaxed), 2);
}

#[derive(Debug)]
struct Halves;

impl HostMetric for Halves {
    fn compute(&self, references: &Value, predictions: &Value, _: &Dict) -> Result<Value, HostError> {
        assert_eq!((references.as_list().unwrap().len(), predictions.as_list().unwrap().len()), (1, 1));
        Ok(Value::dict([("half", Value::Float(0.5)), ("whole", Value::Int(1))]))
    }
}

impl TaskCode for Code {
    fn process_results(&self, document: &Arc<Dict>, results: &[Value]) -> Result<Option<Dict>, HostError> {
        let id = document.get_str("id").and_then(Value::as_i64).unwrap();
        let entries = match id {
            0 => vec![("flags", Value::list([1, 0, 1].map(Value::Int))), ("only_first", Value::Int(7))],
            5 => vec![("unlisted", Value::list([4, 5, 6].map(Value::Int)))],
            100 => return Ok(None),
            _ => vec![("flags", Value::list([1, 0, 1].map(Value::Int)))],
        };
        let mut values: Dict = entries.into_iter().map(|(key, value)| (Value::str(key), value)).collect();
        values.insert("count", results.len() as i64);
        Ok(Some(values))
    }

    fn higher_is_better(&self) -> Option<Directions> {
        None
    }
}

impl Host for FlagsHost {
    fn metric(&self, _: &Arc<Function>) -> Result<Arc<dyn HostMetric>, HostError> {
        Ok(Arc::new(Halves))
    }

    fn aggregation(&self, _: &Arc<Function>) -> Result<Arc<dyn HostAggregation>, HostError> {
        Ok(Arc::new(Flatten))
    }

    fn process_results(&self, _: &Arc<Function>) -> Result<Arc<dyn TaskCode>, HostError> {
        Ok(Arc::new(Code))
    }
}

#[test]
fn process_results_replaces_metrics() {
    let sources = ScoringSources { host: Arc::new(FlagsHost), ..sources() };
    let flags = MetricSpec {
        aggregation: Setting::Given(Reference::Function(function("utils.flatten"))),
        ..MetricSpec::named("flags")
    };
    let spec = pipeline("none", &[], &[flags]);
    let build = || {
        let facts = TaskFacts { scores_itself: true, ..facts(OutputType::GenerateUntil) };
        build_scorer(Some(&spec), facts, &sources).unwrap()
    };
    let code = sources.host.process_results(&function("utils.process")).unwrap();
    let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil).with_code(Some(code.clone()));
    scorer.score(&[generated(0, "a", &["a"]), generated(1, "a", &["b"])]).unwrap();
    // The task aggregates the list as one value; each metric covers the documents that have it.
    assert_eq!(scores(&scorer), "flags,none=0.6666666666666666 only_first,none=7.0 count,none=1.0");
    let aggregated = scorer.aggregate(200).unwrap();
    assert_eq!(aggregated.sample_len, 2);
    assert!(aggregated.metrics[1].1.to_f64().unwrap() < 1e-12);
    assert_eq!(repr(&aggregated.metrics[3].1), "'N/A'");
    // With several answers, a list holds one value per answer, and `only_first` has no reduction.
    let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil).with_code(Some(code.clone()));
    scorer.score(&[generated(1, "a", &["a", "b", "c"])]).unwrap();
    assert_eq!(repr(scorer.pipelines()[0].reduced_docs()[0].values.get("flags").unwrap()), "1");
    // A name that `metric_list` does not have keeps its first value, with a warning.
    let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil).with_code(Some(code.clone()));
    scorer.score(&[generated(5, "a", &["a", "b", "c"])]).unwrap();
    assert_eq!(repr(scorer.pipelines()[0].reduced_docs()[0].values.get("unlisted").unwrap()), "4");
    let warnings = scorer.aggregate(0).unwrap().warnings.join("\n");
    assert!(
        warnings.contains("`unlisted` has several values per document and no reduction; using the first"),
        "{warnings}"
    );
    // Values for the first document only are an error; none for the first leave scoring to the metrics.
    let mut scorer = scorer_of(vec![build()], OutputType::GenerateUntil).with_code(Some(code.clone()));
    let error = scorer.score(&[generated(0, "a", &["a"]), generated(100, "a", &["b"])]).unwrap_err();
    assert!(matches!(error, ScoreError::NoValues { document: DocId(100) }));
    let plain = build_scorer(None, facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![plain], OutputType::GenerateUntil).with_code(Some(code));
    scorer.score(&[generated(100, "a", &["a"])]).unwrap();
    assert_eq!(scores(&scorer), "exact_match,none=1.0");
}

#[test]
fn task_functions_are_metrics() {
    let sources = ScoringSources { host: Arc::new(FlagsHost), ..sources() };
    let metric = MetricSpec {
        metric: Reference::Function(function("utils.halves")),
        higher_is_better: Setting::Given(false),
        ..MetricSpec::named("")
    };
    let spec = pipeline("none", &[], &[metric]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    scorer.score(&[generated(0, "a", &["a"])]).unwrap();
    assert_eq!(scores(&scorer), "half,none=0.5 whole,none=1.0");
    let directions = scorer.higher_is_better();
    assert_eq!(directions.get("half"), Some(&Some(false)));
    // The task's aggregation gets pairs if the metric does not support the output type.
    let pairs = MetricSpec {
        aggregation: Setting::Given(Reference::Function(function("utils.flatten"))),
        ..MetricSpec::named("f1")
    };
    let spec = pipeline("none", &[], &[pairs]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    scorer.score(&[generated(0, "a", &["b"])]).unwrap();
    assert_eq!(repr(scorer.pipelines()[0].reduced_docs()[0].values.get("f1").unwrap()), "['a', 'b']");
}

#[test]
fn unknown_metric_fails_when_used() {
    let spec = pipeline("none", &[], &[MetricSpec::named("no_such")]);
    let built = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources()).unwrap();
    let mut scorer = scorer_of(vec![built], OutputType::GenerateUntil);
    let error = scorer.score(&[generated(0, "a", &["a"])]).unwrap_err();
    assert!(matches!(error, ScoreError::NoFunction { .. }));
    let python = MetricSpec { metric: Reference::Function(function("utils.f")), ..MetricSpec::named("") };
    let spec = pipeline("none", &[], &[python]);
    let error = build_scorer(Some(&spec), facts(OutputType::GenerateUntil), &sources()).unwrap_err();
    assert_eq!(error.to_string(), "The function `utils.f` needs Python");
    let mut scorer = scorer_of(
        vec![build_scorer(None, facts(OutputType::MultipleChoice), &sources()).unwrap()],
        OutputType::MultipleChoice,
    );
    scorer.score(&[]).unwrap();
    assert_eq!(scorer.aggregate(10).unwrap().sample_len, 0);
}
