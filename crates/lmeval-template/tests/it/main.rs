//! Tests of templates through the public API.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chat;
mod errors;
mod expressions;
mod fuzz;
mod library;
mod limits;
mod recordings;
mod scopes;

use lmeval_pycompat::{Dict, Value, json};
use lmeval_template::{Environment, Error};

/// Parses a document from JSON.
fn document(text: &str) -> Dict {
    match json::loads(text).expect("the document is JSON") {
        Value::Dict(dict) => (*dict).clone(),
        other => panic!("not an object: {other:?}"),
    }
}

/// Compiles and renders a template.
fn render(template: &str, document: &Dict) -> Result<String, Error> {
    Environment::new().compile(template)?.render(document)
}
