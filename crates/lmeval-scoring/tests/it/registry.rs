//! The metadata in registry tables agrees with the code of each entry.

use lmeval_core::OutputType;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::registry::Registry;
use lmeval_scoring::scorers::{MetricSpec, PipelineSpec, ScoringSources, TaskFacts, build_scorer};

#[test]
fn metadata_agrees_with_code() {
    let registry = Registry::default();
    for entry in registry.metrics.iter() {
        let name = &entry.name;
        let Some(metric) = registry.metric(name) else {
            assert_eq!(name, "acc_all");
            continue;
        };
        assert_eq!(metric.higher_is_better(), entry.facts.higher_is_better, "{name}");
        for output_type in OutputType::ALL {
            let computed = metric.output_types().contains(&output_type);
            // Generation tasks pass pairs of target and answer to the aggregation.
            let as_pair = output_type == OutputType::GenerateUntil && ["f1", "mcc"].contains(&&**name);
            // Predict-only runs use it for every output type; tasks do not.
            let only_predicts = output_type == OutputType::LoglikelihoodRolling && name == "bypass";
            assert!(as_pair || only_predicts || computed == entry.fits(output_type), "{name} {output_type}");
        }
        let is_mean = metric.aggregation().is_mean();
        assert_eq!(is_mean, entry.facts.aggregation == Some("mean"), "{name}");
        let options: Dict =
            entry.options.known.iter().map(|option| (Value::str(&*option.name), Value::None)).collect();
        assert!(metric.bind(&options).is_ok(), "{name}");
        assert!(!entry.summary.is_empty(), "{name}");
    }
}

#[test]
fn resolves_names_of_a_task() {
    let sources = ScoringSources::new(&lmeval_core::Dialect::V05);
    let registry = Registry::default();
    for name in ["rouge1", "rouge2", "rougeL", "rougeLsum", "squad_exact_match", "squad_f1"] {
        assert!(!registry.metrics.find(name).unwrap().facts.needs_corpus);
        let facts = TaskFacts { output_type: OutputType::GenerateUntil, scorer: None, scores_itself: false };
        let metric = MetricSpec::named(name).with_reduction("pass_at_3").with("use_stemmer", true);
        let pipeline = PipelineSpec { metrics: vec![metric], ..PipelineSpec::new("none") };
        let built = build_scorer(Some(&pipeline), facts, &sources).unwrap();
        assert_eq!(&*built.metrics()[0].name, name);
    }
    let weighted = sources.registry.aggregation("weighted_mean").unwrap();
    let pair = |value: f64, weight: f64| Value::tuple([Value::Float(value), Value::Float(weight)]);
    let mean = weighted.aggregate(&[pair(1.0, 1.0), pair(0.0, 3.0)]).unwrap();
    assert_eq!(mean, lmeval_metrics::Number::Float(0.25));
    assert!(registry.aggregations.find("weighted_mean").is_ok());
    for name in ["maj@k", "maj@8", "pass^k", "pass^2", "avg@k", "avg@4", "pass@k", "pass_at_k", "pass_at_10"]
    {
        assert!(registry.reductions.find(name).is_ok() && sources.registry.reduction(name).is_ok(), "{name}");
    }
}
