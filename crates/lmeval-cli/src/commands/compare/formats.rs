//! A comparison as CSV, JSON and JUnit XML, and the numbers of all formats.

use std::fmt::Write as _;

use anyhow::Result;
use lmeval_analysis::compare::{Compared, Comparison, Difference};
use lmeval_analysis::gate::Verdict;
use lmeval_analysis::read::Run;
use lmeval_pycompat::{Dict, Value, repr};

use super::Decision;
use crate::csv::line as csv_line;
use crate::json_line;
use crate::printer::Printer;

pub(super) fn needed(decision: &Decision) -> String {
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
    changed: Option<Vec<Vec<Value>>>,
    printer: &mut Printer,
) -> Result<()> {
    let run_value = |run: &Run| {
        object([
            ("name", Value::str(run.name.as_str())),
            ("path", Value::from(run.path.display().to_string())),
        ])
    };
    let mut changed = changed.map(Vec::into_iter);
    let compared = runs.iter().zip(comparisons).map(|(run, comparison)| {
        let flips = changed.as_mut().and_then(Iterator::next);
        let mut entries = vec![
            ("run", run_value(run)),
            ("scores", Value::list(comparison.scores.iter().map(score_value))),
            ("only_base_tasks", strings(&comparison.only_base)),
            ("only_new_tasks", strings(&comparison.only_new)),
            ("notes", strings(&comparison.notes)),
        ];
        entries.extend(flips.map(|flips| ("flips", Value::list(flips))));
        object(entries)
    });
    let compared: Vec<Value> = compared.collect();
    let whole = object([
        ("base", run_value(base)),
        ("comparisons", Value::list(compared)),
        ("gates", gate_values(decisions)),
    ]);
    let mut text = String::new();
    json_line::write(&mut text, &whole)?;
    Ok(printer.exact(&text)?)
}

/// Decided gates as JSON.
pub(crate) fn gate_values(decisions: &[Decision]) -> Value {
    Value::list(decisions.iter().map(|decision| {
        object([
            ("gate", Value::str(decision.text.as_str())),
            ("run", Value::str(decision.run.as_str())),
            ("filter", Value::str(decision.filter.as_str())),
            ("verdict", Value::str(decision.verdict.name())),
            ("margin", Value::Float(decision.margin)),
            ("difference", Value::Float(decision.difference)),
            ("low", Value::Float(decision.low)),
            ("high", Value::Float(decision.high)),
            ("documents_to_decide", Value::Float(decision.needed)),
        ])
    }))
}

/// A score as JSON.
pub(crate) fn score_value(score: &Compared) -> Value {
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
    if let Some(possible) = score.possible {
        entries.push(("possible", Value::list([possible.low, possible.high].map(Value::Float))));
    }
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

pub(crate) fn object(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
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
pub(crate) fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return repr::repr(&Value::Float(value));
    }
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

pub(crate) fn signed(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:+.4}") }
}

pub(crate) fn p_value(value: f64) -> String {
    if value < 0.0001 { "<0.0001".to_owned() } else { number(value, 4) }
}

/// All digits.
fn exact(value: f64) -> String {
    repr::repr(&Value::Float(value))
}
