//! `ast.literal_eval`.

use lmeval_pycompat::literal::literal_eval;
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};
use proptest::prelude::*;

use crate::json::values;
use crate::vectors::{get, items, python, text};

#[test]
fn parses_as_in_python() {
    let vectors = python("literals");
    for case in items(get(&vectors, "literals")) {
        let [source, shown] = items(case) else { panic!() };
        let value = literal_eval(text(source)).ok().map(|value| repr(&value));
        assert_eq!(value.as_deref(), shown.as_str(), "{:?}", text(source));
    }
}

#[test]
fn unsupported_expressions_are_rejected() {
    for source in ["1j", "1+2j", "...", r"'\N{DIGIT ONE}'", "f''", "1 + 1", "x", "f(1)", "{*[1]}"] {
        assert!(literal_eval(source).is_err(), "{source}");
    }
}

#[test]
fn surrogates_are_replaced() {
    assert_eq!(literal_eval(r"'a\ud800b'").unwrap(), Value::str("a\u{fffd}b"));
}

#[test]
fn errors_have_positions() {
    let error = literal_eval("{'a': 1,\n 'é': x}").unwrap_err();
    assert_eq!((error.line, error.column), (2, 7));
    assert_eq!(error.to_string(), "Not a literal: `x`: line 2 column 7");
}

#[test]
fn unbounded_nesting_is_an_error() {
    for opening in ["[", "(", "{1:", "{", "-(", "(1,["] {
        assert!(literal_eval(&opening.repeat(100_000)).is_err());
    }
    assert!(literal_eval(&"-".repeat(100_000)).is_err());
}

/// Everything that a literal can contain, keys of all types included.
fn literals() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<String>().prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..6).prop_map(|bytes| Value::Bytes(bytes.into())),
        prop::collection::vec(any::<i64>().prop_map(Value::Int), 0..3).prop_map(Value::tuple),
    ];
    let finite = |value: &Value| !repr(value).contains("inf");
    let leaf = prop_oneof![key.clone(), values().prop_filter("no name", finite)];
    leaf.prop_recursive(3, 30, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::tuple),
            prop::collection::vec(key.clone(), 0..5).prop_map(Value::set),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|entries| Value::from(entries.into_iter().collect::<Dict>())),
        ]
    })
}

proptest! {
    #[test]
    fn values_round_trip(value in literals()) {
        let shown = repr(&value);
        prop_assert_eq!(repr(&literal_eval(&shown).unwrap()), shown);
    }

    #[test]
    fn parsing_never_panics(text in "[\\[\\](){}'\",:0-9eEjxob_+\\-. \\\\uUNrbf\n\r\t#añTrueNonest\u{1f600}]{0,40}") {
        let _ = literal_eval(&text);
    }

    #[test]
    fn parsing_any_string_never_panics(text in any::<String>()) {
        let _ = literal_eval(&text);
    }
}

#[test]
fn messages_stay_short() {
    for text in [
        "a".repeat(100_000),
        "1".repeat(100_000),
        "1".repeat(100_000) + "j",
        "0".repeat(9) + &"1".repeat(4000),
    ] {
        let error = literal_eval(&text).unwrap_err();
        assert!(error.message.len() < 200, "{} bytes", error.message.len());
    }
}
