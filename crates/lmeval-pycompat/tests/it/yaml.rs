//! YAML: recordings from PyYAML, locations, errors, limits, and properties.

use lmeval_pycompat::Value;
use lmeval_pycompat::yaml::{self, ErrorKind, Loader, Mark, Segment};
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::yaml_typed::typed;

const GOLDEN: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/units/yaml.json"));
const VECTORS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/yaml.json"));

fn with_functions() -> Loader {
    Loader::for_directory("/tasks/demo")
}

fn form(text: &str) -> Option<String> {
    with_functions().load(text).ok().map(|loaded| typed(&loaded.value))
}

fn error(text: &str) -> yaml::Error {
    yaml::load(text).map(|loaded| typed(&loaded.value)).expect_err(text)
}

/// Whether a value matches a recording: `__map__` has pairs, `__float__` and `__date__` have strings.
fn is_recorded(value: &Value, recorded: &Json) -> bool {
    match (value, recorded) {
        (Value::None, Json::Null) => true,
        (Value::Bool(truth), Json::Bool(expected)) => truth == expected,
        (Value::Int(number), Json::Number(expected)) => expected.as_i64() == Some(*number),
        (Value::Str(text), Json::String(expected)) => **text == **expected,
        (Value::List(items), Json::Array(expected)) => {
            items.len() == expected.len()
                && items.iter().zip(expected).all(|(item, expected)| is_recorded(item, expected))
        }
        (Value::Dict(dict), Json::Object(object)) => object["__map__"].as_array().is_some_and(|pairs| {
            dict.len() == pairs.len()
                && dict
                    .iter()
                    .zip(pairs)
                    .all(|((key, value), pair)| is_recorded(key, &pair[0]) && is_recorded(value, &pair[1]))
        }),
        (Value::Float(number), Json::Object(object)) => {
            let text = object["__float__"].as_str().expect("a float is recorded as a string");
            let expected: f64 = text.parse().expect("the string is a float");
            number.to_bits() == expected.to_bits() || (number.is_nan() && expected.is_nan())
        }
        (Value::Date(date), Json::Object(object)) => object["__date__"] == date.to_string(),
        (Value::DateTime(moment), Json::Object(object)) => object["__date__"] == moment.to_string(),
        _ => false,
    }
}

