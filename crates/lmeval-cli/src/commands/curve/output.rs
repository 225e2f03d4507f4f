//! Curves as tables, CSV, JSON, SVG and PNG.

use std::path::Path;

use anyhow::Result;
use fs_err as fs;
use lmeval_analysis::curve::{Change, Curve, Point, ScoreCurve};
use lmeval_report::write_atomically;

use crate::printer::Printer;
use crate::{csv as values, table as text};

/// How the names of a curve's files begin.
pub(crate) const FRONT: &str = "curve";

/// The levels of a sparkline.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The steps that a sparkline has room for; of more, each character is the mean of several.
const WIDTH: usize = 24;

/// Writes the curve to a folder in all formats. The viewer shows it there.
pub(crate) fn save(mut curve: Curve, folder: &Path, printer: &Printer) -> Result<()> {
    fs::create_dir_all(folder)?;
    let own = std::path::absolute(folder)?;
    for step in &mut curve.steps {
        let Some(results) = &step.results else { continue };
        let path = std::path::absolute(results)?;
        // A folder can be moved with its results.
        step.results = Some(path.strip_prefix(&own).unwrap_or(&path).display().to_string());
    }
    let files = curve.files(FRONT, csv(&curve));
    for (name, content) in &files {
        write_atomically(&folder.join(name), content)?;
    }
    let names: Vec<String> = files.iter().map(|(name, _)| folder.join(name).display().to_string()).collect();
    printer.notes().info(&format!("Wrote {}", names.join(", ")));
    Ok(())
}

/// One row per score: its curve as a line of blocks, the best and the last step, and what differs.
pub(crate) fn table(curve: &Curve) -> String {
    let headers = [
        "Tasks",
        "Metric",
        "Steps",
        "Best",
        "at",
        "Last",
        "at",
        "95 % interval",
        "vs previous",
        "vs best",
        "Chance",
        "Detectable",
    ];
    let rows: Vec<Vec<String>> = curve.scores.iter().filter_map(|score| row(curve, score)).collect();
    text::render(&headers.map(str::to_owned), &rows, 3)
}

fn row(curve: &Curve, score: &ScoreCurve) -> Option<Vec<String>> {
    let (at, last) = score.last()?;
    let arrow = match score.higher_is_better {
        Some(true) => "↑",
        Some(false) => "↓",
        None => "",
    };
    let step = |index: usize| curve.steps[index].step.to_string();
    let best = score.best.and_then(|best| Some((best, score.points[best].as_ref()?)));
    let at_chance = if score.is_at_chance() == Some(true) { " (at chance)" } else { "" };
    Some(vec![
        score.task.clone(),
        format!("{} {arrow}", score.label()).trim_end().to_owned(),
        sparkline(score),
        best.map_or_else(dash, |(_, point)| number(point.value)),
        best.map_or_else(dash, |(best, _)| step(best)),
        number(last.value),
        step(at),
        last.interval.map_or_else(dash, |(low, high)| format!("{} – {}", number(low), number(high))),
        change(last.previous.as_ref()),
        if best.is_some_and(|(best, _)| best == at) {
            "is best".to_owned()
        } else {
            change(last.best.as_ref())
        },
        score.chance.map_or_else(dash, |chance| format!("{}{at_chance}", number(chance))),
        score.detectable.map_or_else(dash, number),
    ])
}

/// A difference, with a mark if it is more than chance.
fn change(change: Option<&Change>) -> String {
    let Some(change) = change else { return dash() };
    let mark = if change.is_significant() { " *" } else { "" };
    let sign = if change.difference > 0.0 { "+" } else { "" };
    format!("{sign}{}{mark}", number(change.difference))
}

/// The values between the lowest and the highest one, a character for each step or for several.
fn sparkline(score: &ScoreCurve) -> String {
    let values: Vec<f64> = score.points.iter().flatten().map(|point| point.value).collect();
    let count = values.len().min(WIDTH);
    let means: Vec<f64> = (0..count)
        .map(|index| {
            let (start, end) = (index * values.len() / count, (index + 1) * values.len() / count);
            values[start..end].iter().sum::<f64>() / (end - start) as f64
        })
        .collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let level = |value: &f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        LEVELS[((share * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
    };
    means.iter().map(level).collect()
}

/// Comma-separated values with all digits: a line per score and step.
pub(crate) fn csv(curve: &Curve) -> String {
    let headers = [
        "step",
        "checkpoint",
        "task",
        "metric",
        "filter",
        "value",
        "stderr",
        "low",
        "high",
        "documents",
        "chance",
        "detectable",
        "previous_difference",
        "previous_p",
        "previous_adjusted",
        "best_difference",
        "best_p",
        "best_adjusted",
    ];
    let exact = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let mut lines = values::line(headers);
    for score in &curve.scores {
        for (step, point) in curve.steps.iter().zip(&score.points) {
            let Some(Point { value, stderr, interval, previous, best }) = point else { continue };
            let of = |change: &Option<Change>| {
                let change = change.as_ref();
                [
                    exact(change.map(|change| change.difference)),
                    exact(change.and_then(|change| change.p_value)),
                    exact(change.and_then(|change| change.adjusted)),
                ]
            };
            let own = [
                step.step.to_string(),
                step.checkpoint.clone(),
                score.task.clone(),
                score.metric.clone(),
                score.filter.clone(),
                value.to_string(),
                exact(*stderr),
                exact(interval.map(|(low, _)| low)),
                exact(interval.map(|(_, high)| high)),
                exact(score.documents),
                exact(score.chance),
                exact(score.detectable),
            ];
            lines += &values::line(own.into_iter().chain(of(previous)).chain(of(best)));
        }
    }
    lines
}

fn number(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:.4}") } else { format!("{value:.1}") }
}

fn dash() -> String {
    "—".to_owned()
}
