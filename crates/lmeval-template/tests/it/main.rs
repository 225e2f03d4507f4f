//! Templates against recordings and limits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chat;
mod errors;
mod fuzz;
mod library;
mod limits;
mod recordings;
mod scopes;

use lmeval_pycompat::{Dict, Value, json};
use lmeval_template::{Environment, Error};

/// A document from JSON text.
fn document(text: &str) -> Dict {
    match json::loads(text).expect("the document is JSON") {
        Value::Dict(dict) => (*dict).clone(),
        other => panic!("not an object: {other:?}"),
    }
}

/// Compiles and renders.
fn render(template: &str, document: &Dict) -> Result<String, Error> {
    Environment::new().compile(template)?.render(document)
}