#[test]
fn matches_recordings() {
    let cases: Vec<Json> = serde_json::from_str(GOLDEN).unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let name = &case["name"];
        match (yaml::load(case["yaml"].as_str().unwrap()), case.get("out")) {
            (Ok(loaded), Some(recorded)) => {
                assert!(is_recorded(&loaded.value, recorded), "{name}: {}", typed(&loaded.value));
            }
            (Err(_), None) => assert!(case.get("error").is_some(), "{name}"),
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}

#[test]
fn random_documents_load_as_in_pyyaml() {
    let cases: Vec<(String, Option<String>)> = serde_json::from_str(VECTORS).unwrap();
    assert!(cases.len() > 3000);
    for (text, expected) in cases {
        assert_eq!(form(&text), expected, "{text:?}");
    }
}

#[test]
fn constructs_tags_and_merges() {
    for (text, expected) in [
        ("", "null"),
        ("---\n...\n", "null"),
        ("=: 1", r#"{"dict":[["=",1]]}"#),
        ("[!!str, a]", r#"["","a"]"#),
        ("! \"12\"", "12"),
        ("!<tag:yaml.org,2002:str> 12", "\"12\""),
        ("%TAG !y! tag:yaml.org,2002:\n---\n!y!str 12", "\"12\""),
        ("!!str {=: foo}", "\"foo\""),
        ("!!set {a, b, a}", r#"{"set":["a","b"]}"#),
        ("!!omap [a: 1, [b]: 2]", r#"[{"tuple":["a",1]},{"tuple":[["b"],2]}]"#),
        ("!!binary aGk=", r#"{"bytes":"6869"}"#),
        ("1: a\ntrue: b\n1.0: c", r#"{"dict":[[1,"c"]]}"#),
        ("- &a {x: 1, y: 2}\n- {y: 3, <<: *a}", r#"[{"dict":[["x",1],["y",2]]},{"dict":[["x",1],["y",3]]}]"#),
        ("{<<: [{a: 1, b: 1}, {b: 2, c: 2}], c: 3}", r#"{"dict":[["b",1],["c",3],["a",1]]}"#),
        ("a: |\n  text\n  no line end", r#"{"dict":[["a","text\nno line end"]]}"#),
        ("\u{feff}a: \"b\u{85}c\u{2028}d\"", r#"{"dict":[["a","b c\u2028d"]]}"#),
    ] {
        assert_eq!(form(text).as_deref(), Some(expected), "{text:?}");
    }
}

#[test]
fn alias_of_a_value_key_is_valid_on_later_levels_only() {
    assert_eq!(form("x: {y: {&a =: 1}}\nz: *a"), None);
    assert_eq!(form("&a =: 1\nz: *a").as_deref(), Some(r#"{"dict":[["=",1],["z","="]]}"#));
    assert_eq!(
        form("x: {&a =: 1}\nz: [[*a]]").as_deref(),
        Some(r#"{"dict":[["x",{"dict":[["=",1]]}],["z",[["="]]]]}"#)
    );
}

#[test]
fn reproduces_quirks_of_the_reference() {
    for (text, expected) in [
        // After a `?` without a key the next indicator is lost, even a bracket.
        ("[? ]]", Some(r#"[{"dict":[[null,null]]}]"#)),
        ("[? ]", None),
        ("[? :, b]", Some(r#"[{"dict":[[null,null]]},"b"]"#)),
        ("[?], \"b\"]", Some(r#"[{"dict":[[null,null]]},"b"]"#)),
        ("[? ], a: \"b\"]", None),
        ("[? ], ? ]]", None),
        ("{a: [? ]], \"b\": \"c\"}", None),
        ("- [? ]\n]", Some(r#"[[{"dict":[[null,null]]}]]"#)),
        ("a:\n  - [? ]\n]", None),
        // `!` without content is an empty string.
        ("!", Some("\"\"")),
        ("! \"\"", Some("null")),
        // A block scalar may share its parent's column.
        ("a:\n|\n b\n", Some(r#"{"dict":[["a","b\n"]]}"#)),
        // Longer empty lines before the content count as its indentation.
        ("a: |\n    \n  b", None),
        // A comment needs no space after a quote, but does after a plain scalar.
        ("\"a\"#b", Some("\"a\"")),
        ("a#b", Some("\"a#b\"")),
        // A byte order mark may start any line, but takes a column.
        ("[\n\u{feff}a]", Some("[\"a\"]")),
        ("a: b\n\u{feff}c: d", None),
        ("--- a: b", None),
        ("...", None),
        ("a\n...\n...\n", Some("\"a\"")),
    ] {
        assert_eq!(form(text).as_deref(), expected, "{text:?}");
    }
}

#[test]
fn keys_are_limited_to_one_line_and_1024_characters() {
    for (length, loads) in [(1024, true), (1025, false)] {
        for key in ["a".repeat(length), "é".repeat(length), format!("\"{}\"", "a".repeat(length - 2))] {
            for text in
                [format!("{key}: b"), format!("- {key}: b"), format!("{{{key}: b}}"), format!("[{key}: b]")]
            {
                assert_eq!(yaml::load(&text).is_ok(), loads, "{length}: {text:.10}");
            }
            assert!(yaml::load(&format!("? {key}\n: b")).is_ok());
            assert!(yaml::load(&format!("{{? {key} : b}}")).is_ok());
        }
    }
    for text in ["\"a\n b\": c", "{a\n: b}", "[a\n b: c]", "&a\n : b"] {
        assert!(yaml::load(text).is_err(), "{text:?}");
    }
}

#[test]
fn functions_record_their_directory() {
    let text = "process_docs: !function utils.process_docs";
    let loaded = with_functions().load(text).unwrap();
    let Some(Value::Function(function)) = loaded.value.as_dict().unwrap().get_str("process_docs") else {
        panic!("not a function");
    };
    assert_eq!(
        (function.reference.as_str(), function.directory.as_str()),
        ("utils.process_docs", "/tasks/demo")
    );
    assert_eq!(error(text).kind(), ErrorKind::Constructor);
    assert!(with_functions().load("!function [a.b]").is_err());
}

#[test]
fn decodes_utf_8_and_utf_16() {
    let text = "a: \u{e9}\u{1f600}\n";
    let expected = yaml::load(text).unwrap().value;
    let utf16 = |to_bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(to_bytes).collect()
    };
    for bytes in [utf16(u16::to_le_bytes), utf16(u16::to_be_bytes), format!("\u{feff}{text}").into_bytes()] {
        assert_eq!(yaml::load_bytes(&bytes).unwrap().value, expected);
    }
    let error = yaml::load_bytes(b"a: b\nc: \xc3\xa9\xff").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Reader);
    assert_eq!(error.to_string(), "line 2, column 5: invalid UTF-8");
    assert!(yaml::load_bytes(b"\xff\xfea\0b").is_err());
    let error = yaml::load_bytes(b"\xff\xfea\0\n\0b\0\0\xd8c\0").unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 2: invalid UTF-16");
    assert_eq!(yaml::decode_lossy(b"\xff\xfea\0\n\0b\0\0\xd8c\0"), "\u{feff}a\nb\u{fffd}c");
}

#[test]
fn keys_of_every_scalar_type_have_a_location() {
    let loaded = yaml::load("a: 1\n3: x\nnull: y\n'3': z\n").unwrap();
    let line = |key: &str| loaded.marks.find(&[key.into()]).unwrap().key.unwrap().start.line;
    assert_eq!([line("a"), line("None"), line("3")], [0, 2, 3]);
    let loaded = yaml::load("a: 1\n3: x\n").unwrap();
    assert_eq!(loaded.marks.find(&["3".into()]).unwrap().key.unwrap().start.line, 1);
}

#[test]
fn errors_have_positions() {
    for (text, kind, message) in [
        ("a: \u{7}", ErrorKind::Reader, "line 1, column 4: character that YAML does not allow: U+0007"),
        ("a:\n\tb: 1\n", ErrorKind::Scanner, "line 2, column 1: a tab cannot indent"),
        ("a: x\n \tb: 1\n", ErrorKind::Scanner, "line 2, column 4: a tab cannot indent"),
        (
            "a: 1\nb\nc: 2\n",
            ErrorKind::Scanner,
            "line 3, column 1: expected a `:` on the same line after a key that begins at line 2, column 1",
        ),
        (
            "a: \"x\\",
            ErrorKind::Scanner,
            "line 1, column 6: unknown escape in a quoted scalar that begins at line 1, column 4",
        ),
        (
            "- a\nb: c\n",
            ErrorKind::Parser,
            "line 2, column 1: expected `-` or the end of the list in a block sequence that begins at line 1, column 1",
        ),
        ("a: *x", ErrorKind::Composer, "line 1, column 4: no anchor for alias `x`"),
        ("&x [*x]", ErrorKind::Composer, "line 1, column 5: alias `x` is inside the value it names"),
        (
            "[&x 1, &x 2]",
            ErrorKind::Composer,
            "line 1, column 8: anchor `x` is used twice, first in a node that begins at line 1, column 2",
        ),
        (
            "a\n--- b\n",
            ErrorKind::Composer,
            "line 2, column 1: expected a single document, but another starts after one that begins at line 1, column 1",
        ),
        (
            "text: {{x}}\n",
            ErrorKind::Constructor,
            "line 1, column 8: a list or mapping cannot be a key in a mapping that begins at line 1, column 7",
        ),
        ("a: =", ErrorKind::Constructor, "line 1, column 4: unknown tag or misplaced indicator: `!!value`"),
        ("a: !x y", ErrorKind::Constructor, "line 1, column 4: unknown tag or misplaced indicator: `!x`"),
        ("a: 2020-13-45", ErrorKind::Value, "line 1, column 4: invalid date or time: `2020-13-45`"),
        ("a: 0b_", ErrorKind::Value, "line 1, column 4: not an integer in base 2: ``"),
    ] {
        let error = error(text);
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message), "{text:?}");
    }
}

#[test]
fn marks_locate_values_in_the_source() {
    let text = "base: &b\n  x: one  # comment\n  list: [1, {k: \u{e9}}]\nmerged:\n  <<: *b\n  x: |\n    two\n\nlast: *b\n";
    let marks = yaml::load(text).unwrap().marks;
    let find = |path: &[Segment<'_>]| marks.find(path);
    let texts = |mark: Mark| (mark.key.map(|key| &text[key.range()]), &text[mark.value.range()]);

    let mark = find(&["base".into(), "x".into()]).unwrap();
    assert_eq!(texts(mark), (Some("x"), "one"));
    let key = mark.key.unwrap().start;
    assert_eq!((key.line, key.column, key.offset), (1, 2, 11));
    assert_eq!(texts(find(&["base".into(), "list".into(), 1.into()]).unwrap()), (None, "{k: \u{e9}}"));
    assert_eq!(texts(find(&["merged".into(), "list".into(), 0.into()]).unwrap()), (None, "1"));
    assert_eq!(find(&["merged".into(), "list".into()]), find(&["base".into(), "list".into()]));
    assert_eq!(texts(find(&["merged".into(), "x".into()]).unwrap()), (Some("x"), "|\n    two"));
    assert_eq!(find(&["last".into()]).unwrap().key.unwrap().start.line, 8);
    assert_eq!(find(&["last".into(), "x".into()]), find(&["base".into(), "x".into()]));
    assert_eq!(find(&[]).unwrap().value.start.line, 0);
    assert_eq!(find(&["base".into(), 0.into()]), None);
    assert_eq!(find(&["absent".into()]), None);
    assert_eq!(yaml::load("").unwrap().marks.find(&[]), None);
}

#[test]
fn exceeding_a_limit_is_an_error() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(yaml::load(&deep(256)).is_ok());
    let numbered = |count: usize, line: fn(usize, usize) -> String| {
        (1..count).map(|index| line(index, index - 1)).collect::<Vec<_>>().concat()
    };
    let chain = numbered(300, |index, last| format!("- &a{index} [*a{last}]\n"));
    let doubling = numbered(40, |index, last| format!("- &a{index} [*a{last}, *a{last}]\n"));
    let merging = numbered(40, |index, last| format!("- &a{index} {{<<: [*a{last}, *a{last}]}}\n"));
    let indented = numbered(300, |index, _| format!("{}a:\n", " ".repeat(index)));
    for text in [
        deep(257),
        "[".repeat(100_000),
        "{".repeat(100_000),
        "[\n".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        indented,
        format!("- &a0 [x]\n{chain}"),
        format!("- &a0 [x, x]\n{doubling}"),
        format!("- &a0 {{a: x}}\n{merging}"),
    ] {
        let error = error(&text);
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    }
    let small = Loader { max_depth: 2, max_nodes: 4, ..Loader::default() };
    assert!(small.load("[[a, b]]").is_ok());
    assert!(small.load("[[[]]]").is_err());
    assert!(small.load("[a, b, c, d]").is_err());
    assert!(small.load(&"-\n".repeat(100_000)).is_err());
}

/// Fragments that are significant in YAML's syntax.
fn fragment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a",
        "b",
        "- ",
        "? ",
        ": ",
        ":",
        ", ",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "\n",
        "\n  ",
        "\n ",
        " ",
        "\t",
        "# c\n",
        "\"",
        "'",
        "\\",
        "\\x4",
        "\\u00e9",
        "|",
        ">",
        "|-\n",
        ">+2\n",
        "&a ",
        "*a",
        "! ",
        "!!str ",
        "!!int ",
        "!!set ",
        "!!omap ",
        "!!binary ",
        "!function ",
        "!<x",
        "!e!",
        "%41",
        "<<: ",
        "<<",
        "=",
        "---",
        "...\n",
        "%YAML 1.1\n",
        "%TAG !e! x\n",
        "@",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\u{1f600}",
        "0x",
        "1:2",
        "1_0.",
        "2001-01-01",
        " 1:00:00",
        "\r\n",
        "\r",
        "\u{0}",
        "a: b\n",
        "- a\n",
    ])
}

proptest! {
    #[test]
    fn never_panics_on_fragments(pieces in prop::collection::vec(fragment(), 0..40)) {
        let text = pieces.concat();
        match with_functions().load(&text) {
            Ok(loaded) => {
                if let Some(mark) = loaded.marks.find(&[]) {
                    prop_assert!(text.get(mark.value.range()).is_some());
                }
            }
            Err(error) => prop_assert!(error.position().offset <= text.len()),
        }
    }

    #[test]
    fn never_panics_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = with_functions().load_bytes(&bytes);
    }

    #[test]
    fn quoted_strings_round_trip(text in "[ -~\u{e9}\u{1f600}]{0,40}") {
        let quoted = format!("'{}'", text.replace('\'', "''"));
        prop_assert_eq!(yaml::load(&quoted).unwrap().value, Value::str(text));
    }

    #[test]
    fn plain_scalar_alone_equals_one_in_a_document(text in "[0-9a-fx_.:+-]{1,12}") {
        // A scalar alone must be the same in a document, unless it has structure.
        prop_assume!(!text.ends_with(':') && text != "---" && text != "..." && text != "-");
        match (yaml::plain_scalar(&text), yaml::load(&text)) {
            (Ok(alone), Ok(loaded)) => prop_assert_eq!(typed(&alone), typed(&loaded.value)),
            (Err(_), Err(_)) => {}
            (alone, loaded) => prop_assert!(false, "{:?} {:?}", alone, loaded.map(|loaded| loaded.value)),
        }
    }
}

/// Nested values that YAML can represent.
fn values() -> impl Strategy<Value = Value> {
    use proptest::prelude::*;
    let text = prop_oneof![
        "\\PC{0,12}",
        "[a-z0-9:# \\-\\n\\t'\"{}\\[\\]|>&*!%@,.?]{0,20}",
        Just("yes".to_owned()),
        Just("1.0".to_owned()),
        Just("1e5".to_owned()),
        Just("2020-01-01".to_owned()),
        Just(" x\ny \n".to_owned()),
        Just("a\n\n\n".to_owned()),
        Just("\u{85}\u{2028}\u{feff}".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("a NaN equals nothing", |number| !number.is_nan()).prop_map(Value::Float),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((text.clone(), inner), 0..6).prop_map(Value::dict),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn emitted_values_round_trip(value in values()) {
        let text = yaml::emit(&value);
        let again = yaml::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        proptest::prop_assert_eq!(&again.value, &value, "{}", text);
    }
}
