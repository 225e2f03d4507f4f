//! String methods and character classes.

use std::collections::HashMap;

use lmeval_pycompat::Value;
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::strings;

use crate::vectors::{get, items, load, python, size, text};

/// Every character, in order.
fn characters() -> impl Iterator<Item = char> {
    '\0'..=char::MAX
}

type Class = Box<dyn Fn(char) -> bool>;
type Mapping = fn(&str) -> String;

/// The classes of single characters.
const QUICK: [&str; 8] =
    ["space", "printable", "alpha", "decimal", "digit", "numeric", "alnum", "punctuation"];

#[test]
fn classes_match_python_for_all_code_points() {
    let vectors = load("vectors/unicode.json");
    let single = |test: fn(&str) -> bool| move |character: char| test(character.encode_utf8(&mut [0; 4]));
    let classes: Vec<(&str, Class)> = vec![
        ("space", Box::new(strings::is_space)),
        ("printable", Box::new(strings::is_printable)),
        ("alpha", Box::new(strings::is_alpha)),
        ("decimal", Box::new(strings::is_decimal)),
        ("digit", Box::new(strings::is_digit)),
        ("numeric", Box::new(strings::is_numeric)),
        ("alnum", Box::new(strings::is_alnum)),
        ("punctuation", Box::new(strings::is_punctuation)),
        ("upper", Box::new(single(strings::is_upper_text))),
        ("lower", Box::new(single(strings::is_lower_text))),
        ("title", Box::new(single(strings::is_title_text))),
        ("identifier_start", Box::new(single(strings::is_identifier))),
        ("identifier_continue", Box::new(|character| strings::is_identifier(&format!("a{character}")))),
    ];
    for (name, holds) in classes {
        let mut flips = items(get(get(&vectors, "flips"), name)).iter().map(size);
        let mut next = flips.next();
        let mut expected = false;
        // The methods of entire strings take longer, and nothing is assigned in planes 4 to 13.
        let quick = QUICK.contains(&name);
        for character in characters().filter(|&c| quick || !('\u{40000}'..'\u{e0000}').contains(&c)) {
            if next == Some(character as usize) {
                expected = !expected;
                next = flips.next().map(|distance| character as usize + distance);
            }
            assert_eq!(holds(character), expected, "`{name}` of U+{:04X}", character as u32);
        }
        assert_eq!(next, None, "`{name}`");
    }
}

#[test]
fn digit_values_match_python() {
    let vectors = load("vectors/unicode.json");
    let mut digits: HashMap<u32, u32> = HashMap::new();
    for zero in items(get(&vectors, "zeros")) {
        digits.extend((0..10).map(|value| (size(zero) as u32 + value, value)));
    }
    let decimals = digits.clone();
    for (code, value) in get(&vectors, "digits").as_dict().unwrap().iter() {
        digits.insert(text(code).parse().unwrap(), size(value) as u32);
    }
    for character in characters() {
        assert_eq!(strings::digit_value(character), digits.get(&u32::from(character)).copied());
        assert_eq!(strings::decimal_value(character), decimals.get(&u32::from(character)).copied());
    }
}

fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |state, &byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn case_mappings_match_python_for_all_code_points() {
    let vectors = load("vectors/unicode.json");
    let mappings: [(&str, Mapping); 5] = [
        ("upper", strings::upper),
        ("lower", strings::lower),
        ("title", strings::title),
        ("casefold", strings::casefold),
        ("swapcase", strings::swapcase),
    ];
    for (name, mapping) in mappings {
        let mut changed: HashMap<u32, String> = HashMap::new();
        // Neither the recording nor the standard library has mappings beyond.
        for character in '\0'..'\u{20000}' {
            let source = character.to_string();
            let mapped = mapping(&source);
            if mapped != source {
                *changed.entry(u32::from(character) / 4096 * 4096).or_default() += &(source + &mapped);
            }
        }
        let hashes: HashMap<String, String> = changed
            .into_iter()
            .map(|(start, block)| (start.to_string(), hash(block.as_bytes()).to_string()))
            .collect();
        let expected: HashMap<String, String> = get(get(&vectors, "mappings"), name)
            .as_dict()
            .unwrap()
            .iter()
            .map(|(start, hash)| (text(start).to_owned(), text(hash).to_owned()))
            .collect();
        assert_eq!(hashes, expected, "`{name}`");
    }
}

