//! Checks that documentation matches the binary.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use lmeval_tasks::config::TASK_KEYS;

use crate::context;

/// Adds the help of a command and of its subcommands, in the order in which the help lists them.
fn add_help(page: &mut String, words: &[&str]) {
    let call = [&["lm-eval"], words].concat().join(" ");
    let output = context().run(&[words, &["--help"]].concat());
    assert_eq!(output.status, 0, "{output}");
    let text: Vec<&str> = output.stdout.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## `{call}`\n\n```text\n{}\n```\n", text.join("\n"));
    let listed =
        text.iter().skip_while(|line| **line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed {
        // Further lines of a description are indented further.
        let name = line.strip_prefix("  ").and_then(|line| line.split(' ').next()).unwrap_or_default();
        if !matches!(name, "" | "help") {
            add_help(page, &[words, &[name]].concat());
        }
    }
}

#[test]
fn command_line_page_is_up_to_date() {
    let mut page = String::from(
        "# Command line\n\nThe output of `--help` for each command. A test generates this page; refresh it with\n\
         `UPDATE_DOCS=1 cargo test -p lmeval-cli documentation`.\n",
    );
    add_help(&mut page, &[]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, page).unwrap();
        return;
    }
    let current = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(
        current == page,
        "docs/command-line.md is stale: UPDATE_DOCS=1 cargo test -p lmeval-cli documentation"
    );
}

#[test]
fn task_file_page_examples_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/task-files.md");
    let page = fs_err::read_to_string(path).unwrap();
    let context = context();
    let mut files = 0;
    for (number, example) in page.split("```yaml\n").skip(1).enumerate() {
        let text = example.split("```").next().unwrap();
        if text.starts_with("task:") || text.starts_with("group:") {
            context.write(format!("tasks/{number}.yaml"), text);
            files += 1;
        }
    }
    assert_eq!(files, 3);
    let output = context.run(&["validate", "--strict", "--include_path", "tasks"]);
    assert_eq!(output.status, 0, "{output}");
}

/// Adds the sources of the engine and of the Python package, tests and benchmarks excluded.
fn add_sources(folder: &Path, sources: &mut Vec<String>) {
    let mut entries: Vec<PathBuf> =
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir()
            && !matches!(name.as_str(), "tests" | "lmeval-testkit" | "lmeval-bench" | "__pycache__")
        {
            add_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            sources.push(fs_err::read_to_string(path).unwrap());
        }
    }
}

/// The names in backticks that look like environment variables.
fn variables(text: &str) -> BTreeSet<&str> {
    let is_variable = |name: &str| {
        name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    text.split('`').filter(|name| is_variable(name)).collect()
}

#[test]
fn environment_page_names_the_variables_that_are_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs_err::read_to_string(root.join("docs/environment.md")).unwrap();
    let mut sources = Vec::new();
    add_sources(&root.join("crates"), &mut sources);
    add_sources(&root.join("python/lm_eval"), &mut sources);

    let ours = ["LM_EVAL_", "LMEVAL_", "LM_HARNESS_", "HF_", "AZURE_", "XDG_", "TRANSFORMERS_"];
    // Values of tests, and a setting inside a Python package.
    let others = ["LM_EVAL_TEST_", "HF_EVALUATE_OFFLINE"];
    let read: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.split('"'))
        .filter(|name| ours.iter().any(|prefix| name.starts_with(prefix)) || name.ends_with("_API_KEY"))
        .filter(|name| !others.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    assert!(read.len() > 25, "{read:?}");
    let named = variables(&page);
    let missing: Vec<_> = read.difference(&named).collect();
    assert!(missing.is_empty(), "docs/environment.md does not name {missing:?}");

    let (listed, _) = page.split_once("## Read by libraries").unwrap();
    for row in listed.lines().filter(|line| line.starts_with("| `")) {
        for name in variables(row.split('|').nth(1).unwrap()) {
            let literal = format!("\"{name}\"");
            assert!(sources.iter().any(|source| source.contains(&literal)), "nothing reads `{name}`");
        }
    }
}

#[test]
fn task_file_page_lists_the_known_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/task-files.md");
    let page = fs_err::read_to_string(path).unwrap();
    let table = page.split("\n## ").find(|section| section.starts_with("Keys of a task")).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let listed: BTreeSet<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    // Read before the file is a configuration, and written by the engine.
    let known: BTreeSet<&str> =
        TASK_KEYS.into_iter().filter(|key| !key.starts_with('_')).chain(["class", "include"]).collect();
    assert_eq!(listed, known);
}

#[test]
fn reference_pages_name_built_ins_and_their_options() {
    let registry = lmeval::registry();
    let filter_options = registry.filters.iter().flat_map(|entry| entry.options.known.iter());
    let metric_options = registry.metrics.iter().flat_map(|entry| entry.options.known.iter());
    // A key of the task, which the engine passes to metrics.
    let metric_options = metric_options.filter(|option| option.name != "multiple_targets");
    let metrics =
        [registry.metrics.names(), registry.aggregations.names(), registry.reductions.names()].concat();
    let pages: [(&[&str], Vec<&str>); 7] = [
        (&["metrics.md"], metrics),
        (&["metrics.md"], metric_options.map(|option| &*option.name).collect()),
        (&["filters.md"], registry.filters.names()),
        (&["filters.md"], filter_options.map(|option| &*option.name).collect()),
        (&["scorers.md"], registry.scorers.names()),
        (&["task-files.md"], [registry.samplers.names(), registry.formats.names()].concat()),
        (&["models.md", "hf-models.md", "local-models.md"], registry.models.names()),
    ];
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (files, names) in pages {
        assert!(!names.is_empty(), "{files:?}");
        let text: String =
            files.iter().map(|file| fs_err::read_to_string(docs.join(file)).unwrap()).collect();
        for name in names {
            assert!(text.contains(&format!("`{name}`")), "{files:?} does not name `{name}`");
        }
    }
}
