//! `lm-eval merge`: the results of a run from its shards.

mod arguments;
mod check;
mod documents;
mod samples;
mod shard;

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Result;
use lmeval_claims::recipe::RECIPE;
use lmeval_core::secrets::mask_secrets;
use lmeval_core::{Diagnostic, ModelFacts};
use lmeval_engine::{EngineError, Evaluated, Events, score_stored};
use lmeval_pycompat::{Dict, Value, json, repr};
use lmeval_report::{ModelName, to_json};
use lmeval_tasks::{Task, TaskDict};

use crate::settings::RunSettings;

pub(crate) use self::arguments::MergeArgs;
use self::shard::{FoundShards, Shard};
use crate::commands::Status;
use crate::printer::Printer;
use crate::progress::RequestCounts;
use crate::run::events::RunEvents;
use crate::run::output::{self, Objects};
use crate::run::session::{Clock, Files, Session};
use crate::run::{choices, judges, thresholds};
use crate::words::counted;
use crate::{report, roots};

/// Keys of the results that are computed from all documents, and the times. All others are those of the first shard.
const OF_ALL_SHARDS: [&str; 20] = [
    "results",
    "groups",
    "group_subtasks",
    "configs",
    "versions",
    "n-shot",
    "higher_is_better",
    "n-samples",
    "samples",
    "date",
    "task_hashes",
    "total_evaluation_time_seconds",
    "audit",
    "bounds",
    "failed_requests",
    "code_limits",
    "judges",
    "model_usage",
    "judging",
    output::CHAT_DIGESTS,
];

/// Merges shards.
pub(crate) fn run(arguments: &MergeArgs, printer: &mut Printer) -> Result<Status> {
    let clock = Clock::start();
    let found = FoundShards::search(&arguments.shards)?;
    let missing = check::check(&found, arguments.partial)?;
    let shards = &found.shards;
    let first = &shards[0];
    let mut stored = first.settings.clone();
    stored.remove_str("shard");
    let settings = RunSettings::from_stored(&stored, &arguments.options())?;
    let roots = roots::resolve(&settings.library, printer)?;
    let manager = roots::manager(&roots, &settings.library)?.with_metadata(settings.metadata.clone());
    let manager = manager.with_unknown_hint(
        "The shards name this task; if it is in a file of yours, merge in the folder where they ran, or pass `--include_path DIR`",
    );
    let tasks = roots::load(&manager, &settings.documents.tasks, printer)?;
    thresholds::check(
        thresholds::FAIL_UNDER,
        &settings.scoring.fail_under,
        &tasks,
        &settings.dialect,
        settings.scoring.predict_only,
    )?;
    let model_args = Value::from(settings.model.args.clone());
    let mut session = Session::prepare(settings, clock, &roots, None, &model_args, printer.notes())?;
    let text = |key: &str| first.results.get_str(key).filter(|value| !value.is_none()).map(repr::str);
    if let (Some(name), Some(sanitized)) = (text("model_name"), text("model_name_sanitized")) {
        session.model_name = ModelName { name, sanitized };
    }
    session.open_files()?;
    let merge = Merge { session: &session, shards };
    let (evaluation, events) = merge.score(tasks)?;
    let mut objects = merge.objects(&evaluation, &events.task_hashes(&evaluation));
    if !missing.is_empty() {
        objects.insert("missing_shards", &Value::list(missing.iter().map(|index| Value::Int(*index as i64))));
    }
    output::print_warnings(&evaluation, printer);
    let (_, printed) = objects.publish(&session, events.checksums(&evaluation), printer)?;
    output::report_unusual_answers(&evaluation, printer);
    if !missing.is_empty() {
        let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
        printer.warn(&format!(
            "{} of {} missing ({}); scores on a subset are not comparable with full runs",
            counted(missing.len(), "shard"),
            first.number.count(),
            list.join(", ")
        ));
    }
    let failed = report_failures(shards, printer);
    let passed = thresholds::report(&session.settings.scoring.fail_under, &evaluation.results, printer)?;
    if failed {
        return Ok(Status::Failure);
    }
    if !passed {
        return Ok(Status::GateFailed);
    }
    printed.map(|()| Status::Success)
}

/// Everything that a merge consists of.
struct Merge<'a> {
    session: &'a Session,
    shards: &'a [Shard],
}

