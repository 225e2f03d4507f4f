//! The examples on the pages about scoring load, and the Rust examples are the tested ones.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::Dialect;
use lmeval_scoring::registry::Registry;
use lmeval_scoring::scorers::ScoringSources;
use lmeval_tasks::scoring::prepare_scoring;
use lmeval_tasks::{BUILTIN_LIBRARY, Overrides, Spec, TaskManager};

use crate::library_names::AnyFunction;
use crate::support::{Library, task};

const PAGES: [&str; 4] = ["filters.md", "metrics.md", "scorers.md", "groups.md"];

fn read(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    fs_err::read_to_string(path).unwrap()
}

/// The code blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    page.split(start.as_str())
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap().to_owned() + "\n")
        .collect()
}

#[test]
fn documented_examples_load() {
    let mut sources = ScoringSources::new(&Dialect::V05);
    sources.host = Arc::new(AnyFunction);
    for (page, expected) in PAGES.into_iter().zip([6, 4, 3, 2]) {
        let examples = blocks(&read(page), "yaml");
        assert_eq!(examples.len(), expected, "{page}");
        for (number, example) in examples.iter().enumerate() {
            let complete = example.starts_with("task:") || example.starts_with("group:");
            let text = if complete { example.clone() } else { task("example", example) };
            let library = Library::new(&[("example.yaml", &text)]);
            let manager = TaskManager::new(&[BUILTIN_LIBRARY.into(), library.path()]);
            let spec = Spec::File(library.path().join("example.yaml"));
            let findings: Vec<String> = manager
                .validate(std::slice::from_ref(&spec))
                .into_iter()
                .map(|finding| finding.diagnostic.message)
                .collect();
            assert!(findings.is_empty(), "{page}, example {number}: {findings:?}");
            let loaded = manager.load(&[spec], Overrides::default()).unwrap();
            for task in loaded.tasks.values() {
                let ready = prepare_scoring(task, &sources, false);
                assert!(ready.is_ok(), "{page}, example {number}: {:?}", ready.err());
            }
        }
    }
}

#[test]
fn every_built_in_name_is_documented() {
    let (filters, metrics, scorers) = (read("filters.md"), read("metrics.md"), read("scorers.md"));
    let has = |page: &str, name: &str| assert!(page.contains(&format!("`{name}`")), "{name}");
    let registry = Registry::default();
    for entry in registry.filters.iter().filter(|entry| entry.code.rust().is_some()) {
        has(&filters, &entry.name);
        entry.options.known.iter().for_each(|option| has(&filters, &option.name));
    }
    for entry in registry.metrics.iter() {
        has(&metrics, &entry.name);
        let options = entry.options.known.iter().filter(|option| option.name != "multiple_targets");
        options.for_each(|option| has(&metrics, &option.name));
    }
    for name in registry.aggregations.names().into_iter().chain(registry.reductions.names()) {
        has(&metrics, name);
    }
    for name in registry.scorers.names() {
        has(&scorers, name);
    }
}

#[test]
fn rust_examples_are_the_tested_ones() {
    let tested = include_str!("own_scorers.rs");
    let examples: Vec<String> = tested
        .split("// [example]\n")
        .skip(1)
        .map(|rest| rest.split("// [end]").next().unwrap())
        .map(|part| {
            let line = |line: &str| line.strip_prefix("    ").unwrap_or(line).trim_end().to_owned() + "\n";
            part.trim_end().lines().map(line).collect()
        })
        .collect();
    assert_eq!(blocks(&read("scorers.md"), "rust"), examples);
}
