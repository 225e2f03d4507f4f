//! Checks that documentation matches the binary.

use std::fmt::Write;
use std::path::Path;

use crate::context;

const COMMANDS: [&[&str]; 18] = [
    &[],
    &["run"],
    &["ls"],
    &["validate"],
    &["show"],
    &["preview"],
    &["tasks"],
    &["tasks", "pull"],
    &["tasks", "list"],
    &["tasks", "use"],
    &["tasks", "remove"],
    &["journal"],
    &["journal", "ls"],
    &["journal", "verify"],
    &["journal", "compact"],
    &["journal", "export"],
    &["completions"],
    &["sandbox"],
];

#[test]
fn command_line_page_is_up_to_date() {
    let mut page = String::from(
        "# Command line\n\nThe output of `--help` for each command. A test generates this page; refresh it with\n\
         `UPDATE_DOCS=1 cargo test -p lmeval documentation`.\n",
    );
    for words in COMMANDS {
        let call = [&["lm-eval"], words].concat().join(" ");
        let output = context().run(&[words, &["--help"]].concat());
        assert_eq!(output.status, 0, "{output}");
        let text: Vec<&str> = output.stdout.trim_end().lines().map(str::trim_end).collect();
        let _ = write!(page, "\n## `{call}`\n\n```text\n{}\n```\n", text.join("\n"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, page).unwrap();
        return;
    }
    let current = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(
        current == page,
        "docs/command-line.md is stale: UPDATE_DOCS=1 cargo test -p lmeval documentation"
    );
}

/// The crate documentation has the same code as a tested example.
#[test]
fn rust_page_matches_the_tested_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs_err::read_to_string(root.join("../../docs/rust.md")).unwrap();
    let program = page.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let library = fs_err::read_to_string(root.join("src/lib.rs")).unwrap();
    let tested: Vec<&str> =
        library.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim).collect();
    for line in program.lines() {
        assert!(tested.contains(&line.trim()), "{line}");
    }
    for name in fs_err::read_dir(root.join("examples")).unwrap() {
        let name = name.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        assert!(page.contains(&format!("--example {name} ")), "{name}");
    }
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
