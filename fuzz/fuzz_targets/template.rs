//! Any string compiles as a template or is an error, and a template renders or fails.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_pycompat::{Dict, Value};
use lmeval_template::Environment;

fuzz_target!(|source: &str| {
    let environment = Environment::default();
    let Ok(template) = environment.compile(source) else { return };
    let mut document = Dict::new();
    document.insert("q", "What?");
    document.insert("l", Value::list([Value::from("a"), Value::Int(1), Value::None]));
    let _ = template.render(&document);
});
