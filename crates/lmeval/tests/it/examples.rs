//! The programs in `examples/` run.

#![expect(unreachable_pub, reason = "a program is a module here")]

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
fn a_metric() {
    own_metric::main().unwrap();
}

#[test]
fn a_filter() {
    own_filter::main().unwrap();
}

#[test]
fn a_scorer() {
    own_scorer::main().unwrap();
}

#[test]
fn a_model() {
    own_model::main().unwrap();
}

#[test]
fn a_back_end_over_http() {
    own_backend::main().unwrap();
}
