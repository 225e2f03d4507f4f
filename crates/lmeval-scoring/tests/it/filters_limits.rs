//! Filters with runaway patterns and with many answers.

use std::time::{Duration, Instant};

use lmeval_core::{Diagnose, DocId, MemoryDocuments};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::filters::{FilterContext, FilterDocs, FilterError, FilterSpec, Outcome, Responses};
use lmeval_scoring::registry::Registry;

fn run(steps: &[FilterSpec], responses: Responses, ids: &[DocId]) -> Result<Outcome, FilterError> {
    let last = ids.iter().map(|id| id.0).max().unwrap();
    let choices: Dict = [(Value::str("choices"), Value::list([Value::str("aa")]))].into_iter().collect();
    let documents = MemoryDocuments::new(vec![choices; last + 1]);
    let docs = FilterDocs::new(&documents, ids);
    let ensemble = Registry::default().filter_ensemble("x", steps, &FilterContext::default()).unwrap();
    ensemble.apply(responses, &docs).map_err(|error| *error.source)
}

/// A pattern that tries every way to split a string, and that the linear-time matcher does not support.
const RUNAWAY: &str = r"(a+)+\1$";

#[test]
fn runaway_pattern_hits_the_step_limit() {
    let runaway = Value::str(format!("{}!", "a".repeat(64)));
    let answers = vec![vec![Value::str("b")], vec![Value::str("fine"), runaway], vec![Value::str("c")]];
    let ids = [DocId(4), DocId(7), DocId(9)];
    let started = Instant::now();
    let step = FilterSpec::named("regex").with("regex_pattern", RUNAWAY);
    let error = run(&[step], answers, &ids).unwrap_err();
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
    assert_eq!(
        error.to_string(),
        format!(
            "The filter `regex` gave up on an answer to document 7: the pattern `{RUNAWAY}` takes too many steps"
        )
    );
    assert_eq!(error.hints().len(), 1);
}

#[test]
fn keeps_order_of_many_answers() {
    let count = 100_000;
    let ids: Vec<DocId> = (0..count).map(DocId).collect();
    let answers = (0..count).map(|number| {
        let text = if number % 10 == 3 { "no idea".to_owned() } else { format!("So it is\n#### {number}") };
        vec![Value::from(text), Value::str("#### 1")]
    });
    let steps = [FilterSpec::named("regex"), FilterSpec::named("take_first")];
    let outcome = run(&steps, answers.collect(), &ids).unwrap();
    for (number, answers) in outcome.responses.iter().enumerate() {
        let expected = if number % 10 == 3 { "[invalid]".to_owned() } else { number.to_string() };
        assert_eq!(answers, &[Value::from(expected)]);
    }
    assert_eq!(outcome.audits.len(), 1);
    assert_eq!((outcome.audits[0].step, outcome.audits[0].total()), (0, 10_000));
    assert_eq!(outcome.audits[0].fallbacks[2..5], [vec![], vec![0], vec![]]);
}
