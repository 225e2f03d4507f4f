//! Forms of the call, help, exit codes.

use crate::context;

#[test]
fn no_words_ask_for_help() {
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
fn wrong_calls_end_with_two() {
    for words in [vec!["bogus"], vec!["ls", "bogus"], vec!["ls", "tasks", "--nothing"], vec!["--tasks=x"]] {
        let output = context().run(&words);
        assert_eq!(output.status, 2, "{words:?}: {output}");
        assert!(output.stderr.contains("Usage") || output.stderr.contains("--help"), "{output}");
    }
}

#[test]
fn long_options_may_be_shortened_and_spelled_with_dashes() {
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

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_failure() {
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
fn no_colour_reaches_a_pipe() {
    let output = context().run(&["show", "nothing"]);
    assert_eq!(output.status, 1);
    assert!(!output.stderr.contains('\u{1b}'), "{output}");
    let output = context().run(&["show", "nothing", "--color", "always"]);
    assert!(output.stderr.contains('\u{1b}'), "{output}");
}
