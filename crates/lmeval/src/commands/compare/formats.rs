//! A comparison as table, CSV, JSON and JUnit XML.

use std::fmt::Write as _;

use anyhow::Result;
use lmeval_analysis::compare::{Compared, Comparison, Difference};
use lmeval_analysis::gate::Verdict;
use lmeval_analysis::read::Run;
use lmeval_pycompat::{Dict, Value, repr};

use super::Decision;
use super::arguments::{CompareArgs, Format};
use crate::csv::line as csv_line;
use crate::json_line;
use crate::printer::Printer;
use crate::table::Table;

/// Prints one table per compared run, breakdowns, and gates.
pub(super) fn tables(
    base: &Run,
    runs: &[Run],
    comparisons: &[Comparison],
    decisions: &[Decision],
    arguments: &CompareArgs,
    printer: &mut Printer,
) -> Result<()> {
    let percent = format!("{}% CI", number(100.0 * arguments.confidence, 4));
    for (run, comparison) in runs.iter().zip(comparisons) {
        let mut text = format!("{} (new) against {} (base)\n", run.name, base.name);
        score_table(&mut text, &percent, &comparison.scores)?;
        if let Some(field) = &arguments.by {
            breakdown(&mut text, field, &percent, &comparison.scores)?;
        }
        show(&text, arguments.format, printer)?;
    }
    show(&power_line(comparisons, arguments), arguments.format, printer)?;
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
                match score.higher_is_better {
                    Some(true) => "↑".to_owned(),
                    Some(false) => "↓".to_owned(),
                    None => String::new(),
                },
                number(outcome.base, 4),
                number(outcome.new, 4),
                signed(outcome.difference),
                format!("[{}, {}]", signed(outcome.interval.low), signed(outcome.interval.high)),
                p_value(outcome.p_value),
                format!("{} / {}", p_value(score.benjamini_hochberg), p_value(score.holm)),
                outcome.count.to_string(),
                format!("+{} −{}", outcome.up, outcome.down),
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

/// How small a difference could have been found, from the least to the most precise score.
fn power_line(comparisons: &[Comparison], arguments: &CompareArgs) -> String {
    let scores = || comparisons.iter().flat_map(|comparison| &comparison.scores).map(|score| &score.outcome);
    let known = || scores().map(|outcome| outcome.detectable).filter(|detectable| detectable.is_finite());
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    if !low.is_finite() {
        return String::new();
    }
    let mut text = format!(
        "Smallest difference found with {}% power: {} to {}\n",
        number(100.0 * arguments.power, 4),
        number(low, 4),
        number(high, 4)
    );
    if let Some(margin) = arguments.margin {
        let needed = scores()
            .filter_map(|outcome| outcome.needed)
            .filter(|needed| needed.is_finite())
            .fold(0.0, f64::max);
        let _ =
            writeln!(text, "Documents needed to find a difference of {margin} in every score: {needed:.0}");
    }
    text
}

fn gate_table(decisions: &[Decision]) -> Result<String> {
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

fn needed(decision: &Decision) -> String {
    match decision.verdict {
        Verdict::Inconclusive if decision.needed.is_finite() => format!("about {:.0}", decision.needed),
        _ => String::new(),
    }
}

/// Prints one line per score.
pub(super) fn csv(base: &Run, runs: &[Run], comparisons: &[Comparison], printer: &mut Printer) -> Result<()> {
    let mut text = String::from(
        "base_run,new_run,task,filter,metric,is_group,base,new,difference,stderr,low,high,p_value,p_bh,p_holm,test,n,up,down,only_base,only_new,detectable,needed\n",
    );
    for (run, comparison) in runs.iter().zip(comparisons) {
        for score in &comparison.scores {
            let outcome = &score.outcome;
            let cells = [
                base.name.clone(),
                run.name.clone(),
                score.task.clone(),
                score.filter.clone(),
                score.metric.clone(),
                score.is_group.to_string(),
                exact(outcome.base),
                exact(outcome.new),
                exact(outcome.difference),
                exact(outcome.stderr),
                exact(outcome.interval.low),
                exact(outcome.interval.high),
                exact(outcome.p_value),
                exact(score.benjamini_hochberg),
                exact(score.holm),
                outcome.test.name().to_owned(),
                outcome.count.to_string(),
                outcome.up.to_string(),
                outcome.down.to_string(),
                score.only_base.to_string(),
                score.only_new.to_string(),
                exact(outcome.detectable),
                outcome.needed.map(exact).unwrap_or_default(),
            ];
            text.push_str(&csv_line(cells));
        }
    }
    Ok(printer.exact(&text)?)
}

/// Prints everything as one JSON object.
pub(super) fn json(
    base: &Run,
    runs: &[Run],
    comparisons: &[Comparison],
    decisions: &[Decision],
    printer: &mut Printer,
) -> Result<()> {
    let run_value = |run: &Run| {
        object([
            ("name", Value::str(run.name.as_str())),
            ("path", Value::from(run.path.display().to_string())),
        ])
    };
    let compared = runs.iter().zip(comparisons).map(|(run, comparison)| {
        object([
            ("run", run_value(run)),
            ("scores", Value::list(comparison.scores.iter().map(score_value))),
            ("only_base_tasks", strings(&comparison.only_base)),
            ("only_new_tasks", strings(&comparison.only_new)),
            ("notes", strings(&comparison.notes)),
        ])
    });
    let gates = decisions.iter().map(|decision| {
        object([
            ("gate", Value::str(decision.text.as_str())),
            ("run", Value::str(decision.run.as_str())),
            ("filter", Value::str(decision.filter.as_str())),
            ("verdict", Value::str(decision.verdict.name())),
            ("margin", Value::Float(decision.gate.margin)),
            ("difference", Value::Float(decision.difference)),
            ("low", Value::Float(decision.low)),
            ("high", Value::Float(decision.high)),
            ("documents_to_decide", Value::Float(decision.needed)),
        ])
    });
    let whole = object([
        ("base", run_value(base)),
        ("comparisons", Value::list(compared)),
        ("gates", Value::list(gates)),
    ]);
    let mut text = String::new();
    json_line::write(&mut text, &whole)?;
    Ok(printer.exact(&text)?)
}

fn score_value(score: &Compared) -> Value {
    let mut entries = vec![
        ("task", Value::str(score.task.as_str())),
        ("filter", Value::str(score.filter.as_str())),
        ("metric", Value::str(score.metric.as_str())),
        ("higher_is_better", score.higher_is_better.map_or(Value::None, Value::Bool)),
        ("is_group", Value::Bool(score.is_group)),
    ];
    entries.extend(outcome_entries(&score.outcome));
    entries.extend([
        ("p_bh", Value::Float(score.benjamini_hochberg)),
        ("p_holm", Value::Float(score.holm)),
        ("only_base", Value::from(score.only_base as i64)),
        ("only_new", Value::from(score.only_new as i64)),
    ]);
    if !score.by.is_empty() {
        let by: Dict = score
            .by
            .iter()
            .map(|(label, outcome)| (Value::str(label.as_str()), object(outcome_entries(outcome))))
            .collect();
        entries.push(("by", Value::from(by)));
    }
    object(entries)
}

fn outcome_entries(outcome: &Difference) -> Vec<(&'static str, Value)> {
    vec![
        ("base", Value::Float(outcome.base)),
        ("new", Value::Float(outcome.new)),
        ("difference", Value::Float(outcome.difference)),
        ("stderr", Value::Float(outcome.stderr)),
        ("low", Value::Float(outcome.interval.low)),
        ("high", Value::Float(outcome.interval.high)),
        ("p_value", Value::Float(outcome.p_value)),
        ("test", Value::str(outcome.test.name())),
        ("n", Value::from(outcome.count as i64)),
        ("up", Value::from(outcome.up as i64)),
        ("down", Value::from(outcome.down as i64)),
        ("clusters", outcome.clusters.map_or(Value::None, |clusters| Value::from(clusters as i64))),
        ("detectable", Value::Float(outcome.detectable)),
        ("needed", outcome.needed.map_or(Value::None, Value::Float)),
    ]
}

pub(super) fn object(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::from(entries.into_iter().map(|(key, value)| (Value::str(key), value)).collect::<Dict>())
}

fn strings(items: &[String]) -> Value {
    Value::list(items.iter().map(|item| Value::str(item.as_str())))
}

/// Prints one test case per gate.
pub(super) fn junit(decisions: &[Decision], printer: &mut Printer) -> Result<()> {
    let count = |verdict| decisions.iter().filter(|decision| decision.verdict == verdict).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"lm-eval compare\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
        decisions.len(),
        count(Verdict::Fail),
        count(Verdict::Inconclusive)
    );
    for decision in decisions {
        let facts =
            format!("{} [{}, {}]", signed(decision.difference), signed(decision.low), signed(decision.high));
        let _ = write!(
            text,
            "  <testcase classname=\"{}\" name=\"{} ({})\"",
            escaped(&decision.run),
            escaped(&decision.text),
            escaped(&decision.filter)
        );
        let _ = match decision.verdict {
            Verdict::Pass => writeln!(text, "/>"),
            Verdict::Fail => writeln!(text, "><failure message=\"{}\"/></testcase>", escaped(&facts)),
            Verdict::Inconclusive => writeln!(
                text,
                "><error type=\"inconclusive\" message=\"{}\"/></testcase>",
                escaped(&format!("{facts}; documents to decide: {}", needed(decision)))
            ),
        };
    }
    text.push_str("</testsuite>\n");
    Ok(printer.exact(&text)?)
}

/// Text as XML attributes have it. Characters that XML cannot have become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            control if control < ' ' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// A number with at most this many digits after the point.
fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return repr::repr(&Value::Float(value));
    }
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn signed(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:+.4}") }
}

fn p_value(value: f64) -> String {
    if value < 0.0001 { "<0.0001".to_owned() } else { number(value, 4) }
}

/// All digits.
fn exact(value: f64) -> String {
    repr::repr(&Value::Float(value))
}
