//! Snapshots of complete output: help, listings, tables and errors.
//!
//! `just snapshots` accepts new output; review the difference before committing it.

use std::collections::BTreeSet;
use std::path::Path;

use lmeval_testkit::TestContext;

use crate::context;

/// Compares the output of a command with `snapshots/NAME.snap`.
fn check(context: &TestContext, name: &str, words: &[&str]) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("snapshots");
    let output = context.command(words).filter(env!("CARGO_PKG_VERSION"), "[VERSION]").run();
    // Marks trailing padding, which editors would strip.
    let shown: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    let (status, shown) = (output.status, shown.join("\n"));
    let printed = format!(
        "$ lm-eval {}\nstatus: {status}\n--- stdout\n{shown}\n--- stderr\n{}",
        words.join(" "),
        output.stderr
    );
    settings.bind(|| insta::assert_snapshot!(name, printed));
}

const DATA: &str = "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n";

/// A folder with documents and task files that have one mistake each.
fn tasks() -> TestContext {
    let context = context();
    context.write("d.jsonl", "{\"q\": \"Why?\", \"a\": \"So\"}\n{\"q\": \"When?\", \"a\": \"Now\"}\n");
    for (name, definition) in [
        ("metric", "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exat_match}]\n"),
        ("field", "doc_to_text: q\ndoc_to_target: a\nnum_fewshots: 2\n"),
        ("template", "doc_to_text: \"Q: {{ q.nothing.more }}\"\ndoc_to_target: a\n"),
        ("yaml", "doc_to_text: [q\ndoc_to_target: a\n"),
        (
            "filter",
            "doc_to_text: q\ndoc_to_target: a\nfilter_list: [{name: x, filter: [{function: regx}]}]\n",
        ),
    ] {
        context.write(format!("{name}.yaml"), format!("task: {name}\n{DATA}{definition}"));
    }
    context
}

#[test]
fn help() {
    check(&context(), "help", &["--help"]);
    check(&context(), "help_run", &["run", "--help"]);
}

#[test]
fn listings() {
    check(&context(), "ls_groups", &["ls", "groups"]);
    check(&context(), "ls_tasks", &["ls", "tasks", "--library", "builtin"]);
    check(&context(), "preview", &["preview", "demo_capitals", "--num_examples", "1"]);
}

#[test]
fn usage_errors() {
    check(&context(), "usage_flag", &["run", "--tsks", "demo"]);
    check(&context(), "usage_command", &["runn"]);
    check(&context(), "usage_value", &["run", "--limit", "many"]);
}

#[test]
fn errors() {
    let context = tasks();
    check(&context, "error_task", &["run", "--model", "dummy", "--tasks", "demo_capital"]);
    // Looking for plug-ins may take long enough to report progress.
    let model = ["run", "--model", "dumy", "--tasks", "demo_capitals", "--progress", "none"];
    check(&context, "error_model", &model);
    check(&context, "error_metric", &["validate", "--tasks", "metric.yaml"]);
    check(&context, "error_field", &["validate", "--tasks", "field.yaml"]);
    check(&context, "error_template", &["preview", "template.yaml"]);
    check(&context, "error_yaml", &["validate", "--tasks", "yaml.yaml"]);
    check(&context, "error_filter", &["validate", "--tasks", "filter.yaml"]);
}

#[test]
fn every_snapshot_is_referenced() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let source = fs_err::read_to_string(folder.join("snapshots.rs")).unwrap();
    let mut unreferenced = BTreeSet::new();
    for entry in fs_err::read_dir(folder.join("snapshots")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".snap");
        if !name.is_some_and(|name| source.contains(&format!("\"{name}\""))) {
            unreferenced.insert(file);
        }
    }
    assert!(unreferenced.is_empty(), "No test uses {unreferenced:?}: remove them");
}
