//! Command lines without a subcommand, as in older releases.

use std::ffi::OsString;

/// First words that are subcommands; anything else followed by more words means `run`.
const COMMANDS: [&str; 20] = [
    "run",
    "ls",
    "validate",
    "show",
    "preview",
    "tasks",
    "journal",
    "compare",
    "view",
    "report",
    "samples",
    "table",
    "rescore",
    "merge",
    "doctor",
    "worker",
    "ray",
    "completions",
    "sandbox",
    "help",
];

/// Rewrites the arguments before parsing: no arguments become `--help`, and
/// `lm-eval --model x --tasks y` means `lm-eval run --model x --tasks y`.
pub(crate) fn rewrite(mut arguments: Vec<OsString>) -> Vec<OsString> {
    match arguments.as_slice() {
        [] | [_] => arguments.push("--help".into()),
        [_, _] => {}
        [_, first, ..] if COMMANDS.iter().any(|command| first == command) => {}
        _ => arguments.insert(1, "run".into()),
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(words: &str) -> String {
        let arguments = words.split_whitespace().map(OsString::from).collect();
        rewrite(arguments)
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn puts_run_in_front_of_options() {
        assert_eq!(rewritten("lm-eval"), "lm-eval --help");
        assert_eq!(rewritten("lm-eval run"), "lm-eval run");
        assert_eq!(rewritten("lm-eval ls"), "lm-eval ls");
        assert_eq!(rewritten("lm-eval --version"), "lm-eval --version");
        assert_eq!(rewritten("lm-eval --model dummy"), "lm-eval run --model dummy");
        assert_eq!(rewritten("lm-eval foo bar"), "lm-eval run foo bar");
        assert_eq!(rewritten("lm-eval ls tasks"), "lm-eval ls tasks");
    }
}
