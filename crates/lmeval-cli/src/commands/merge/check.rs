//! Checks that shards belong to one run.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_report::lm_eval_version;

use super::shard::{FoundShards, Shard};
use crate::settings::ShardNumber;

/// Settings that cannot change a score. The arguments of the model count as far as its identity contains them.
const WITHOUT_EFFECT: [&str; 21] = [
    "config",
    "shard",
    "output_path",
    "use_cache",
    "fresh",
    "max_failures",
    "cache_requests",
    "batch_size",
    "max_batch_size",
    "device",
    "model_args",
    "progress",
    "quiet",
    "view",
    "format",
    "verbosity",
    "write_out",
    "show_config",
    "include_path",
    "python",
    "fail_under",
];

/// Checks the shards; returns the numbers of missing ones, which are an error unless `partial`.
pub(super) fn check(found: &FoundShards, partial: bool) -> Result<Vec<usize>> {
    let Some(first) = found.shards.first() else {
        let (number, folder) = &found.unfinished[0];
        let message =
            format!("Shard {number} in `{}` is not finished, and there is no other", folder.display());
        bail!(Diagnostic::new(message).hint("Run its command again; it resumes where it stopped"));
    };
    for pair in found.shards.windows(2) {
        check_pair(first, &pair[0], &pair[1])?;
    }
    if first.version != lm_eval_version() {
        let message =
            format!("The shards are from lm-eval {}, and this is {}", first.version, lm_eval_version());
        bail!(Diagnostic::new(message).hint("Merge with the version that evaluated them"));
    }
    let count = first.number.count();
    let has = |index: usize| found.shards.iter().any(|shard| shard.number.index() == index);
    let missing: Vec<usize> = (1..=count).filter(|index| !has(*index)).collect();
    if !missing.is_empty() && !partial {
        bail!(missing_shards(found, &missing, count));
    }
    Ok(missing)
}

/// Checks that neighbours, sorted by number, are different shards of the same run as the first one.
fn check_pair(first: &Shard, before: &Shard, shard: &Shard) -> Result<()> {
    let (one, other) = (first.folder.display(), shard.folder.display());
    if first.number.count() != shard.number.count() {
        bail!(
            differ(
                first,
                shard,
                &format!("`{one}` is shard {} and `{other}` shard {}", first.number, shard.number)
            )
            .hint("Shards of one run have the same total; name only the folders of one run")
        );
    }
    if before.number == shard.number {
        let message =
            format!("Shard {} is given twice: `{}` and `{other}`", shard.number, before.folder.display());
        bail!(Diagnostic::new(message).hint("Name one of them, or move the other out of the folder"));
    }
    if first.version != shard.version {
        let versions = format!("lm-eval {} in `{one}`, {} in `{other}`", first.version, shard.version);
        bail!(differ(first, shard, &versions).hint("Run them with the same version"));
    }
    if first.model.0 != shard.model.0 {
        let models = format!("Another model.\n  `{one}`: {}\n  `{other}`: {}", first.model.1, shard.model.1);
        bail!(differ(first, shard, &models).hint(
            "Answers of one model from several servers count as the same with `model_id=NAME` in `--model_args`"
        ));
    }
    if let Some((name, left, right)) = difference(&first.settings, &shard.settings, &WITHOUT_EFFECT) {
        let values = format!("`{name}` is {left} in `{one}` and {right} in `{other}`");
        bail!(differ(first, shard, &values).hint("Run all shards with the same settings"));
    }
    check_tasks(first, shard)
}

fn check_tasks(first: &Shard, shard: &Shard) -> Result<()> {
    let (one, other) = (first.folder.display(), shard.folder.display());
    let names = |shard: &Shard| -> Vec<String> { shard.tasks.iter().map(|(name, _)| name.clone()).collect() };
    if names(first) != names(shard) {
        let lists = [first, shard].map(|shard| names(shard).join(", "));
        let message = format!("Other tasks.\n  `{one}`: {}\n  `{other}`: {}", lists[0], lists[1]);
        bail!(differ(first, shard, &message).hint("Run all shards with the same `--tasks`"));
    }
    for (name, file) in &shard.tasks {
        let configs = [first, shard].map(|shard| config(shard, name));
        if let [Some(left), Some(right)] = configs
            && let Some((key, left, right)) = difference(left, right, &[])
        {
            let message = format!("The task `{name}` has `{key}` {left} in `{one}` and {right} in `{other}`");
            bail!(differ(first, shard, &message).hint("Run all shards with the same task definitions"));
        }
        let original = first.task(name).map_or(file.original, |file| file.original);
        if original != file.original {
            let counts = format!(
                "The data of `{name}` has {original} documents in `{one}` and {} in `{other}`",
                file.original
            );
            bail!(differ(first, shard, &counts).hint("Run all shards on the same version of the dataset"));
        }
        if first.task(name).is_some_and(|own| own.data != file.data) {
            let message = format!(
                "The documents, few-shot examples or prompts of `{name}` in `{one}` are not those in `{other}`, although there are \
                 as many"
            );
            bail!(differ(first, shard, &message).hint("Run all shards on the same version of the dataset"));
        }
    }
    Ok(())
}

/// The configuration of a task in the results of a shard.
pub(super) fn config<'a>(shard: &'a Shard, task: &str) -> Option<&'a Dict> {
    shard.results.get_str("configs")?.as_dict()?.get_str(task)?.as_dict()
}

fn differ(first: &Shard, shard: &Shard, reason: &str) -> Diagnostic {
    Diagnostic::new(format!(
        "Shards {} and {} are not of the same run: {reason}",
        first.number.index(),
        shard.number.index()
    ))
}

/// The first setting that differs, with both values.
pub(super) fn difference(one: &Dict, other: &Dict, ignored: &[&str]) -> Option<(String, String, String)> {
    let shown =
        |value: Option<&Value>| value.map_or("not set".to_owned(), |value| excerpt(&repr::repr(value)));
    let keys = one.keys().chain(other.keys());
    let mut keys = keys.filter(|key| !key.as_str().is_some_and(|key| ignored.contains(&key)));
    let key = keys.find(|key| one.get(key) != other.get(key))?;
    Some((repr::str(key), shown(one.get(key)), shown(other.get(key))))
}

/// The start of a value.
fn excerpt(text: &str) -> String {
    const SHOWN: usize = 100;
    let start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() { format!("`{start}…`") } else { format!("`{start}`") }
}

fn missing_shards(found: &FoundShards, missing: &[usize], count: usize) -> Diagnostic {
    let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let mut message = format!(
        "{} of {count} shards {} missing: {}",
        missing.len(),
        if missing.len() == 1 { "is" } else { "are" },
        list.join(", ")
    );
    let unfinished = |index: &usize| {
        let number = ShardNumber::new(*index, count)?;
        found.unfinished.iter().find(|(known, _)| *known == number)
    };
    let mut diagnostic_hint = None;
    for (number, folder) in missing.iter().filter_map(unfinished) {
        let _ = write!(message, "\n  shard {number} in `{}` is not finished", folder.display());
        diagnostic_hint = Some("Run the command of an unfinished shard again; it resumes where it stopped");
    }
    let diagnostic = Diagnostic::new(message);
    let diagnostic = diagnostic_hint.into_iter().fold(diagnostic, Diagnostic::hint);
    diagnostic.hint("`--partial` merges the others; their scores are not comparable with full runs")
}
