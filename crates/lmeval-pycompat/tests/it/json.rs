//! `json.dumps` and `json.loads`.

use std::collections::HashMap;

use lmeval_pycompat::json::{Decoder, EncodeError, MAX_DEPTH, Options, dumps, loads};
use lmeval_pycompat::literal::literal_eval;
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};
use num_bigint::BigInt;
use proptest::prelude::*;

use crate::vectors::{get, items, python, text};

#[test]
fn parses_as_in_python() {
    let vectors = python("loads");
    let mut wordings = HashMap::new();
    for case in items(get(&vectors, "loads")) {
        let [source, shown, message] = items(case) else { panic!() };
        match loads(text(source)) {
            Ok(value) => assert_eq!(Some(repr(&value).as_str()), shown.as_str(), "{source:?}"),
            Err(error) => {
                let position =
                    format!("line {} column {} (char {})", error.line, error.column, error.position);
                let (theirs, wanted) = text(message).rsplit_once(": ").unwrap();
                assert_eq!(position, wanted, "{source:?}");
                // The wording is ours, but each of Python's messages corresponds to one of ours.
                let ours = *wordings.entry(theirs).or_insert(error.message);
                assert_eq!(error.message, ours, "{source:?}: {theirs}");
            }
        }
    }
    assert!(wordings.len() > 8);
}

#[test]
fn writes_as_in_python() {
    let vectors = python("dumps");
    for case in items(get(&vectors, "dumps")) {
        let [source, expected] = items(case) else { panic!() };
        let value = literal_eval(text(source)).unwrap();
        for (options, expected) in items(get(&vectors, "options")).iter().zip(items(expected)) {
            let flag = |name| options.as_dict().unwrap().get_str(name).and_then(Value::as_bool);
            let separators = options.as_dict().unwrap().get_str("separators").map(items);
            let indent = options.as_dict().unwrap().get_str("indent").and_then(Value::as_i64);
            let options = Options {
                ensure_ascii: flag("ensure_ascii").unwrap_or(true),
                indent: indent.map(|indent| usize::try_from(indent).unwrap()),
                separators: separators.map(|pair| (text(&pair[0]), text(&pair[1]))),
                sort_keys: flag("sort_keys").unwrap_or(false),
                allow_nan: flag("allow_nan").unwrap_or(true),
                skip_keys: flag("skipkeys").unwrap_or(false),
                default: None,
            };
            assert_eq!(dumps(&value, &options).ok().as_deref(), expected.as_str(), "{source:?}");
        }
    }
}

#[test]
fn hook_replaces_unsupported_values() {
    let value = Value::list([Value::set([Value::Int(1)]), Value::Bytes(b"x"[..].into())]);
    assert_eq!(dumps(&value, &Options::default()), Err(EncodeError::Type("set")));
    let default = |value: &Value| match value {
        Value::Set(items) => Some(Value::List(items.clone())),
        _ => None,
    };
    let options = Options { default: Some(&default), ..Options::default() };
    assert_eq!(dumps(&value, &options), Err(EncodeError::Type("bytes")));
    assert_eq!(dumps(&items(&value)[0], &options).unwrap(), "[1]");
    // A hook that returns an unsupported value forever ends in an error.
    let same = |value: &Value| Some(value.clone());
    let options = Options { default: Some(&same), ..Options::default() };
    assert_eq!(dumps(&value, &options), Err(EncodeError::Depth));
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = loads(&nested(MAX_DEPTH)).unwrap();
    assert_eq!(dumps(&deepest, &Options::default()).unwrap(), nested(MAX_DEPTH));
    assert_eq!(repr(&deepest), nested(MAX_DEPTH));
    assert!(loads(&nested(MAX_DEPTH + 1)).is_err());
    assert!(loads(&"[".repeat(1_000_000)).is_err());
    assert!(loads(&"{\"a\":".repeat(1_000_000)).is_err());
    let too_deep = Value::list([Value::list([deepest])]);
    assert_eq!(dumps(&too_deep, &Options::default()), Err(EncodeError::Depth));
}

#[test]
fn decoder_shares_keys() {
    let mut decoder = Decoder::new();
    let keys: Vec<String> = (0..500).map(|index| format!("key {index}")).collect();
    for _ in 0..2 {
        for key in &keys {
            let value = decoder.decode(&format!("{{\"{key}\": \"{key}\", \"\\u0061\": 1}}")).unwrap();
            assert_eq!(get(&value, key), &Value::str(key.as_str()));
            assert_eq!(get(&value, "a"), &Value::Int(1));
        }
    }
}

#[test]
fn long_integers_are_rejected_as_in_python() {
    assert!(loads(&"9".repeat(4300)).is_ok());
    assert!(loads(&"9".repeat(4301)).is_err());
    assert!(loads(&format!("-{}", "9".repeat(4301))).is_err());
}

/// Values that survive a round trip: the types of JSON, without NaN, which does not equal itself.
pub(crate) fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i128>().prop_map(|number| Value::from_bigint(BigInt::from(number))),
        any::<f64>()
            .prop_filter("NaN does not equal itself", |number| !number.is_nan())
            .prop_map(Value::Float),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6).prop_map(|entries| {
                Value::from(entries.into_iter().map(|(key, value)| (key.into(), value)).collect::<Dict>())
            }),
        ]
    })
}

/// Equality including types; `==` alone treats 1 and 1.0 as equal.
fn same(left: &Value, right: &Value) -> bool {
    repr(left) == repr(right)
}

proptest! {
    #[test]
    fn values_round_trip(value in values(), ensure_ascii in any::<bool>(), indent in prop::option::of(0_usize..4)) {
        let options = Options { ensure_ascii, indent, ..Options::default() };
        let written = dumps(&value, &options).unwrap();
        prop_assert!(same(&loads(&written).unwrap(), &value));
        prop_assert_eq!(written.is_ascii() || !ensure_ascii, true);
    }

    #[test]
    fn serde_json_reads_the_same_value(value in values()) {
        let options = Options { allow_nan: false, ..Options::default() };
        if let Ok(written) = dumps(&value, &options) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok());
        }
    }

    #[test]
    fn parsing_never_panics(text in "[\\[\\]{}\",:0-9eE+\\-. \\\\u\nd8añN\u{1}\u{1f600}truefalsn]{0,40}") {
        let _ = loads(&text);
    }

    #[test]
    fn parsing_any_string_never_panics(text in any::<String>()) {
        let _ = loads(&text);
    }
}
