//! A comparison as tables for people.

use std::fmt::Write as _;

use anyhow::Result;
use lmeval_analysis::compare::{Compared, Comparison, Difference, Test};
use lmeval_analysis::read::Run;

use super::Decision;
use super::arguments::{CompareArgs, Format};
use super::formats::{needed, number, p_value, signed};
use crate::printer::Printer;
use crate::table::{Table, render};

/// Prints the scores, breakdowns and gates: one run in full, several as a matrix of differences.
pub(super) fn print(
    base: &Run,
    runs: &[Run],
    comparisons: &[Comparison],
    decisions: &[Decision],
    arguments: &CompareArgs,
    printer: &mut Printer,
) -> Result<()> {
    let percent = format!("{}% CI", number(100.0 * arguments.confidence, 4));
    if runs.len() > 1 {
        show(&matrix(base, runs, comparisons, arguments), arguments.format, printer)?;
    }
    for (run, comparison) in runs.iter().zip(comparisons) {
        let mut text = format!("{} (new) against {} (base)\n", run.name, base.name);
        if runs.len() == 1 {
            score_table(&mut text, &percent, &comparison.scores)?;
        }
        if let Some(field) = &arguments.by {
            breakdown(&mut text, field, &percent, &comparison.scores)?;
        }
        if runs.len() == 1 || arguments.by.is_some() {
            show(&text, arguments.format, printer)?;
        }
    }
    show(&bound_lines(runs, comparisons), arguments.format, printer)?;
    show(&power_lines(comparisons, arguments), arguments.format, printer)?;
    if !decisions.is_empty() {
        show(&gate_table(decisions)?, arguments.format, printer)?;
    }
    Ok(())
}

fn show(text: &str, format: Format, printer: &mut Printer) -> Result<()> {
    let shown = if format == Format::Table { printer.table(text) } else { printer.result(text) };
    Ok(shown?)
}

fn score_table(text: &mut String, percent: &str, scores: &[Compared]) -> Result<()> {
    let rows: Vec<[String; 12]> = scores
        .iter()
        .map(|score| {
            let outcome = &score.outcome;
            [
                if score.is_group { format!("{} (group)", score.task) } else { score.task.clone() },
                score.filter.clone(),
                score.metric.clone(),
                arrow(score),
                number(outcome.base, 4),
                number(outcome.new, 4),
                signed(outcome.difference),
                format!("[{}, {}]", signed(outcome.interval.low), signed(outcome.interval.high)),
                format!("{}{}", p_value(outcome.p_value), mark(score)),
                format!("{} / {}", p_value(score.benjamini_hochberg), p_value(score.holm)),
                outcome.count.to_string(),
                // A corpus metric has no values of single documents.
                if outcome.test == Test::Bootstrap {
                    "–".to_owned()
                } else {
                    format!("+{} −{}", outcome.up, outcome.down)
                },
            ]
        })
        .collect();
    let mut table = Table::new([
        "Task",
        "Filter",
        "Metric",
        "",
        "Base",
        "New",
        "Difference",
        percent,
        "p",
        "p BH / Holm",
        "n",
        "Changed",
    ]);
    for row in &rows {
        table.row(std::array::from_fn(|column| row[column].as_str()));
    }
    append(text, |out| table.write(out))
}

fn breakdown(text: &mut String, field: &str, percent: &str, scores: &[Compared]) -> Result<()> {
    let rows: Vec<[String; 9]> = scores
        .iter()
        .flat_map(|score| score.by.iter().map(move |(label, outcome)| (score, label, outcome)))
        .map(|(score, label, outcome)| {
            [
                label.clone(),
                score.task.clone(),
                score.metric.clone(),
                number(outcome.base, 4),
                number(outcome.new, 4),
                signed(outcome.difference),
                format!("[{}, {}]", signed(outcome.interval.low), signed(outcome.interval.high)),
                p_value(outcome.p_value),
                outcome.count.to_string(),
            ]
        })
        .collect();
    let mut table = Table::new([field, "Task", "Metric", "Base", "New", "Difference", percent, "p", "n"]);
    for row in &rows {
        table.row(std::array::from_fn(|column| row[column].as_str()));
    }
    text.push('\n');
    append(text, |out| table.write(out))
}

