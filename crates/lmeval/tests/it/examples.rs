//! Runs everything in `examples/`.

#![expect(unreachable_pub, reason = "an example is a module here")]

#[path = "../../examples/own_backend.rs"]
mod own_backend;
#[path = "../../examples/own_filter.rs"]
mod own_filter;
#[path = "../../examples/own_metric.rs"]
mod own_metric;
#[path = "../../examples/own_model.rs"]
mod own_model;
#[path = "../../examples/own_scorer.rs"]
mod own_scorer;

#[test]
fn custom_metric() {
    own_metric::main().unwrap();
}

#[test]
fn custom_filter() {
    own_filter::main().unwrap();
}

#[test]
fn custom_scorer() {
    own_scorer::main().unwrap();
}

#[test]
fn custom_model() {
    own_model::main().unwrap();
}

#[test]
fn custom_http_back_end() {
    own_backend::main().unwrap();
}
