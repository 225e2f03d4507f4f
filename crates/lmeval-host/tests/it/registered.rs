//! Names registered by Python code.

use std::sync::Arc;
use std::time::Instant;

use lmeval_pycompat::random::Random;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::Host;
use lmeval_scoring::registry::{NameLookup, NameScope, Registered};
use lmeval_scoring::scorers::HostAggregation;

use crate::support::{Folder, message_and_traceback};

const UTILS: &str = r#"
from lm_eval.api.metrics import mean
from lm_eval.api.registry import register_aggregation, register_filter, register_metric, register_scorer
from lm_eval.scorers import GenScorer

@register_aggregation("spread")
def spread(values):
    return max(values) - min(values) / 3

@register_metric(metric="own", output_type=["generate_until", "multiple_choice"], aggregation="spread", higher_is_better=False)
def own(references, predictions, **kwargs):
    return 1.0

@register_metric(metric="joint", reduction=lambda reference, values: values[-1], aggregation=mean)
def joint(references, predictions):
    return predictions.lls[references]

@register_filter("upper")
class Upper:
    def apply(self, resps, docs):
        return [[r.upper() for r in resp] for resp in resps]

@register_scorer("plain", "simple")
class Plain(GenScorer):
    default_filter_cfg = ["upper", Upper]
    default_metric_cfg = [{"metric": own, "option": 1}]
    def score(self, reference, predictions, metric_kwargs=None):
        return {"length": [len(p) for p in predictions]}
"#;

fn scope(folder: &Folder) -> NameScope {
    NameScope { folders: vec![folder.folder.path().to_string_lossy().into_owned()], import_utils: true }
}

fn found(folder: &Folder, kind: &str, name: &str) -> Registered {
    match folder.host.find_registered(kind, name, &scope(folder)).unwrap() {
        NameLookup::Found(registered) => registered,
        NameLookup::Unknown(known) => panic!("{kind} {name}: {known:?}"),
    }
}

#[test]
fn describes_registered_names() {
    let folder = Folder::new(UTILS);
    let own = found(&folder, "metric", "own");
    assert_eq!(own.function.reference, "registry:metric/own");
    assert_eq!(
        (own.text("aggregation"), own.facts.get_str("reduction")),
        (Some("spread"), Some(&Value::None))
    );
    assert_eq!(own.facts.get_str("higher_is_better"), Some(&Value::Bool(false)));
    assert_eq!(own.facts.get_str("output_type").and_then(Value::as_list).map(<[_]>::len), Some(2));
    let joint = found(&folder, "metric", "joint");
    // A built-in function is known by its name, one of the module by a reference.
    assert_eq!(joint.text("aggregation"), Some("mean"));
    let Some(Value::Function(reduction)) = joint.facts.get_str("reduction") else { panic!("{joint:?}") };
    let reduction = folder.host.reduction(reduction).unwrap();
    assert_eq!(reduction.reduce(&Value::None, &[Value::Int(1), Value::Int(2)]).unwrap(), Value::Int(2));
    let plain = found(&folder, "scorer", "simple");
    assert_eq!(plain.text("tier"), Some("document"));
    assert_eq!(plain.facts.get_str("filters").and_then(Value::as_list).map(<[_]>::len), Some(2));
    found(&folder, "filter", "upper");
    let NameLookup::Unknown(known) = folder.host.find_registered("metric", "owm", &scope(&folder)).unwrap()
    else {
        panic!("there is no such metric")
    };
    assert_eq!(known, ["own", "joint"]);
    // Names are local to their folder.
    let elsewhere = folder.host.find_registered("metric", "own", &NameScope::default()).unwrap();
    assert!(matches!(elsewhere, NameLookup::Unknown(known) if known.is_empty()));
    let strange = folder.host.find_registered("metric", "acc", &scope(&folder)).unwrap();
    assert!(matches!(strange, NameLookup::Unknown(_)), "built-in names are not registered in Python");
}

#[test]
fn passes_log_likelihoods_as_one_object() {
    let folder = Folder::new(UTILS);
    let metric = folder.host.metric(&found(&folder, "metric", "joint").function).unwrap();
    let list = |numbers: &[f64]| Value::list(numbers.iter().copied().map(Value::Float));
    let given = Value::dict([
        ("lls", list(&[-1.0, -2.5])),
        ("is_greedy", Value::list([Value::Bool(true), Value::Bool(false)])),
        ("targets", Value::Int(1)),
        ("ctx", Value::str("")),
        ("choices", Value::list([])),
        ("lls_mutual_info", list(&[])),
        ("metadata", Value::from(Dict::new())),
        ("option_texts", Value::list([])),
    ]);
    assert_eq!(metric.compute(&Value::Int(1), &given, &Dict::new()).unwrap(), Value::Float(-2.5));
    let mut calls = vec![(Value::Int(0), given); 200];
    assert_eq!(metric.compute_many(&calls, &Dict::new()).unwrap(), vec![Value::Float(-1.0); 200]);
    calls[150].0 = Value::Int(2);
    let (index, error) = metric.compute_many(&calls, &Dict::new()).unwrap_err();
    assert!(index == 150 && error.to_string().contains("IndexError"), "{index}: {error}");
}

/// The results of single calls for the draws of Python's generator.
fn one_by_one(
    aggregation: &Arc<dyn HostAggregation>,
    values: &[Value],
    seeds: usize,
    count: usize,
) -> Vec<Value> {
    let mut scores = Vec::new();
    for seed in 0..seeds {
        let mut random = Random::from_seed(seed as i64);
        for _ in 0..count {
            let drawn: Vec<Value> = (0..values.len())
                .map(|_| values[(random.random() * values.len() as f64) as usize].clone())
                .collect();
            scores.push(aggregation.aggregate(&drawn).unwrap());
        }
    }
    scores
}

#[test]
fn bootstrap_in_worker_equals_single_calls() {
    let folder = Folder::new(UTILS);
    let aggregation = folder.host.aggregation(&found(&folder, "aggregation", "spread").function).unwrap();
    let values: Vec<Value> = (0..17).map(|n| Value::Float(f64::from(n * n) / 7.0)).collect();
    let drawn = aggregation.resample(&values, 3, 40).unwrap().unwrap();
    assert_eq!(drawn, one_by_one(&aggregation, &values, 3, 40));
}

#[test]
fn a_hundred_thousand_draws_take_seconds() {
    let folder = Folder::new(UTILS);
    let aggregation = folder.host.aggregation(&found(&folder, "aggregation", "spread").function).unwrap();
    let values: Vec<Value> = (0..50).map(Value::Int).collect();
    let start = Instant::now();
    let drawn = aggregation.resample(&values, 100, 1000).unwrap().unwrap();
    println!("{} draws of 50 values in {:?}", drawn.len(), start.elapsed());
    assert_eq!(drawn.len(), 100_000);
    assert!(start.elapsed().as_secs() < 60);
}

#[test]
fn reports_failing_registration() {
    let folder =
        Folder::new("from lm_eval.api.registry import register_metric\nraise ValueError('broken')\n");
    let (message, traceback) =
        message_and_traceback(folder.host.find_registered("metric", "own", &scope(&folder)).unwrap_err());
    assert!(message.contains("ValueError: broken"), "{message}");
    assert!(traceback.contains("utils.py"));
}
