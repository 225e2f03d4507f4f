//! Filters compared with the reference harness on random answers.

use std::process::Command;

use lmeval_core::{Dialect, DocId, MemoryDocuments};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::filters::{FilterContext, FilterDocs, FilterSpec};
use lmeval_scoring::registry::Registry;
use lmeval_testkit::test_environment;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/filters_reference.py");
const CASES: &str = "10000";

/// A fixed seed, so that every run sees the same answers; override it to explore others.
fn seed() -> String {
    std::env::var("LM_EVAL_TEST_SEED").unwrap_or_else(|_| "20".to_owned())
}

/// The result of a case, or `None` for an error.
fn filter(case: &Dict, dialect: Dialect) -> Result<Value, String> {
    let list = |name| case.get_str(name).and_then(Value::as_list).unwrap();
    let steps: Vec<FilterSpec> =
        list("steps").iter().map(|step| FilterSpec::from_value(step).unwrap()).collect();
    let documents: Vec<Dict> =
        list("docs").iter().map(|document| document.as_dict().unwrap().clone()).collect();
    let responses = list("responses").iter().map(|answers| answers.as_list().unwrap().to_vec()).collect();
    let ids: Vec<DocId> = (0..documents.len()).map(DocId).collect();
    let context = FilterContext { dialect, ..FilterContext::default() };
    let documents = MemoryDocuments::new(documents);
    let outcome = Registry::default()
        .filter_ensemble("random", &steps, &context)
        .and_then(|ensemble| ensemble.apply(responses, &FilterDocs::new(&documents, &ids)))
        .map_err(|error| error.source.to_string())?;
    Ok(if outcome.bare {
        Value::list(outcome.responses.into_iter().flatten())
    } else {
        Value::list(outcome.responses.into_iter().map(Value::from))
    })
}

fn compare(dialect: Dialect) {
    let Some(python) = test_environment() else { return };
    let seed = seed();
    let output = Command::new(python).args([SCRIPT, &seed, CASES, dialect.name]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut errors = 0;
    for line in lines.lines() {
        let case = json::loads(line).unwrap();
        let case = case.as_dict().unwrap();
        let filtered = filter(case, dialect);
        match case.get_str("out") {
            Some(expected) => {
                let same =
                    filtered.as_ref().is_ok_and(|found| format!("{found:?}") == format!("{expected:?}"));
                assert!(same, "seed {seed}: {line}\n{filtered:?}");
            }
            None => {
                errors += 1;
                assert!(filtered.is_err(), "seed {seed}: {line}\n{filtered:?}");
            }
        }
    }
    assert_eq!(lines.lines().count().to_string(), CASES);
    assert!(errors < 4000, "{errors} of {CASES} cases are errors");
}

#[test]
fn agree_with_reference_in_dialect_0_4() {
    compare(Dialect::V04);
}

#[test]
fn agree_with_reference_in_dialect_0_5() {
    compare(Dialect::V05);
}
