//! Jinja2 in a Python process.

use std::path::Path;

use lmeval_pycompat::json::{Options, dumps, loads};
use lmeval_pycompat::{Dict, Value};
use lmeval_testkit::Oracle;

use super::{Documents, Outcome};

/// A template to render, with its own document or the shared one.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) template: String,
    pub(super) chat: bool,
    pub(super) document: Option<Dict>,
}

impl Case {
    pub(super) fn line(&self) -> String {
        let template = Value::from(self.template.as_str());
        let mut request: Dict =
            [(Value::from("template"), template), (Value::from("chat"), Value::Bool(self.chat))]
                .into_iter()
                .collect();
        if let Some(document) = &self.document {
            request.insert("doc", Value::from(document.clone()));
        }
        dumps(&Value::from(request), &Options::default()).unwrap()
    }
}

/// Starts Jinja2 with the shared documents.
pub(super) fn start(python: &Path, documents: &Documents) -> Oracle {
    let mut oracle = Oracle::start(python, "jinja.py");
    let shared = Value::dict([
        ("doc", Value::from(documents.prompt.clone())),
        ("chat", Value::from(documents.chat.clone())),
    ]);
    oracle.send(&dumps(&shared, &Options::default()).unwrap());
    oracle
}

/// Parses an answer of `tests/oracle/jinja.py`.
pub(super) fn outcome(answer: &str) -> Outcome {
    let answer = loads(answer).expect("the oracle answers in JSON");
    let answer = answer.as_dict().unwrap();
    let text = |key: &str| answer.get_str(key).and_then(Value::as_str).map(str::to_owned);
    match text("out") {
        Some(out) => Outcome::Text(out),
        None => Outcome::failure(&text("error").unwrap(), text("text").unwrap()),
    }
}
