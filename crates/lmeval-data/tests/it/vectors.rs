//! Compares our rows with those of the `datasets` library.

use lmeval_core::DatasetRequest;
use lmeval_pycompat::{Value, json};

use crate::support::{load_in, message, printed, write};

/// Cases that we read although the reference rejects them.
fn is_lenient(case: &Value) -> bool {
    field(case, "error").is_some()
}

fn field<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    value.as_dict()?.get_str(key).filter(|value| !value.is_none())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn decode_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 6 | u32::from(digit(*byte)))
            << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}

/// The problem with a case, if any.
fn check(case: &Value) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in field(case, "files").unwrap().as_dict().unwrap().iter() {
        match content {
            Value::Str(content) => write(folder.path(), path.as_str().unwrap(), content.as_bytes()),
            content => {
                let content = decode_base64(&text(field(content, "base64").unwrap()));
                write(folder.path(), path.as_str().unwrap(), content);
            }
        }
    }
    let request = DatasetRequest {
        path: text(field(case, "path").unwrap()),
        name: field(case, "config").map(text),
        splits: field(case, "splits")
            .map_or_else(Vec::new, |list| list.as_list().unwrap().iter().map(text).collect()),
        kwargs: field(case, "kwargs")
            .map_or_else(Default::default, |kwargs| kwargs.as_dict().unwrap().clone()),
        ..DatasetRequest::default()
    };
    let found = load_in(folder.path(), &request).and_then(|data| {
        data.iter().map(|(name, split)| Ok((name.to_owned(), printed(split)?))).collect::<Result<Vec<_>, _>>()
    });
    match (field(case, "expected"), found) {
        (None, _) => None,
        (Some(_), Err(error)) => Some(format!("failed: {}", message(&error))),
        (Some(expected), Ok(found)) => {
            let expected: Vec<(String, String)> =
                expected.as_dict().unwrap().iter().map(|(split, rows)| (text(split), text(rows))).collect();
            (found != expected).then(|| format!("expected {expected:?}\n   found {found:?}"))
        }
    }
}

#[test]
fn rows_equal_the_reference() {
    let path = std::env::var("LMEVAL_DATA_VECTORS")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/datasets.json").into());
    let recorded = json::loads(&fs_err::read_to_string(path).unwrap()).unwrap();
    let cases = field(&recorded, "cases").unwrap().as_list().unwrap();
    assert!(cases.len() > 100);
    let mut wrong = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        if let Some(problem) = check(case) {
            let files = field(case, "files").unwrap();
            let shown: String = lmeval_pycompat::repr::repr(files).chars().take(400).collect();
            wrong.push(format!("case {index}: {shown}\n   {problem}"));
        }
    }
    let refused = cases.iter().filter(|case| is_lenient(case)).count();
    assert!(
        wrong.is_empty(),
        "{} of {} ({refused} refused):\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
