//! Prepares scoring before the first request; errors carry the location in the task file.

use lmeval_core::{Diagnose, OutputType};
use lmeval_scoring::HostError;
use lmeval_scoring::filters::FilterError;
use lmeval_scoring::registry::replacements_for_evaluate;
use lmeval_scoring::scorers::{ScoreError, ScoringSources, TaskScorer};

use super::registered;
use super::specs::task_scorer;
use super::uses::{ComputedBy, ScoringUse, UseKind, scoring_uses};
use crate::Task;
use crate::config::{ConfigPath, listed, shortened};
use crate::error::{Error, ErrorKind, Location};

/// Builds the scorer of a task, as [`task_scorer`] does; errors carry a location and hints.
///
/// A run calls it for all tasks before it sends a request. It checks names, arguments and patterns, and that something
/// can run the Python code that the task refers to.
pub fn prepare_scoring(
    task: &Task,
    sources: &ScoringSources,
    predict_only: bool,
) -> Result<TaskScorer, Error> {
    let resolved = if predict_only { None } else { Some(registered::resolve(task, sources)?) };
    let sources = resolved.as_ref().map_or(sources, |resolved| &resolved.sources);
    let known = resolved.as_ref().map_or(&[][..], |resolved| &resolved.known);
    let uses = if predict_only { Vec::new() } else { scoring_uses(&task.config, sources) };
    for used in &uses {
        if let Some(error) = missing(used, sources, task.config.output_type) {
            let hint = registered::hint(known, used.kind.word());
            return Err(hint.into_iter().fold(error, Error::hint).at(used.path.locate(task.mapping())));
        }
    }
    task_scorer(&task.config, sources, predict_only).map_err(|error| {
        let location = match &error {
            ScoreError::ScorerSetting { problem, .. } => setting_location(task, &problem.path),
            _ => culprit(&error, &uses).and_then(|used| used.path.locate(task.mapping())),
        };
        let located = Error::new(ErrorKind::Value, error.to_string()).at(location);
        let registered = match &error {
            ScoreError::Unknown(unknown) => registered::hint(known, unknown.kind),
            ScoreError::Filter(error) if matches!(&*error.source, FilterError::Unknown(_)) => {
                registered::hint(known, UseKind::Filter.word())
            }
            _ => None,
        };
        error.hints().into_iter().chain(registered).fold(located, Error::hint).including_cause(error)
    })
}

/// The error for a name that nothing can compute.
fn missing(used: &ScoringUse, sources: &ScoringSources, output_type: OutputType) -> Option<Error> {
    let (path, name) = (&used.path, shortened(&used.name));
    match &used.by {
        ComputedBy::Evaluate => {
            let message = format!("`{path}`: the metric `{name}` needs Python's `evaluate` package");
            let error = Error::new(ErrorKind::Value, message);
            let instead = replacements_for_evaluate(&used.name);
            let error = if instead.is_empty() {
                error
            } else {
                error.hint(format!("Built in, without Python: {}", listed(instead)))
            };
            Some(error.hint(
                "This program does not call that package; a function of the task that does can be the metric, as \
                 `metric: !function module.name`, or deliver the value, as `process_results`",
            ))
        }
        ComputedBy::TaskCode => {
            let word = used.kind.word();
            let message =
                format!("`{path}`: the {word} `{name}` needs Python, since the task library implements it");
            Some(Error::new(ErrorKind::Value, message))
        }
        // The purpose of a function does not matter here, only whether something can run it.
        ComputedBy::Function(function) => match sources.host.metric(function) {
            Err(HostError::NeedsPython { .. }) => {
                let function = shortened(&function.reference);
                let message = if used.name == function {
                    format!("`{path}`: the function `{function}` needs Python")
                } else {
                    format!("`{path}`: the filter `{name}` calls `{function}`, which needs Python")
                };
                let hint = "Python is not available here; templates, built-in filters and built-in metrics work without it";
                Some(Error::new(ErrorKind::Value, message).hint(hint))
            }
            _ => None,
        },
        ComputedBy::Nobody if used.kind == UseKind::Metric => {
            let message = format!("`{path}`: `{name}` is not a known metric");
            let hint = "A custom metric name needs a `process_results` function that computes it";
            let near = sources.registry.metrics_like(&used.name, output_type);
            Some(Error::new(ErrorKind::UnknownName, message).did_you_mean(&near).hint(hint))
        }
        _ => None,
    }
}

/// The use that an error is about.
fn culprit<'a>(error: &ScoreError, uses: &'a [ScoringUse]) -> Option<&'a ScoringUse> {
    let named = |kind: UseKind, name: &str| uses.iter().find(|used| used.kind == kind && used.name == name);
    match error {
        ScoreError::Unknown(unknown) => {
            uses.iter().find(|used| used.kind.word() == unknown.kind && used.name == unknown.name)
        }
        ScoreError::OutputType { metric, .. }
        | ScoreError::Options { metric, .. }
        | ScoreError::NoFunction { metric }
        | ScoreError::MetricName { metric } => named(UseKind::Metric, metric),
        ScoreError::Filter(error) => match &*error.source {
            FilterError::Unknown(unknown) => named(UseKind::Filter, &unknown.name),
            FilterError::NeedsPython { filter }
            | FilterError::UnknownArgument { filter, .. }
            | FilterError::MissingArgument { filter, .. }
            | FilterError::WrongArgument { filter, .. }
            | FilterError::Pattern { filter, .. }
            | FilterError::Host { filter, .. } => named(UseKind::Filter, filter),
            _ => None,
        },
        _ => None,
    }
}

/// The location of an option of the scorer, or of the scorer if the option is not in the file.
fn setting_location(task: &Task, path: &[String]) -> Option<Location> {
    let scorer = task.config.scorer.as_ref()?;
    let of = |from: ConfigPath| path.iter().fold(from, |path, step| path.then(step.as_str()));
    let places = [of(scorer.path.clone()), of(scorer.path.then("kwargs")), scorer.path.clone()];
    places.iter().find_map(|path| path.locate(task.mapping()))
}
