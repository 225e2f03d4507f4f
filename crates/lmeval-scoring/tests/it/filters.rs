//! Filters compared with recordings of the reference.

use lmeval_core::{DocId, MemoryDocuments};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::filters::{FilterContext, FilterDocs, FilterSpec, Responses};
use lmeval_scoring::registry::Registry;

const RECORDED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/units/filters.json"));

fn field<'a>(case: &'a Value, name: &str) -> &'a [Value] {
    case.as_dict().unwrap().get_str(name).unwrap().as_list().unwrap()
}

fn documents(case: &Value) -> Vec<Dict> {
    field(case, "docs").iter().map(|document| document.as_dict().unwrap().clone()).collect()
}

fn responses(values: &[Value]) -> Responses {
    values.iter().map(|answers| answers.as_list().unwrap().to_vec()).collect()
}

#[test]
fn match_recordings() {
    let cases = json::loads(RECORDED).unwrap();
    let cases = cases.as_list().unwrap();
    assert_eq!(cases.len(), 84);
    for (number, case) in cases.iter().enumerate() {
        let steps: Vec<FilterSpec> =
            field(case, "filters").iter().map(|step| FilterSpec::from_value(step).unwrap()).collect();
        let ensemble =
            Registry::default().filter_ensemble("recorded", &steps, &FilterContext::default()).unwrap();
        let documents = documents(case);
        let ids: Vec<DocId> = (0..documents.len()).map(DocId).collect();
        let documents = MemoryDocuments::new(documents);
        let docs = FilterDocs::new(&documents, &ids);
        let outcome = ensemble.apply(responses(field(case, "resps")), &docs).unwrap();
        let expected = responses(field(case, "out"));
        // Numbers of different types may be equal in Python, so compare the debug output as well.
        assert_eq!(format!("{:?}", outcome.responses), format!("{expected:?}"), "case {number}: {steps:?}");
        assert_eq!(outcome.responses, expected, "case {number}");
    }
}
