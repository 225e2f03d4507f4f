//! Verdicts about the scores of a finished run: `--expect`, and the claims of `lm-eval reproduce`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Result, bail};
use lmeval_analysis::condition::Condition;
use lmeval_analysis::gate;
use lmeval_analysis::read::Run;
use lmeval_analysis::stats::Interval;
use lmeval_analysis::threshold::{Bound, Threshold};
use lmeval_claims::claim::{Checked, Claims, Verdict};
use lmeval_claims::expect::{Expectations, Outcome};
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::TaskDict;

use super::thresholds;
use crate::commands::Status;
use crate::json_line;
use crate::printer::Printer;
use crate::settings::RunSettings;
use crate::table;

/// Claims with how they are judged and printed.
#[derive(Clone, Debug)]
pub(crate) struct Reproduction {
    /// The claims, with the run that made them if it exists.
    pub(crate) claims: Claims,
    /// The difference that does not matter.
    pub(crate) margin: Option<f64>,
    /// Whether verdicts are JSON lines.
    pub(crate) json: bool,
    /// The claims with their judgements, and the run that they were judged by.
    pub(crate) judged: OnceLock<(Vec<Checked>, Run)>,
}

/// Checks before a run that its scores can be judged.
pub(crate) fn check(settings: &RunSettings, tasks: &TaskDict, printer: &Printer) -> Result<()> {
    let Some(expectations) = &settings.expect else { return Ok(()) };
    for note in &expectations.notes {
        printer.notes().info(note);
    }
    let path = expectations.path.display();
    if settings.documents.shard.is_some() {
        bail!(Diagnostic::new(
            "`--expect` is about the scores of all documents, and a shard has a part of them"
        ));
    }
    if expectations.needs_samples() && !(settings.output.log_samples && settings.output.path.is_some()) {
        bail!(
            Diagnostic::new(format!("`{path}` compares with an earlier run, document by document"))
                .hint("Add `--output_path` and `--log_samples`")
        );
    }
    let wanted = thresholds_of(expectations);
    thresholds::check("--expect", &wanted, tasks, &settings.dialect, settings.scoring.predict_only)
}

/// The scores that are expected, as thresholds that only name them.
fn thresholds_of(expectations: &Expectations) -> Vec<Threshold> {
    let checks = expectations
        .checks
        .iter()
        .map(|check| (check.task.clone(), check.metric.clone(), check.filter.clone()));
    let gates = expectations.gates.iter().flat_map(Condition::gates).map(|gate| {
        let (metric, filter) = match gate.metric.split_once(',') {
            Some((metric, filter)) => (metric.to_owned(), Some(filter.to_owned())),
            None => (gate.metric.clone(), None),
        };
        (gate.task.clone(), metric, filter)
    });
    let threshold =
        |(task, metric, filter)| Threshold { task, metric, filter, bound: Bound::AtLeast, value: 0.0 };
    checks.chain(gates).map(threshold).collect()
}

/// The finished run, with its files if it has any.
fn finished(path: Option<&Path>, object: &Dict) -> Result<Run> {
    Ok(match path {
        Some(path) => Run::open(path)?,
        None => Run {
            name: String::new(),
            path: PathBuf::new(),
            results: Some(object.clone()),
            samples: Vec::new(),
        },
    })
}

/// Prints the verdicts about a finished run; the worst one decides the status.
pub(crate) fn report(
    settings: &RunSettings,
    path: Option<&Path>,
    object: &Dict,
    printer: &mut Printer,
) -> Result<Status> {
    if settings.expect.is_none() && settings.claims.is_none() {
        return Ok(Status::Success);
    }
    let run = finished(path, object)?;
    if let Some(expectations) = &settings.expect {
        let outcomes = expectations.decide(&run)?;
        let status = report_expected(&outcomes, printer);
        if status != Status::Success {
            return Ok(status);
        }
    }
    match &settings.claims {
        Some(reproduction) => report_claims(reproduction, &run, printer),
        None => Ok(Status::Success),
    }
}