fn append(text: &mut String, write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<()> {
    let mut bytes = Vec::new();
    write(&mut bytes)?;
    text.push_str(&String::from_utf8_lossy(&bytes));
    Ok(())
}

/// How small a difference could have been found, by metric: differences of an accuracy and of a perplexity have nothing
/// in common.
fn power_lines(comparisons: &[Comparison], arguments: &CompareArgs) -> String {
    let scores = || comparisons.iter().flat_map(|comparison| &comparison.scores);
    let mut metrics: Vec<&str> = Vec::new();
    for score in scores() {
        if !metrics.contains(&score.metric.as_str()) {
            metrics.push(&score.metric);
        }
    }
    let of_metrics = |pick: &dyn Fn(&Difference) -> Option<f64>, digits: usize| {
        let parts = metrics.iter().filter_map(|metric| {
            let own = || {
                let own = scores().filter(|score| score.metric == **metric);
                own.filter_map(|score| pick(&score.outcome)).filter(|value| value.is_finite() && *value > 0.0)
            };
            let (low, high) = (own().fold(f64::INFINITY, f64::min), own().fold(0.0, f64::max));
            let (low, high) = (number(low, digits), number(high, digits));
            match own().count() {
                0 => None,
                _ if low == high => Some(format!("{metric} {low}")),
                _ => Some(format!("{metric} {low} to {high}")),
            }
        });
        parts.collect::<Vec<String>>().join(", ")
    };
    let detectable = of_metrics(&|outcome| Some(outcome.detectable), 4);
    let percent = number(100.0 * arguments.power, 4);
    let mut text = if detectable.is_empty() {
        "No document changed, so the power of this comparison is unknown\n".to_owned()
    } else {
        format!("Smallest difference found with {percent}% power: {detectable}\n")
    };
    if let Some(margin) = arguments.margin.filter(|_| !detectable.is_empty()) {
        // A margin such as 0.01 means something else for a perplexity or a BLEU score.
        let is_share = |score: f64| (0.0..=1.0).contains(&score);
        let of_shares =
            |outcome: &Difference| outcome.needed.filter(|_| is_share(outcome.base) && is_share(outcome.new));
        let needed = of_metrics(&of_shares, 0);
        let needed = if needed.is_empty() { "no score is between 0 and 1".to_owned() } else { needed };
        let _ = writeln!(text, "Documents needed to find a difference of {margin}: {needed}");
    }
    text
}

/// A table of decided gates.
pub(crate) fn gate_table(decisions: &[Decision]) -> Result<String> {
    let rows: Vec<[String; 6]> = decisions
        .iter()
        .map(|decision| {
            [
                decision.verdict.name().to_owned(),
                decision.text.clone(),
                decision.filter.clone(),
                decision.run.clone(),
                format!(
                    "{} [{}, {}]",
                    signed(decision.difference),
                    signed(decision.low),
                    signed(decision.high)
                ),
                needed(decision),
            ]
        })
        .collect();
    let mut table = Table::new(["Gate", "Condition", "Filter", "Run", "Difference", "Documents to decide"]);
    for row in &rows {
        table.row(std::array::from_fn(|column| row[column].as_str()));
    }
    let mut text = String::new();
    append(&mut text, |out| table.write(out))?;
    Ok(text)
}

/// One row per score, one column per run: the difference from the base run and its p-value after Holm.
fn matrix(base: &Run, runs: &[Run], comparisons: &[Comparison], arguments: &CompareArgs) -> String {
    type Key<'a> = (bool, &'a str, &'a str, &'a str);
    fn key(score: &Compared) -> Key<'_> {
        (score.is_group, &score.task, &score.filter, &score.metric)
    }
    let mut keys: Vec<Key<'_>> = Vec::new();
    for score in comparisons.iter().flat_map(|comparison| &comparison.scores) {
        if !keys.contains(&key(score)) {
            keys.push(key(score));
        }
    }
    let alpha = 1.0 - arguments.confidence;
    let mut has_other_documents = false;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for wanted in &keys {
        let of_runs: Vec<Option<&Compared>> = comparisons
            .iter()
            .map(|comparison| comparison.scores.iter().find(|score| key(score) == *wanted))
            .collect();
        let Some(first) = of_runs.iter().flatten().next() else { continue };
        let is_other = of_runs.iter().flatten().any(|score| score.outcome.base != first.outcome.base);
        has_other_documents |= is_other;
        let (is_group, task, filter, metric) = *wanted;
        let mut row = vec![
            if is_group { format!("{task} (group)") } else { task.to_owned() },
            filter.to_owned(),
            metric.to_owned(),
            arrow(first),
            format!("{}{}", number(first.outcome.base, 4), if is_other { "†" } else { "" }),
        ];
        row.extend(of_runs.iter().map(|score| {
            score.map_or_else(String::new, |score| {
                let star = if score.holm < alpha && !score.is_within_bounds() { "*" } else { "" };
                format!("{}{star} ({}{})", signed(score.outcome.difference), p_value(score.holm), mark(score))
            })
        }));
        rows.push(row);
    }
    let mut headers: Vec<String> = ["Task", "Filter", "Metric", ""].map(str::to_owned).into();
    headers.push(base.name.clone());
    headers.extend(runs.iter().map(|run| run.name.clone()));
    let mut text = format!("Differences from {} (p after Holm; * below {})\n", base.name, number(alpha, 4));
    text.push_str(&render(&headers, &rows, headers.len()));
    if has_other_documents {
        text.push_str("† The runs share other documents with the base run, whose score on them differs\n");
    }
    text
}

/// Marks a difference that unfinished answers alone could explain.
fn mark(score: &Compared) -> &'static str {
    if score.is_within_bounds() { "‡" } else { "" }
}

/// What unfinished answers mean for each difference with a mark.
fn bound_lines(runs: &[Run], comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    for (run, comparison) in runs.iter().zip(comparisons) {
        for score in comparison.scores.iter().filter(|score| score.is_within_bounds()) {
            let Some(possible) = score.possible else { continue };
            let of_run = if runs.len() > 1 { format!(" of {}", run.name) } else { String::new() };
            let _ = writeln!(
                text,
                "‡ {}, {}{of_run}: not a finding. With its unfinished answers, the difference in {} is between {} and {}",
                score.task,
                score.filter,
                score.metric,
                signed(possible.low),
                signed(possible.high)
            );
        }
    }
    text
}

fn arrow(score: &Compared) -> String {
    match score.higher_is_better {
        Some(true) => "↑".to_owned(),
        Some(false) => "↓".to_owned(),
        None => String::new(),
    }
}
