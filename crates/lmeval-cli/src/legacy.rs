//! Spellings of the command line that are accepted besides the documented ones: no subcommand, as in older releases, and
//! `--json` for `--format json` and the other way round.

use std::ffi::OsString;

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Rewrites the arguments before parsing: no arguments become `--help`, `lm-eval --model x --tasks y` means
/// `lm-eval run --model x --tasks y`, and the two ways to ask for JSON work in every command that has one of them.
pub(crate) fn rewrite(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let command = Cli::command();
    match arguments.len() {
        0 | 1 => arguments.push("--help".into()),
        2 => {}
        _ if subcommand_at(&arguments, &command).is_none() => arguments.insert(1, "run".into()),
        _ => {}
    }
    let Some((at, command)) = subcommand_at(&arguments, &command) else { return arguments };
    let (at, command) = subcommand_at(&arguments[at..], command)
        .map_or((at, command), |(further, nested)| (at + further, nested));
    let rest = arguments.split_off(at + 1);
    arguments.extend(with_known_format(rest, command));
    arguments
}

/// The first word after the program's name that is not a global option or its value, if it names a subcommand.
fn subcommand_at<'a>(arguments: &[OsString], command: &'a Command) -> Option<(usize, &'a Command)> {
    let mut at = 1;
    loop {
        let word = arguments.get(at)?.to_str()?;
        let Some(option) = word.strip_prefix("--") else {
            return command.find_subcommand(word).map(|found| (at, found));
        };
        let global =
            command.get_arguments().find(|known| known.is_global_set() && known.get_long() == Some(option));
        at += match global {
            Some(_) => 2,
            None if option.contains('=') => 1,
            None => return None,
        };
    }
}

/// Replaces `--json` by `--format json`, or the other way round, where the command has only the other one.
fn with_known_format(words: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let has = |name: &str| command.get_arguments().any(|known| known.get_long() == Some(name));
    let mut rewritten = Vec::with_capacity(words.len());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--json" && !has("json") && has("format") {
            rewritten.extend(["--format", "json"].map(OsString::from));
        } else if word == "--format"
            && !has("format")
            && has("json")
            && words.peek().is_some_and(|value| value == "json")
        {
            words.next();
            rewritten.push("--json".into());
        } else if word == "--format=json" && !has("format") && has("json") {
            rewritten.push("--json".into());
        } else {
            rewritten.push(word);
        }
    }
    rewritten
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

    #[test]
    fn finds_the_subcommand_after_global_options() {
        assert_eq!(rewritten("lm-eval --color never ls tasks"), "lm-eval --color never ls tasks");
        assert_eq!(rewritten("lm-eval --color=never ls tasks"), "lm-eval --color=never ls tasks");
        assert_eq!(rewritten("lm-eval --color never --model x"), "lm-eval run --color never --model x");
        assert_eq!(rewritten("lm-eval serve-python x"), "lm-eval serve-python x");
    }

    #[test]
    fn takes_both_ways_to_ask_for_json() {
        assert_eq!(rewritten("lm-eval --model x --json"), "lm-eval run --model x --format json");
        assert_eq!(rewritten("lm-eval table a --json"), "lm-eval table a --format json");
        assert_eq!(rewritten("lm-eval samples a --json"), "lm-eval samples a --format json");
        assert_eq!(rewritten("lm-eval ls tasks --format json"), "lm-eval ls tasks --json");
        assert_eq!(rewritten("lm-eval journal ls a --format=json"), "lm-eval journal ls a --json");
        assert_eq!(rewritten("lm-eval ls tasks --json"), "lm-eval ls tasks --json");
    }
}