fn words(words: &[&str]) -> Value {
    Value::list(words.iter().map(|&word| Value::str(word)))
}

fn position(found: Option<usize>) -> Value {
    Value::Int(found.map_or(-1, |position| i64::try_from(position).unwrap()))
}

#[test]
fn methods_match_python() {
    let vectors = python("strings");
    for case in items(get(&vectors, "strings")) {
        let (source, other) = (text(get(case, "text")), text(get(case, "other")));
        let limit = usize::try_from(get(case, "limit").as_i64().unwrap()).ok();
        let width = size(get(case, "width"));
        let check = |name: &str, results: Vec<Value>| {
            for (index, (result, expected)) in results.iter().zip(items(get(case, name))).enumerate() {
                assert_eq!(
                    result, expected,
                    "{name} {index} of {source:?} and {other:?}, {limit:?}, {width}"
                );
            }
        };
        check(
            "strip",
            [
                strings::strip(source),
                strings::lstrip(source),
                strings::rstrip(source),
                strings::strip_chars(source, other),
                strings::lstrip_chars(source, other),
                strings::rstrip_chars(source, other),
            ]
            .map(Value::from)
            .to_vec(),
        );
        let (before, separator, after) = strings::partition(source, other).unwrap();
        let (before_last, last_separator, after_last) = strings::rpartition(source, other).unwrap();
        check(
            "split",
            vec![
                words(&strings::split_whitespace(source, limit)),
                words(&strings::rsplit_whitespace(source, limit)),
                words(&strings::split(source, other, limit).unwrap()),
                words(&strings::rsplit(source, other, limit).unwrap()),
                words(&strings::splitlines(source, false)),
                words(&strings::splitlines(source, true)),
                words(&[before, separator, after]),
                words(&[before_last, last_separator, after_last]),
            ],
        );
        let count = Value::Int(i64::try_from(strings::count(source, other)).unwrap());
        check(
            "find",
            vec![position(strings::find(source, other)), position(strings::rfind(source, other)), count],
        );
        check(
            "layout",
            [
                strings::center(source, width, '*'),
                strings::ljust(source, width, '*'),
                strings::rjust(source, width, '*'),
                strings::zfill(source, width),
                strings::expandtabs(source, width),
            ]
            .map(Value::from)
            .to_vec(),
        );
        check(
            "case",
            [
                strings::upper(source),
                strings::lower(source),
                strings::title(source),
                strings::capitalize(source),
                strings::swapcase(source),
                strings::casefold(source),
            ]
            .map(Value::from)
            .to_vec(),
        );
        check(
            "is",
            [
                strings::is_upper_text(source),
                strings::is_lower_text(source),
                strings::is_title_text(source),
                strings::is_identifier(source),
            ]
            .map(Value::from)
            .to_vec(),
        );
        let bytes = Value::Bytes(source.as_bytes().into());
        check("repr", vec![repr(&Value::str(source)).into(), repr(&bytes).into()]);
    }
}

#[test]
fn empty_separators_are_rejected() {
    assert_eq!(strings::split("a", "", None), None);
    assert_eq!(strings::rsplit("a", "", None), None);
    assert_eq!(strings::partition("a", ""), None);
    assert_eq!(strings::rpartition("a", ""), None);
    assert_eq!(
        (strings::find("ab", ""), strings::rfind("ab", ""), strings::count("éb", "")),
        (Some(0), Some(2), 3)
    );
}
