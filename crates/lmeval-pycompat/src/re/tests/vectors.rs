//! Compares everything with recordings of CPython.

use serde_json::{Value as Json, json};

use super::wording::{PythonError, Wordings};
use crate::re::pattern::Engine;
use crate::re::{Error, ErrorKind, Flags, Match, Nth, Regex};
use crate::{Value, repr::repr};

pub(super) fn flags_from_bits(bits: u64) -> Flags {
    let all = [Flags::IGNORECASE, Flags::MULTILINE, Flags::DOTALL, Flags::VERBOSE, Flags::ASCII];
    all.into_iter()
        .enumerate()
        .filter(|(index, _)| bits >> index & 1 == 1)
        .fold(Flags::NONE, |flags, (_, flag)| flags | flag)
}

pub(super) fn spans(found: &Match<'_>, groups: usize) -> Json {
    let mut out = Vec::new();
    for group in 0..=groups {
        match found.span(group) {
            Some(span) => out.extend([json!(span.start), json!(span.end)]),
            None => out.extend([json!(-1), json!(-1)]),
        }
    }
    Json::Array(out)
}

pub(super) fn optional_spans(found: Option<Match<'_>>, groups: usize) -> Json {
    found.map_or(Json::Null, |found| spans(&found, groups))
}

/// Whether an error is the recorded one.
fn is_recorded(error: &Error, recorded: &Json, wordings: &mut Wordings) -> bool {
    let message = recorded[0].as_str().expect("recorded message");
    wordings.agree(error, &PythonError { class: None, message, position: recorded[1].as_u64() })
}

pub(super) fn as_json(value: &Value) -> Json {
    match value {
        Value::Str(text) => json!(&**text),
        Value::Tuple(items) => Json::Array(items.iter().map(as_json).collect()),
        other => panic!("findall returned {}", repr(other)),
    }
}

/// Matches by index equal those of the iteration, however they are found.
fn assert_nth_matches(regex: &Regex, text: &str, iterated: &[Match<'_>]) -> Result<(), Error> {
    let count = iterated.len() as i64;
    for index in -count - 1..=count {
        let position = if index < 0 { index + count } else { index };
        match (regex.nth_match(text, index)?, usize::try_from(position).ok().and_then(|at| iterated.get(at)))
        {
            (Nth::Found(found), Some(wanted)) => {
                assert_eq!(
                    spans(&found, regex.groups()),
                    spans(wanted, regex.groups()),
                    "{regex:?} {text:?}"
                );
            }
            (Nth::OutOfRange { matches }, None) => assert_eq!(matches, iterated.len(), "{regex:?} {text:?}"),
            (found, wanted) => panic!("{regex:?} {text:?} {index}: {found:?} is not {wanted:?}"),
        }
    }
    Ok(())
}

/// The record that the recording script makes of a string.
fn record(regex: &Regex, wanted: &Json, wordings: &mut Wordings) -> Result<Json, Error> {
    let text = wanted["t"].as_str().expect("recorded text");
    let groups = regex.groups();
    let iterated = regex.find_iter(text)?;
    assert_nth_matches(regex, text, &iterated)?;
    let template = wanted["s"][0].as_str().expect("recorded template");
    let count = wanted["s"][1].as_u64().expect("recorded count") as usize;
    let replaced = match regex.sub(template, text, count) {
        Ok(replaced) => json!(replaced),
        Err(error) if error.kind() == ErrorKind::Limit => return Err(error),
        Err(error) if is_recorded(&error, &wanted["s"][2]["e"], wordings) => wanted["s"][2].clone(),
        Err(error) => json!(error.to_string()),
    };
    let limit = wanted["p"][0].as_u64().expect("recorded limit") as usize;
    Ok(json!({
        "t": text,
        "i": iterated.iter().map(|found| spans(found, groups)).collect::<Vec<_>>(),
        "a": regex.findall(text)?.iter().map(as_json).collect::<Vec<_>>(),
        "m": optional_spans(regex.match_start(text)?, groups),
        "f": optional_spans(regex.fullmatch(text)?, groups),
        "s": [template, count, replaced],
        "p": [limit, regex.split(text, limit)?],
    }))
}

/// The differences in one recorded case.
fn differences(case: &Json, engine: Engine, wordings: &mut Wordings) -> Vec<String> {
    let pattern = case["p"].as_str().expect("recorded pattern");
    let flags = flags_from_bits(case["f"].as_u64().expect("recorded flags"));
    let regex = match (Regex::new(pattern, flags), case.get("e")) {
        (Err(error), _) if error.kind() == ErrorKind::NotSupported => return Vec::new(),
        (Err(error), Some(wanted)) => {
            if is_recorded(&error, wanted, wordings) {
                return Vec::new();
            }
            return vec![format!("{pattern:?}: {error} is not {wanted}")];
        }
        (Err(error), None) => return vec![format!("{pattern:?}: {error}")],
        (Ok(_), Some(wanted)) => return vec![format!("{pattern:?} compiles, wanted {wanted}")],
        (Ok(regex), None) => regex.with_engine(engine),
    };
    let mut found = Vec::new();
    let names: Vec<_> = regex.group_names().map(|(name, index)| json!([name, index])).collect();
    if json!(regex.groups()) != case["g"] || Json::Array(names) != case["n"] {
        found.push(format!("{pattern:?}: groups differ"));
    }
    for wanted in case["x"].as_array().expect("recorded strings") {
        match record(&regex, wanted, wordings) {
            Ok(got) if got == *wanted => {}
            Ok(got) => {
                let keys = ["i", "a", "m", "f", "s", "p"];
                for key in keys.into_iter().filter(|&key| got[key] != wanted[key]) {
                    let text = &wanted["t"];
                    found.push(format!(
                        "{pattern:?} {flags:?} {engine:?} on {text} {key}: {} is not {}",
                        got[key], wanted[key]
                    ));
                }
            }
            Err(error) => found.push(format!("{pattern:?} on {}: {error}", wanted["t"])),
        }
    }
    found
}

fn is_refused(case: &Json) -> bool {
    let pattern = case["p"].as_str().expect("recorded pattern");
    let flags = flags_from_bits(case["f"].as_u64().expect("recorded flags"));
    case.get("e").is_none()
        && Regex::new(pattern, flags).is_err_and(|error| error.kind() == ErrorKind::NotSupported)
}

fn compare(path: &str) {
    let recorded = fs_read(path);
    let cases: Vec<Json> = serde_json::from_str(&recorded).expect("recorded JSON");
    assert!(!cases.is_empty());
    let mut all = Vec::new();
    let mut wordings = Wordings::default();
    for engine in [Engine::Machine, Engine::Fast, Engine::Best] {
        all.extend(cases.iter().flat_map(|case| differences(case, engine, &mut wordings)));
    }
    let refused = cases.iter().filter(|case| is_refused(case)).count();
    println!("{refused} of {} patterns are not supported", cases.len());
    assert!(refused * 40 < cases.len(), "{refused} patterns are not supported");
    let shown: Vec<_> = all.iter().take(40).map(String::as_str).collect();
    assert!(all.is_empty(), "{} differences\n{}", all.len(), shown.join("\n"));
}

pub(super) fn fs_read(path: &str) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)).expect(path);
    text
}

#[test]
fn matches_recorded_vectors() {
    compare(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/re.json"));
}

/// Compares with another recording, named by an environment variable.
#[test]
#[ignore = "needs a recording made by tests/record/re_vectors.py"]
fn matches_other_vectors() {
    compare(&std::env::var("RE_VECTORS").expect("RE_VECTORS names a file"));
}
