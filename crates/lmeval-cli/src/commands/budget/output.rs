//! Curves as tables, CSV, JSON, SVG and PNG.

use std::path::Path;

use anyhow::Result;
use fs_err as fs;
use lmeval_analysis::budget::{BudgetCurve, BudgetPoint, RepeatsAt, ScoreAt, TaskCurve};
use lmeval_report::{Moment, write_atomically};

use crate::commands::curve::Format;
use crate::environment;
use crate::printer::Printer;
use crate::{csv, table};

/// Prints a curve.
pub(super) fn print(curve: &BudgetCurve, format: Format, printer: &mut Printer) -> Result<()> {
    match format {
        Format::Table => {
            printer.table(&scores(curve))?;
            let repeats = repeats(curve);
            if !repeats.is_empty() {
                printer.result("\n")?;
                printer.table(&repeats)?;
            }
        }
        Format::Csv => printer.data(&lines(curve), false)?,
        Format::Json => printer.data(&curve.to_json(), true)?,
        Format::Jsonl => printer.data(&curve.to_lines(), true)?,
        Format::Svg => printer.exact(&curve.figure().to_svg())?,
    }
    printer.flush()?;
    for note in &curve.notes {
        printer.note(&format!("note: {note}"));
    }
    Ok(())
}

/// Writes the curve to a folder in all formats. In the folder of a run, the viewer shows it.
pub(super) fn save(curve: &BudgetCurve, folder: &Path, printer: &Printer) -> Result<()> {
    fs::create_dir_all(folder)?;
    let stamp = Moment::now().stamp(&environment::time_zone());
    let files = curve.files(&stamp, lines(curve))?;
    for (name, content) in &files {
        write_atomically(&folder.join(name), content)?;
    }
    let names: Vec<String> = files.iter().map(|(name, _)| folder.join(name).display().to_string()).collect();
    printer.notes().info(&format!("Wrote {}", names.join(", ")));
    Ok(())
}

fn budget(point: &BudgetPoint) -> String {
    point.budget.map_or_else(|| "all".to_owned(), |budget| budget.to_string())
}

/// One row per score and budget.
fn scores(curve: &BudgetCurve) -> String {
    let headers = ["Tasks", "Filter", "Metric", "Budget", "Finished", "Tokens", "Value", "95 % interval"];
    let mut rows = Vec::new();
    for task in &curve.tasks {
        for first in task.points.first().map(|point| point.scores.as_slice()).unwrap_or_default() {
            for point in &task.points {
                let Some(score) = same(first, point) else { continue };
                rows.push(vec![
                    task.task.clone(),
                    score.filter.clone(),
                    score.metric.clone(),
                    budget(point),
                    percent(point.finished),
                    format!("{:.0}", point.tokens),
                    number(score.value),
                    interval(score.interval),
                ]);
            }
        }
    }
    table::render(&headers.map(str::to_owned), &rows, 3)
}

fn same<'a>(score: &ScoreAt, point: &'a BudgetPoint) -> Option<&'a ScoreAt> {
    point.scores.iter().find(|other| other.metric == score.metric && other.filter == score.filter)
}

/// For the answers as they are: one row per score and number of repeats. Empty without repeats.
fn repeats(curve: &BudgetCurve) -> String {
    let headers = [
        "Tasks",
        "Filter",
        "Metric",
        "k",
        "avg@k",
        "95 % interval",
        "pass@k",
        "95 % interval",
        "maj@k",
        "95 % interval",
    ];
    let mut rows = Vec::new();
    for (task, point) in curve.tasks.iter().filter_map(|task| Some((task, task.points.last()?))) {
        for first in point.repeats.iter().filter(|at| at.reduction == "avg") {
            let cells = ["avg", "pass", "maj"].iter().flat_map(|reduction| {
                let is_same = |at: &&RepeatsAt| {
                    at.reduction == *reduction
                        && at.k == first.k
                        && at.metric == first.metric
                        && at.filter == first.filter
                };
                let found = point.repeats.iter().find(is_same);
                [number(found.map(|at| at.value)), interval(found.and_then(|at| at.interval))]
            });
            let names = [task.task.clone(), first.filter.clone(), first.metric.clone(), first.k.to_string()];
            rows.push(names.into_iter().chain(cells).collect());
        }
    }
    if rows.is_empty() { String::new() } else { table::render(&headers.map(str::to_owned), &rows, 3) }
}

/// Comma-separated values with all digits: a line per score, budget and number of repeats. Scores of the run have no `k`.
fn lines(curve: &BudgetCurve) -> String {
    let headers = [
        "task",
        "filter",
        "metric",
        "budget",
        "finished",
        "tokens",
        "reduction",
        "k",
        "value",
        "stderr",
        "low",
        "high",
    ];
    let mut text = csv::line(headers);
    let exact = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let ends = |interval: Option<(f64, f64)>| {
        [exact(interval.map(|(low, _)| low)), exact(interval.map(|(_, high)| high))]
    };
    for TaskCurve { task, points, .. } in &curve.tasks {
        for point in points {
            let at = |filter: &str, metric: &str| {
                let budget = point.budget.map(|budget| budget.to_string()).unwrap_or_default();
                [
                    task.clone(),
                    filter.to_owned(),
                    metric.to_owned(),
                    budget,
                    point.finished.to_string(),
                    point.tokens.to_string(),
                ]
            };
            for score in &point.scores {
                let own = [String::new(), String::new(), exact(score.value), exact(score.stderr)];
                text += &csv::line(
                    at(&score.filter, &score.metric).into_iter().chain(own).chain(ends(score.interval)),
                );
            }
            for repeats in &point.repeats {
                let own = [
                    repeats.reduction.clone(),
                    repeats.k.to_string(),
                    repeats.value.to_string(),
                    String::new(),
                ];
                text += &csv::line(
                    at(&repeats.filter, &repeats.metric).into_iter().chain(own).chain(ends(repeats.interval)),
                );
            }
        }
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "—".to_owned(), |value| format!("{value:.4}"))
}

fn interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(|| "—".to_owned(), |(low, high)| format!("{low:.4} – {high:.4}"))
}