fn report_expected(outcomes: &[Outcome], printer: &mut Printer) -> Status {
    for outcome in outcomes {
        let score = outcome.score.map(|score| format!(" is {score:.4}")).unwrap_or_default();
        let needed = outcome.needed.map(|needed| format!("; about {needed:.0} documents would decide"));
        let line = format!(
            "{}: {}{score}, expected {}: difference {}{}",
            outcome.verdict.name(),
            outcome.of,
            outcome.expected,
            with_interval(outcome.difference, outcome.interval),
            needed.unwrap_or_default()
        );
        match outcome.verdict {
            gate::Verdict::Pass => printer.notes().info(&line),
            gate::Verdict::Inconclusive => printer.warn(&line),
            gate::Verdict::Fail => printer.error(&line),
        }
    }
    match outcomes.iter().map(|outcome| outcome.verdict).max() {
        Some(gate::Verdict::Fail) => Status::GateFailed,
        Some(gate::Verdict::Inconclusive) => Status::GateInconclusive,
        Some(gate::Verdict::Pass) | None => Status::Success,
    }
}

fn with_interval(difference: f64, interval: Option<Interval>) -> String {
    match interval {
        Some(interval) => format!("{difference:+.4} [{:+.4}, {:+.4}]", interval.low, interval.high),
        None => format!("{difference:+.4}"),
    }
}

/// Judges claims by a run, and prints the verdicts.
pub(crate) fn report_claims(reproduction: &Reproduction, run: &Run, printer: &mut Printer) -> Result<Status> {
    let checked = reproduction.claims.check(run, reproduction.margin)?;
    if reproduction.json {
        let mut text = String::new();
        for one in &checked {
            json_line::write(&mut text, &value(one))?;
        }
        printer.exact(&text)?;
    } else {
        let rows: Vec<Vec<String>> = checked.iter().map(cells).collect();
        let headers = ["Verdict", "Score", "Claimed", "Measured", "Difference", "Margin", "Documents needed"]
            .map(str::to_owned);
        printer.table(&table::render(&headers, &rows, 2))?;
    }
    let left_out = reproduction.claims.claims.len() - checked.len();
    if left_out > 0 {
        printer.notes().info(&format!(
            "{left_out} of {} claims are about scores that the run does not have",
            checked.len() + left_out
        ));
    }
    let worst = checked.iter().map(|one| one.judgement.verdict).max();
    // A run is judged once.
    let _ = reproduction.judged.set((checked, run.clone()));
    Ok(match worst {
        Some(Verdict::Different) => Status::GateFailed,
        Some(Verdict::CannotTell) => Status::GateInconclusive,
        Some(Verdict::Reproduced) | None => Status::Success,
    })
}

fn cells(one: &Checked) -> Vec<String> {
    let judgement = &one.judgement;
    let with_error = |value: f64, stderr: Option<f64>| match stderr {
        Some(stderr) => format!("{value:.4} ± {stderr:.4}"),
        None => format!("{value}"),
    };
    let needed = match (judgement.verdict, judgement.needed) {
        (Verdict::CannotTell, Some(needed)) => format!("about {needed:.0}"),
        (Verdict::CannotTell, None) => "more do not help".to_owned(),
        _ => String::new(),
    };
    let paired = if one.is_paired { ", paired" } else { "" };
    vec![
        judgement.verdict.name().to_owned(),
        one.claim.name(),
        with_error(one.claim.score.value, one.claim.score.error()),
        with_error(one.measured.value, one.measured.error()),
        format!("{}{paired}", with_interval(judgement.difference, judgement.interval)),
        format!("{:.4}", judgement.margin),
        needed,
    ]
}

fn value(one: &Checked) -> Value {
    let number = |value: Option<f64>| value.map_or(Value::None, Value::Float);
    let judgement = &one.judgement;
    Value::dict([
        ("verdict", Value::str(judgement.verdict.name())),
        ("task", Value::str(one.claim.task.as_str())),
        ("metric", Value::str(one.claim.metric.as_str())),
        ("filter", one.claim.filter.as_deref().map_or(Value::None, Value::str)),
        ("claimed", Value::Float(one.claim.score.value)),
        ("claimed_stderr", number(one.claim.score.error())),
        ("measured", Value::Float(one.measured.value)),
        ("measured_stderr", number(one.measured.error())),
        ("difference", Value::Float(judgement.difference)),
        ("low", number(judgement.interval.map(|interval| interval.low))),
        ("high", number(judgement.interval.map(|interval| interval.high))),
        ("margin", Value::Float(judgement.margin)),
        ("paired", Value::Bool(one.is_paired)),
        ("documents_needed", number(judgement.needed)),
        ("source", Value::str(one.claim.source.as_str())),
    ])
}
