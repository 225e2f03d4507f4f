//! Command-line forms, help and exit codes.

#[cfg(unix)]
use lmeval_testkit::TestContext;

use crate::context;

#[test]
fn no_arguments_print_help() {
    let output = context().run(&[]);
    assert_eq!(output.status, 0);
    assert!(output.stdout.contains("Usage: lm-eval") && output.stdout.contains("validate"));
    let output = context().run(&["run", "--help"]);
    assert_eq!(output.status, 0);
    assert!(output.stdout.contains("Usage: lm-eval run"), "{output}");
    let output = context().run(&["ls"]);
    assert_eq!(output.status, 0);
    assert!(output.stdout.contains("Usage: lm-eval ls"), "{output}");
}

#[test]
fn unknown_tasks_suggest_installing_the_library() {
    let context = context();
    for words in [
        &["show", "arc_easy"][..],
        &["preview", "arc_easy"],
        &["run", "--tasks", "arc_easy"],
        &["validate", "--tasks", "arc_easy"],
    ] {
        let output = context.run(words);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("`lm-eval tasks pull` installs it"), "{words:?}: {output}");
    }
    // If the library is installed, or was not requested, the name is simply wrong.
    let output = context.run(&["show", "arc_easy", "--library", "builtin"]);
    assert!(!output.stderr.contains("tasks pull"), "{output}");
    context.write("library/lm_eval/tasks/toy/toy.yaml", "task: toy\ndataset_path: json\n");
    assert_eq!(context.run(&["tasks", "pull", "0.4.13", "--from", "library"]).status, 0);
    let output = context.run(&["show", "arc_easy"]);
    assert!(!output.stderr.contains("tasks pull"), "{output}");
}

#[test]
fn limit_has_the_same_short_flags_everywhere() {
    for short in ["-L", "-n"] {
        let output = context().run(&["run", "--model", "uniform", "--tasks", "demo_capitals", short, "3"]);
        assert!(output.stdout.contains("limit: 3.0"), "{output}");
        let output = context().run(&["preview", "demo_capitals", short, "3"]);
        assert_eq!(output.stdout.matches("=== demo_capitals, document").count(), 3, "{output}");
    }
}

#[test]
fn help_lists_documented_commands() {
    let output = context().run(&["--help"]);
    assert!(output.stdout.contains("\n  sandbox "), "{output}");
    let output = context().run(&["preview", "demo_capitals", "--num_fewshot", "-1"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`num_fewshot` must be a non-negative integer"), "{output}");
}

#[test]
fn suggests_similar_models() {
    let output = context().run(&["run", "--model", "hff", "--tasks", "demo_capitals"]);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("hint: Did you mean `hf`"), "{output}");
    let output = context().run(&["run", "--model", "zebra", "--tasks", "demo_capitals"]);
    assert!(output.stderr.contains("`hf`") && output.stderr.contains("lm-eval ls models"), "{output}");
}

#[test]
fn usage_errors_exit_with_two() {
    for words in [vec!["bogus"], vec!["ls", "bogus"], vec!["ls", "tasks", "--nothing"], vec!["--tasks=x"]] {
        let output = context().run(&words);
        assert_eq!(output.status, 2, "{words:?}: {output}");
        assert!(output.stderr.contains("Usage") || output.stderr.contains("--help"), "{output}");
    }
}

#[test]
fn accepts_abbreviated_and_dashed_options() {
    let context = context();
    context.write("tasks/a.yaml", "task: a_task\n");
    for option in ["--include_path", "--include-path", "--incl"] {
        let output = context.run(&["ls", "subtasks", option, "tasks"]);
        assert!(output.stdout.contains("a_task"), "{option}: {output}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = context().run(&["completions", shell]);
        assert_eq!(output.status, 0);
        assert!(output.stdout.contains("validate"), "{shell}");
    }
}

/// Bash completions for some words.
#[cfg(unix)]
fn completed(context: &TestContext, words: &[&str]) -> Vec<String> {
    let script = "source <(\"$1\" completions bash); shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
         _lm_eval_names \"${COMP_WORDS[0]}\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let binary = env!("CARGO_BIN_EXE_lm-eval");
    let output = std::process::Command::new("bash")
        .args(["-c", script, "bash", binary, binary])
        .args(words)
        .current_dir(context.work())
        .env("LM_EVAL_HOME", context.lm_eval_home())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
fn bash_completes_names_of_tasks_and_models() {
    let context = context();
    context.write("mine.yaml", "task: mine\n");
    assert_eq!(completed(&context, &["run", "--tasks", "demo_cap"]), ["demo_capitals"]);
    assert_eq!(completed(&context, &["run", "--tasks", "demo_prose,demo_cap"]), ["demo_prose,demo_capitals"]);
    assert_eq!(completed(&context, &["run", "--tasks", "mi"]), ["mine.yaml"]);
    assert_eq!(completed(&context, &["run", "-M", "ngr"]), ["ngram"]);
    assert_eq!(completed(&context, &["run", "--model", "hf-a"]), ["hf-auto", "hf-audiolm-qwen"]);
    assert_eq!(completed(&context, &["show", "demo_cap"]), ["demo_capitals"]);
    assert_eq!(completed(&context, &["preview", "demo_prose", "demo_cap"]), ["demo_capitals"]);
    assert!(completed(&context, &["run", "--num_f"]).contains(&"--num_fewshot".to_owned()));
    assert!(completed(&context, &["val"]).contains(&"validate".to_owned()));
}

#[test]
fn other_shells_query_names() {
    let zsh = context().run(&["completions", "zsh"]).stdout;
    assert!(zsh.starts_with("#compdef lm-eval\n"), "{zsh}");
    for part in [":TASKS:_lm_eval_tasks'", ":NAME:_lm_eval_models'", "YAML files:_lm_eval_tasks'"] {
        assert!(zsh.contains(part), "{part}");
    }
    let fish = context().run(&["completions", "fish"]).stdout;
    assert!(fish.contains("lm-eval ls tasks --names") && fish.contains("lm-eval ls models --names"));
}

#[cfg(unix)]
#[test]
fn closed_pipe_is_not_a_failure() {
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!(
            "'{}' ls tasks --json | true; test ${{PIPESTATUS:-0}} = 0",
            env!("CARGO_BIN_EXE_lm-eval")
        ))
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn no_color_in_pipes() {
    let output = context().run(&["show", "nothing"]);
    assert_eq!(output.status, 1);
    assert!(!output.stderr.contains('\u{1b}'), "{output}");
    let output = context().run(&["show", "nothing", "--color", "always"]);
    assert!(output.stderr.contains('\u{1b}'), "{output}");
}
