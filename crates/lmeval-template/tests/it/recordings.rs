//! Outputs recorded from Jinja2.

use lmeval_pycompat::{Dict, Value, json};
use lmeval_template::chat::ChatTemplate;

use crate::render;

pub(crate) fn load(path: &str) -> Value {
    let path = format!("{}/../../tests/{path}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(path).expect("the recording exists");
    let text = std::io::read_to_string(file).expect("the recording is text");
    json::loads(&text).expect("the recording is JSON")
}

pub(crate) fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.as_dict().and_then(|dict| dict.get_str(key)).expect("the recording has the field")
}

/// The difference between an output and its recording, if any.
fn difference(
    template: &str,
    expected: Option<&str>,
    rendered: Result<String, lmeval_template::Error>,
) -> Option<String> {
    match (expected, rendered) {
        (Some(expected), Ok(text)) if text == expected => None,
        (None, Err(_)) => None,
        (expected, rendered) => {
            let rendered = rendered.map_err(|error| error.to_string());
            Some(format!("{template:?}: expected {expected:?}, got {rendered:?}"))
        }
    }
}

#[test]
fn matches_golden_units() {
    let recording = load("golden/units/jinja.json");
    let document = field(&recording, "doc").as_dict().expect("the document is an object");
    let mut differences = Vec::new();
    for case in field(&recording, "cases").as_list().expect("cases are a list") {
        let template = field(case, "template").as_str().expect("a template is text");
        let expected = case.as_dict().and_then(|case| case.get_str("out")).and_then(Value::as_str);
        differences.extend(difference(template, expected, render(template, document)));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The only recorded failure that succeeds here: Jinja has no `zip` (see `docs/differences.md`).
const ADDED: &str = "{{ zip(l, l) }}";

/// Jinja filters that are not supported (see `docs/differences.md`).
const UNSUPPORTED: [&str; 6] = ["filesizeformat", "pprint", "striptags", "urlize", "wordwrap", "xmlattr"];

/// Whether a template applies one of [`UNSUPPORTED`], instead of mentioning its name in text or as an
/// argument.
fn applies_unsupported(template: &str) -> Option<&'static str> {
    UNSUPPORTED.into_iter().find(|name| template.contains(&format!("|{name}")))
}

#[test]
fn matches_recorded_vectors() {
    let recording = load("vectors/jinja.json");
    let document = field(&recording, "doc").as_dict().expect("the document is an object");
    let chat_document = field(&recording, "chat_doc").as_dict().expect("the document is an object");
    let mut differences = Vec::new();
    let mut count = 0;
    let mut refused = 0;
    for (kind, cases) in field(&recording, "cases").as_dict().expect("cases are grouped").iter() {
        for case in cases.as_list().expect("cases are a list") {
            let case = case.as_list().expect("a case is a list");
            let template = case[0].as_str().expect("a template is text");
            let expected = case.get(1).and_then(Value::as_str);
            let rendered = if kind.as_str() == Some("chat") {
                chat(template, chat_document)
            } else {
                render(template, document)
            };
            count += 1;
            if kind.as_str() != Some("chat") && template == ADDED {
                assert!(expected.is_none() && rendered.is_ok(), "{template}");
                continue;
            }
            if let Some(name) = applies_unsupported(template) {
                refused += 1;
                let message = rendered.expect_err(template).to_string();
                assert!(message.contains(name) && message.contains("not supported"), "{template}: {message}");
                continue;
            }
            differences.extend(difference(template, expected, rendered));
        }
    }
    assert!(count - refused > 4000, "there are only {count} cases, {refused} of them refused");
    assert!(refused > 100, "only {refused} templates apply an unsupported filter");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn chat(template: &str, document: &Dict) -> Result<String, lmeval_template::Error> {
    ChatTemplate::compile(template)?.with_clock(str::to_owned).render(document)
}
