//! Dependencies point down: a crate uses only crates of lower layers, except for the pairs named here, and the list of crates in
//! CONTRIBUTING has users above what they use.

use crate::{metadata, repository};

/// Crates by layer, from the bottom.
const LAYERS: &[&[&str]] = &[
    &["lmeval-pycompat", "lmeval-template", "lmeval-media", "lmeval-metrics", "lmeval-plot"],
    &["lmeval-core", "lmeval-scoring", "lmeval-tasks"],
    &["lmeval-net", "lmeval-hub"],
    &["lmeval-tokenizers"],
    &["lmeval-data", "lmeval-models", "lmeval-candle", "lmeval-journal", "lmeval-host", "lmeval-sandbox"],
    &["lmeval-engine", "lmeval-report", "lmeval-analysis", "lmeval-claims"],
    &["lmeval-view"],
    &["lmeval"],
    &["lmeval-cli"],
];

/// Allowed dependencies within a layer.
const WITHIN: &[(&str, &str)] = &[
    ("lmeval-template", "lmeval-pycompat"),
    ("lmeval-media", "lmeval-pycompat"),
    ("lmeval-metrics", "lmeval-pycompat"),
    ("lmeval-scoring", "lmeval-core"),
    ("lmeval-tasks", "lmeval-core"),
    ("lmeval-tasks", "lmeval-scoring"),
    ("lmeval-hub", "lmeval-net"),
    ("lmeval-claims", "lmeval-analysis"),
];

/// Crates for development only; no published crate depends on them.
const DEVELOPMENT: &[&str] = &["lmeval-testkit", "lmeval-bench"];

fn layer(name: &str) -> usize {
    LAYERS.iter().position(|layer| layer.contains(&name)).unwrap_or_else(|| {
        panic!("`{name}` is in no layer; add it to the table in this test and in docs/dev/style.md")
    })
}

#[test]
fn cargo_run_starts_the_binary() {
    let metadata = metadata("Cargo.toml");
    let members = metadata["workspace_default_members"].as_array().unwrap();
    assert_eq!(members.len(), 1);
    assert!(members[0].as_str().unwrap().contains("crates/lmeval-cli#"), "{members:?}");
}

#[test]
fn dependencies_point_down() {
    let metadata = metadata("Cargo.toml");
    let packages = metadata["packages"].as_array().unwrap();
    let names: Vec<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let mut checked = 0;
    for package in packages {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            if !names.contains(&used) || DEVELOPMENT.contains(&name) {
                continue;
            }
            let development = dependency["kind"].as_str() == Some("dev");
            if DEVELOPMENT.contains(&used) {
                assert!(development, "`{name}` ships with `{used}`");
                continue;
            }
            let allowed = layer(used) < layer(name) || WITHIN.contains(&(name, used));
            assert!(allowed || development, "`{name}` may not use `{used}`");
            checked += 1;
        }
    }
    assert!(checked > 5);
}

/// The crates in the table of CONTRIBUTING, from the top.
fn listed() -> Vec<String> {
    let page = fs_err::read_to_string(repository("CONTRIBUTING.md")).unwrap();
    let section = page.split("\n## The crates\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let names = rows.flat_map(|(cell, _)| cell.split(", "));
    names.map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn contributing_lists_users_above_what_they_use() {
    let listed = listed();
    let metadata = metadata("Cargo.toml");
    let packages = metadata["packages"].as_array().unwrap();
    let mut names: Vec<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let mut sorted: Vec<&str> = listed.iter().map(String::as_str).collect();
    names.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(sorted, names, "CONTRIBUTING.md lists every crate once");
    let row = |name: &str| listed.iter().position(|listed| listed == name).unwrap();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            if names.contains(&used) && dependency["kind"].as_str() != Some("dev") {
                assert!(row(name) < row(used), "CONTRIBUTING.md lists `{used}` above its user `{name}`");
            }
        }
    }
}
