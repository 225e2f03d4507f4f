//! Queries to the reference harness.

use std::io::Write as _;
use std::process::{Command, Stdio};

use lmeval_pycompat::{Value, json};
use lmeval_testkit::test_environment;

/// The answers to queries, in order; `None` if there is no reference.
pub(crate) fn ask(questions: &[Value]) -> Option<Vec<Result<Value, String>>> {
    let python = test_environment()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/reference.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("HF_HUB_OFFLINE", "1")
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = questions
        .iter()
        .map(|question| json::dumps(question, &json::Options::default()).unwrap() + "\n")
        .collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "the reference failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Result<Value, String>> = text
        .lines()
        .map(|line| {
            let answer = json::loads(line).unwrap();
            let answer = answer.as_dict().unwrap();
            match answer.get_str("ok") {
                Some(value) => Ok(value.clone()),
                None => Err(answer.get_str("error").and_then(Value::as_str).unwrap().to_owned()),
            }
        })
        .collect();
    assert_eq!(answers.len(), questions.len());
    Some(answers)
}

/// A query with its kind.
pub(crate) fn question(kind: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::dict([("ask", Value::str(kind))].into_iter().chain(fields))
}

/// The string under a key of an answer.
pub(crate) fn text<'a>(answer: &'a Value, key: &str) -> &'a str {
    answer.as_dict().unwrap().get_str(key).and_then(Value::as_str).unwrap_or_else(|| panic!("no `{key}`"))
}
