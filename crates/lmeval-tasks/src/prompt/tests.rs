//! Recorded fields, and the rules of coercion.

use std::sync::Arc;

use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::{Host, NoHost};

use super::coerce::{coerce_list, coerce_target, item_at, resolve_index};
use super::field::{PromptField, Resolution};
use crate::config::Field;

fn resolve(spec: &Value, document: &Arc<Dict>) -> Result<Value, String> {
    if spec.is_none() {
        return Ok(Value::None);
    }
    let host: Arc<dyn Host> = Arc::new(NoHost);
    let field = Field::from_value(spec).ok_or("not a field")?;
    let field = PromptField::new("doc_to_text", &field, &host);
    let rules = Resolution { columns: None, list_elements_are_templates: true };
    field.resolve(document, &rules).map(|resolved| resolved.value).map_err(|error| error.to_string())
}

#[test]
fn resolves_fields_as_recorded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/units/fields.json");
    let recorded = json::loads(&fs_err::read_to_string(path).unwrap()).unwrap();
    let get = |value: &Value, key: &str| value.as_dict().unwrap().get_str(key).cloned().unwrap_or_default();
    let Value::Dict(document) = get(&recorded, "doc") else { panic!("no document") };
    let cases = get(&recorded, "cases");
    for case in cases.as_list().unwrap() {
        let spec = get(case, "spec");
        let resolved = resolve(&spec, &document);
        let forms = [
            ("resolved", resolved.clone()),
            ("as_choice", resolved.clone().map(coerce_list)),
            ("as_target", resolved.clone().and_then(|value| typed(value, false))),
            ("as_target_list", resolved.and_then(|value| typed(value, true))),
        ];
        for (form, ours) in forms {
            let theirs = get(case, form);
            match theirs.as_dict().unwrap().get_str("out") {
                Some(out) => assert_eq!(ours.as_ref().map(repr), Ok(repr(out)), "{form} of {spec:?}"),
                None => assert!(ours.is_err(), "{form} of {spec:?} must fail, not be {ours:?}"),
            }
        }
    }
    assert!(cases.as_list().unwrap().len() >= 18);
}

fn typed(value: Value, multiple_targets: bool) -> Result<Value, String> {
    coerce_target(value, multiple_targets).map_err(|error| error.to_string())
}

#[test]
fn coerces_lists_only_without_surrounding_whitespace() {
    let coerced = |text: &str| repr(&coerce_list(Value::str(text)));
    assert_eq!(
        coerced("['x', \"y\" 'z', -1, None, (1,), {'a': {2}},]"),
        "['x', 'yz', -1, None, (1,), {'a': {2}}]"
    );
    assert_eq!(coerced("[\n1,\n2\n]"), "[1, 2]");
    for text in ["['x','y']\n", " ['x']", "[a]", "[nan]", "[1+2]", "('x',)", "[1], [2]", "[", "]", ""] {
        assert_eq!(coerced(text), repr(&Value::str(text)));
    }
}

#[test]
fn converts_digits_to_numbers() {
    let coerced = |text: &str, multiple| typed(Value::str(text), multiple).map(|value| repr(&value));
    assert_eq!(coerced("05", false), Ok("5".into()));
    assert_eq!(coerced("٣", false), Ok("3".into()));
    assert!(coerced("²", false).is_err());
    assert!(coerced("①", true).is_err());
    for text in ["-5", "5.0", " 5", "5\n", "", "[1]"] {
        assert_eq!(coerced(text, false), Ok(repr(&Value::str(text))));
    }
    assert_eq!(coerced("[1, 'a']", true), Ok("[1, 'a']".into()));
    assert_eq!(coerced("7", true), Ok("7".into()));
}

#[test]
fn finds_targets_among_options() {
    let options: Vec<Value> = ["1", "2", "3"].map(Value::str).to_vec();
    let index = |target: Value| repr(&resolve_index(&target, &options));
    assert_eq!(index(Value::Int(2)), "2");
    assert_eq!(index(Value::Int(3)), "None");
    assert_eq!(index(Value::Int(-1)), "-1");
    assert_eq!(index(Value::Float(1.9)), "1");
    assert_eq!(index(Value::Float(f64::NAN)), "None");
    assert_eq!(index(Value::Bool(true)), "1");
    assert_eq!(index(Value::str("2")), "1");
    assert_eq!(index(Value::str("4")), "None");
    assert_eq!(index(Value::None), "None");
    assert_eq!(index(Value::list([Value::str("3"), Value::Int(9), Value::Int(0)])), "[2, 0]");
    assert_eq!(index(Value::list([Value::Int(9)])), "None");
    // Digits are read as an index first, then as an option.
    assert_eq!(index(typed(Value::str("2"), false).unwrap()), "2");
    assert_eq!(item_at(&options, -1).unwrap(), &Value::str("3"));
    assert!(item_at(&options, 3).is_err());
    assert!(item_at(&options, -4).is_err());
}
