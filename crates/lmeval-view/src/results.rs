//! Summaries of runs as pages show them.

use std::path::Path;

use lmeval_analysis::budget::BudgetCurve;
use lmeval_analysis::summary::{self, Details, Summary};
use lmeval_core::secrets;
use lmeval_pycompat::Value;
use lmeval_scoring::results::task_file_name;
use serde_json::{Number, Value as Json};

use crate::Error;
use crate::api::{
    BudgetChart, PipelineAudit, RunDetail, RunHead, RunKind, RunSummary, Score, TaskDetail, TaskSummary,
};
use crate::catalog::FoundRun;
use crate::wire::{self, Num};

/// The summary of a run without a results file: the tasks are those of its samples files.
pub(crate) fn bare_summary(run: &FoundRun) -> Summary {
    let folder = run.path.parent().and_then(Path::file_name);
    let name = folder.map_or_else(|| run.shown.clone(), |name| name.to_string_lossy().into_owned());
    let tasks = run.samples.iter().map(|file| summary::TaskSummary {
        name: file.task.clone(),
        alias: file.task.clone(),
        ..summary::TaskSummary::default()
    });
    Summary { name, tasks: tasks.collect(), ..Summary::default() }
}

/// A run in a list.
pub(crate) fn summarise(run: &FoundRun, summary: &Summary) -> RunSummary {
    RunSummary {
        head: head(run, summary),
        tasks: summary.tasks.iter().map(|task| task_summary(run, task)).collect(),
    }
}

/// The page of a run; settings and configurations come from the results file.
pub(crate) fn detail(run: &FoundRun, summary: &Summary) -> Result<RunDetail, Error> {
    let details = match run.kind {
        RunKind::Results => Details::read(&run.path)?,
        RunKind::Samples | RunKind::Journal => Details::default(),
    };
    let json = |value: Option<&Value>| value.map_or(Json::Null, wire::json);
    let tasks = summary.tasks.iter().map(|task| TaskDetail {
        summary: task_summary(run, task),
        scores: task.scores.iter().map(Score::from).collect(),
        version: json(task.version.as_ref()),
        num_fewshot: json(task.num_fewshot.as_ref()),
        audit: task
            .audit
            .iter()
            .map(|audit| PipelineAudit {
                filter: audit.filter.clone(),
                documents: audit.documents,
                answers: audit.answers,
                counts: audit.problems.iter().copied().collect(),
            })
            .collect(),
        config: json(details.configs.get_str(&task.name).map(secrets::mask_secrets).as_ref()),
    });
    Ok(RunDetail {
        tasks: tasks.collect(),
        head: RunHead { changed: details.changed, ..head(run, summary) },
        settings: details.settings.iter().map(|(key, value)| (key.clone(), wire::json(value))).collect(),
        journal: None,
        budget: budget(run),
    })
}

/// The newest curve that was made of a run. One that cannot be read is not shown; `lm-eval budget` writes it again.
fn budget(run: &FoundRun) -> Option<BudgetChart> {
    let curve = BudgetCurve::newest(&run.path).ok()??;
    let figure = curve.figure();
    let (width, height) = figure.size();
    Some(BudgetChart { svg: figure.to_svg(), width, height, notes: curve.notes })
}

fn head(run: &FoundRun, summary: &Summary) -> RunHead {
    RunHead {
        id: run.id.clone(),
        name: summary.name.clone(),
        kind: run.kind,
        path: run.shown.clone(),
        date: summary.date,
        duration: summary.duration,
        version: summary.version.clone(),
        backend: summary.backend.clone(),
        model_args: summary.model_args.clone(),
        limit: summary.limit,
        num_fewshot: summary.num_fewshot,
        documents: summary.documents,
        failed_requests: count(summary.failed_requests),
        audit: summary.problems().into_iter().collect(),
        has_samples: !run.samples.is_empty(),
        changed: summary.changed.clone(),
    }
}

fn task_summary(run: &FoundRun, task: &summary::TaskSummary) -> TaskSummary {
    TaskSummary {
        task: task.name.clone(),
        alias: task.alias.clone(),
        is_group: task.is_group,
        depth: task.depth,
        main: task.scores.first().map(Score::from),
        documents: task.documents,
        failed: count(task.failed),
        has_samples: samples_of(run, &task.name).is_some(),
    }
}

/// A count of a results file, which may be any number there.
fn count(value: f64) -> Number {
    Number::from_f64(value).unwrap_or_else(|| Number::from(0))
}

impl From<&summary::Score> for Score {
    fn from(score: &summary::Score) -> Self {
        Self {
            metric: score.metric.clone(),
            filter: score.filter.clone(),
            value: score.value.map(Num),
            stderr: score.stderr.map(Num),
            low: score.interval.map(|interval| Num(interval.low)),
            high: score.interval.map(|interval| Num(interval.high)),
            bounds: score.bounds.map(|bounds| [Num(bounds.low), Num(bounds.high)]),
            higher_is_better: score.higher_is_better,
        }
    }
}

/// The samples file of a task. File names replace some characters, so names are compared in that form.
pub(crate) fn samples_of<'run>(run: &'run FoundRun, task: &str) -> Option<&'run Path> {
    let wanted = task_file_name(task);
    let exact = run.samples.iter().find(|file| file.task == task);
    let found = exact.or_else(|| run.samples.iter().find(|file| task_file_name(&file.task) == wanted));
    found.map(|file| file.path.as_path())
}