impl Merge<'_> {
    /// Scores the documents of all shards and writes their records.
    fn score(&self, tasks: TaskDict) -> Result<(Evaluated, Arc<RunEvents>)> {
        let events = Arc::new(self.session.events(&Arc::new(RequestCounts::new())));
        self.session.listen(None);
        let mut options = self.session.options();
        options.preview = false;
        options.answered_by = choices::abilities(&self.shards[0].results);
        let handler: Arc<dyn Events> = Arc::clone(&events) as Arc<dyn Events>;
        let evaluated = score_stored(tasks, &options, &handler, true, |key, task| {
            self.check_definition(key, task)?;
            documents::of_task(self.shards, key)
        });
        match evaluated {
            Ok(evaluated) if evaluated.answered > 0 => {
                if self.session.settings.output.log_samples {
                    self.merge_samples(&evaluated, &events).inspect_err(|_| events.discard_records())?;
                }
                Ok((evaluated, events))
            }
            Ok(_) => Err(Diagnostic::new("No shard has an answered document").into()),
            Err(error) => {
                events.discard_records();
                Err(error.into())
            }
        }
    }

    /// Merges the records of tasks whose values do not depend on several documents.
    fn merge_samples(&self, evaluated: &Evaluated, events: &RunEvents) -> Result<()> {
        let Some(Files { layout, stamp }) = &self.session.files else { return Ok(()) };
        let written = events.task_hashes(evaluated);
        for (task, _) in evaluated.tasks.iter().filter(|(task, _)| !written.contains_str(task)) {
            if let Some(merged) = samples::merge(self.shards, task, layout, stamp)? {
                events.add_records(task, merged);
            }
        }
        Ok(())
    }

    /// Checks that a task is defined as it was when the shards ran.
    fn check_definition(&self, key: &str, task: &Task) -> Result<(), EngineError> {
        let first = &self.shards[0];
        let Some(stored) = check::config(first, key) else { return Ok(()) };
        let settings = &self.session.settings;
        let mut config =
            task.config.to_dict(task.mapping(), &settings.dialect, settings.scoring.predict_only);
        if let Some(metadata) = config.get_str_mut("metadata") {
            *metadata = mask_secrets(metadata);
        }
        // As the results file of the shard has it.
        let now = to_json(&config).ok().and_then(|text| json::loads(&text).ok());
        let Some(Value::Dict(now)) = now else { return Ok(()) };
        match check::difference(stored, &now, &[]) {
            None => Ok(()),
            Some((name, then, now)) => Err(Diagnostic::new(format!(
                "The task `{key}` has changed since the shards ran: `{name}` was {then} and is {now}"
            ))
            .hint("Restore the definition, or score changed tasks with `lm-eval rescore` after the merge")
            .into()),
        }
    }

    /// The results, with everything that does not depend on the documents as the first shard reports it.
    fn objects(&self, evaluation: &Evaluated, task_hashes: &Dict) -> Objects {
        let first = &self.shards[0].results;
        let mut model_facts = ModelFacts::default();
        // The facts about the tokenizer stand between these two keys.
        let of_tokenizer = first.iter().skip_while(|(key, _)| key.as_str() != Some("upper_git_hash")).skip(1);
        model_facts.tokenizer = of_tokenizer
            .take_while(|(key, _)| key.as_str() != Some("task_hashes"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut facts = output::facts(self.session, model_facts, evaluation);
        facts.failed_requests = self.shards.iter().map(|shard| shard.failed_requests).sum();
        facts.judges = judges::total(self.shards.iter().map(|shard| &shard.results));
        facts.model_usage = judges::total_model_usage(self.shards.iter().map(|shard| &shard.results));
        let mut objects = Objects::new(&self.session.settings, &facts, evaluation, task_hashes);
        let of_data = first.get_str(output::DATA_DIGESTS).and_then(Value::as_dict);
        if let Some(recipe) = self.shards[0].results.get_str(RECIPE) {
            objects.insert(RECIPE, recipe);
        }
        objects.add_digests(output::DATA_DIGESTS, of_data.unwrap_or(&Dict::default()));
        let of_chats = chat_digests(self.shards.iter().map(|shard| &shard.results));
        objects.add_digests(output::CHAT_DIGESTS, &of_chats);
        for (key, value) in first.iter() {
            let key = key.as_str().unwrap_or_default();
            if !OF_ALL_SHARDS.contains(&key) {
                objects.replace(key, value);
            }
        }
        let of_shards = |key: &'static str| {
            self.shards.iter().filter_map(move |shard| shard.results.get_str(key)).cloned()
        };
        if let Some(date) = of_shards("date").min_by(|one, other| {
            let time = |date: &Value| date.to_f64().unwrap_or(f64::INFINITY);
            time(one).total_cmp(&time(other))
        }) {
            objects.replace("date", &date);
        }
        let seconds: f64 = of_shards("total_evaluation_time_seconds")
            .filter_map(|seconds| seconds.as_str().and_then(|text| text.parse::<f64>().ok()))
            .sum();
        objects.replace("total_evaluation_time_seconds", &Value::from(repr::float_repr(seconds)));
        objects
    }
}

/// The digests of all conversations: the sums of those of the shards.
fn chat_digests<'a>(results: impl Iterator<Item = &'a Dict>) -> Dict {
    let number = |digest: &Value| u128::from_str_radix(digest.as_str()?, 16).ok();
    let mut sums = Dict::new();
    for (task, digest) in
        results.filter_map(|results| results.get_str(output::CHAT_DIGESTS)?.as_dict()).flat_map(Dict::iter)
    {
        let sum = sums.get(task).and_then(number).unwrap_or_default();
        sums.insert(task.clone(), format!("{:032x}", sum.wrapping_add(number(digest).unwrap_or_default())));
    }
    sums
}

/// Lists requests that failed in shards. Returns whether there are any.
fn report_failures(shards: &[Shard], printer: &mut Printer) -> bool {
    let failed: usize = shards.iter().map(|shard| shard.failed_requests).sum();
    if failed == 0 {
        return false;
    }
    let mut text = format!(
        "{} failed permanently; their documents are excluded from the scores",
        counted(failed, "request")
    );
    for shard in shards.iter().filter(|shard| shard.failed_requests > 0) {
        let _ = write!(text, "\n  shard {}: {}", shard.number, counted(shard.failed_requests, "request"));
        for failure in shard.failures.iter().take(3) {
            let _ = write!(text, "\n    {failure}");
        }
    }
    let hint = "Run the commands of these shards again to send only the failed requests, then merge again";
    text += &report::hint_lines(&[hint.to_owned()]);
    printer.error(&text);
    true
}
