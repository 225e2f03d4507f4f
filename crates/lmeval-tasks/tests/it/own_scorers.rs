//! Custom scorers as shown in `docs/scorers.md`. A test compares the page with the parts between the marks.

#![expect(unreachable_pub, clippy::unnecessary_literal_bound, reason = "written as in a user's library")]

use std::sync::Arc;

use lmeval_core::{Arguments, Context, Dialect, DocId, Instance, InstanceMetadata, RequestType};
use lmeval_pycompat::Value;
use lmeval_scoring::registry::{Registry, ScorerEntry};
use lmeval_scoring::scorers::{AnsweredDocument, AnsweredInstance, ScoringSources};
use lmeval_tasks::scoring::prepare_scoring;

use crate::prompt_support::task;

mod defaults_only {
    // [example]
    use lmeval_scoring::filters::FilterSpec;
    use lmeval_scoring::scorers::{MetricSpec, Scorer};

    #[derive(Debug)]
    pub struct LastNumber;

    impl Scorer for LastNumber {
        fn name(&self) -> &str {
            "last_number"
        }

        fn default_filters(&self) -> Option<Vec<FilterSpec>> {
            let last =
                FilterSpec::named("regex").with("regex_pattern", r"-?\d+").with("group_select", -1_i64);
            Some(vec![last])
        }

        fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
            Some(vec![MetricSpec::named("exact_match")])
        }
    }
    // [end]
}

mod per_document {
    // [example]
    use lmeval_pycompat::Value;
    use lmeval_scoring::scorers::{ScoreError, Scorer, Scores, ScoringInput};

    #[derive(Debug)]
    pub struct Closeness;

    impl Scorer for Closeness {
        fn name(&self) -> &str {
            "closeness"
        }

        fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
            let number = |value: &Value| value.as_str().and_then(|text| text.trim().parse::<f64>().ok());
            let target = number(input.reference()?);
            let values = input.predictions()?.iter().map(|answer| match (target, number(answer)) {
                (Some(target), Some(answer)) => Value::Float(1.0 / (1.0 + (target - answer).abs())),
                _ => Value::Float(0.0),
            });
            Ok([("closeness", values.collect())].into_iter().collect())
        }
    }
    // [end]
}

mod whole_batch {
    // [example]
    use lmeval_pycompat::Value;
    use lmeval_scoring::scorers::{ScoreError, ScoredDoc, Scorer, ScoringInput};

    #[derive(Debug)]
    pub struct Judge;

    impl Scorer for Judge {
        fn name(&self) -> &str {
            "verdict"
        }

        fn score_documents(&self, inputs: &[ScoringInput<'_>]) -> Result<Vec<ScoredDoc>, ScoreError> {
            let answers = inputs.iter().map(ScoringInput::predictions).collect::<Result<Vec<_>, _>>()?;
            let verdicts = ask_in_one_batch(&answers);
            let scored = inputs.iter().zip(verdicts).map(|(input, verdict)| {
                Ok(ScoredDoc {
                    doc_id: input.doc_id(),
                    reference: input.reference()?.clone(),
                    scores: [("verdict", vec![Value::Bool(verdict)])].into_iter().collect(),
                })
            });
            scored.collect()
        }
    }

    /// Stands for a model that judges.
    fn ask_in_one_batch(answers: &[&[Value]]) -> Vec<bool> {
        let polite = |text: &str| text.contains("please");
        answers.iter().map(|answers| answers[0].as_str().is_some_and(polite)).collect()
    }
    // [end]
}

fn sources() -> ScoringSources {
    use defaults_only::LastNumber;
    use per_document::Closeness;
    use whole_batch::Judge;
    // [example]
    let mut registry = Registry::default();
    registry.register(ScorerEntry::new("last_number", |_| Ok(Arc::new(LastNumber)))).unwrap();
    registry.register(ScorerEntry::new("closeness", |_| Ok(Arc::new(Closeness)))).unwrap();
    registry.register(ScorerEntry::new("verdict", |_| Ok(Arc::new(Judge)))).unwrap();
    // [end]
    ScoringSources::new(&Dialect::V05).with_registry(&registry)
}

fn answered(doc_id: usize, target: &str, answer: &str) -> AnsweredDocument {
    let instance = Instance {
        request_type: RequestType::GenerateUntil,
        task_name: "t".into(),
        doc_id: DocId(doc_id),
        idx: 0,
        repeats: 1,
        arguments: Arguments::Generate { context: Context::from("q"), kwargs: Arc::default() },
        target: Value::str(target),
        gold: Value::str(target),
        metadata: InstanceMetadata::default(),
        additional_args: None,
    };
    AnsweredDocument {
        doc_id: DocId(doc_id),
        document: Arc::default(),
        choices: None,
        answers: vec![AnsweredInstance::new(instance, vec![Value::str(answer)])],
        judgements: Vec::new(),
    }
}

#[test]
fn custom_scorers_score_as_documented() {
    let documents = [answered(0, "7", "3 and 4, please: 7"), answered(1, "7", "8")];
    for (rest, expected) in [
        ("scorer: last_number", "exact_match,none=0.5"),
        ("scorer: closeness\nmetric_list: [{metric: closeness, aggregation: mean}]", "closeness,none=0.25"),
        ("scorer: verdict", "verdict,none=0.5"),
    ] {
        let task = task(&format!("task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n{rest}\n"));
        let mut scorer = prepare_scoring(&task, &sources(), false).unwrap();
        scorer.score(&documents).unwrap();
        let (key, value) = &scorer.aggregate(0).unwrap().metrics[0];
        assert_eq!(format!("{key}={}", value.to_f64().unwrap()), expected);
    }
}
