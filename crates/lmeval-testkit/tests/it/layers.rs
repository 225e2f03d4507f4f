//! Dependencies point down: a crate uses only crates of lower layers, except for the pairs listed here.

use std::process::Command;

/// Crates by layer, from the bottom.
const LAYERS: &[&[&str]] = &[
    &["lmeval-pycompat", "lmeval-template", "lmeval-metrics"],
    &["lmeval-core", "lmeval-tasks"],
    &["lmeval-hub"],
    &["lmeval-tokenizers"],
    &["lmeval-data", "lmeval-models", "lmeval-candle", "lmeval-journal", "lmeval-host", "lmeval-sandbox"],
    &["lmeval-engine", "lmeval-report"],
    &["lmeval"],
];

/// Allowed dependencies within a layer.
const WITHIN: &[(&str, &str)] = &[
    ("lmeval-template", "lmeval-pycompat"),
    ("lmeval-metrics", "lmeval-pycompat"),
    ("lmeval-tasks", "lmeval-core"),
];

/// Crates for development only, which no published crate depends on.
const DEVELOPMENT: &[&str] = &["lmeval-testkit", "lmeval-bench"];

fn layer(name: &str) -> usize {
    LAYERS.iter().position(|layer| layer.contains(&name)).unwrap_or_else(|| {
        panic!("`{name}` is in no layer; add it to the table in this test and in docs/dev/style.md")
    })
}

/// The workspace as reported by `cargo metadata`.
fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn cargo_run_starts_the_binary() {
    let metadata = metadata();
    let members = metadata["workspace_default_members"].as_array().unwrap();
    assert_eq!(members.len(), 1);
    assert!(members[0].as_str().unwrap().contains("crates/lmeval#"), "{members:?}");
}

#[test]
fn dependencies_point_down() {
    let metadata = metadata();
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
