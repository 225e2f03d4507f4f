//! Expressions without delimiters.

use lmeval_pycompat::Value;
use lmeval_template::{Environment, ErrorKind, Expression};

use crate::document;

fn expression(source: &str) -> Expression {
    Environment::new().compile_expression(source).unwrap()
}

#[test]
fn values_keep_their_types() {
    let variables = document(r#"{"acc": 0.5, "doc": {"choices": ["a", "b"]}, "name": "x"}"#);
    for (source, value) in [
        ("acc", Value::Float(0.5)),
        ("doc.choices[1]", Value::str("b")),
        ("doc.choices | length", Value::Int(2)),
        ("acc, name", Value::tuple([Value::Float(0.5), Value::str("x")])),
        ("{'a': {'b': 1}}.a.b", Value::Int(1)),
        ("'}}'", Value::str("}}")),
        ("name ~ 1 if acc < 1 else none", Value::str("x1")),
    ] {
        assert_eq!(expression(source).evaluate(&variables).unwrap(), Some(value), "{source}");
    }
}

#[test]
fn undefined_values_are_none_or_errors() {
    let variables = document(r#"{"doc": {"question": "Why?"}}"#);
    assert_eq!(expression("doc.answer").evaluate(&variables).unwrap(), None);
    assert!(expression("doc.answer is not defined").is_true(&variables).unwrap());
    for (source, range) in [("acc", 0..3), ("doc.answer", 0..10), ("1 + acc == 2", 0..7)] {
        let error = expression(source).is_true(&variables).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undefined, "{source}");
        assert_eq!((error.range(), error.line()), (Some(range), Some(1)), "{source}");
    }
    assert_eq!(expression("acc").is_true(&variables).unwrap_err().variable(), Some("acc"));
    assert_eq!(expression("acc > 0 and b").variables().iter().collect::<Vec<_>>(), ["acc", "b"]);
}

#[test]
fn mistakes_have_a_position() {
    for (source, message, start) in [
        ("", "Found the end of the expression instead of a value", 0),
        ("acc >", "Found the end of the expression instead of a value", 5),
        ("acc = 0", "Found `=` instead of an operator or the end of the expression", 4),
        ("acc }} {{ 1", "Found `}}` instead of an operator or the end of the expression", 4),
        ("(acc", "Found the end of the expression instead of `)`", 4),
        ("acc | uper", "Unknown filter `uper`", 6),
        ("'acc", "This string is not closed", 0),
    ] {
        let error = Environment::new().compile_expression(source).unwrap_err();
        assert_eq!(
            (error.message(), error.range().map(|range| range.start)),
            (message, Some(start)),
            "{source}"
        );
    }
}

#[test]
fn functions_and_generators_are_no_values() {
    let variables = document(r#"{"items": [1, 2]}"#);
    let error = expression("items | map('string')").evaluate(&variables).unwrap_err();
    assert!(error.hints()[0].contains("| list"), "{error}");
    let list = Value::list([Value::str("1"), Value::str("2")]);
    assert_eq!(expression("items | map('string') | list").evaluate(&variables).unwrap(), Some(list));
}
