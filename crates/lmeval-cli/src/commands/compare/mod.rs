//! `lm-eval compare`: which scores changed, by how much, and whether the change is real.

mod arguments;
mod flips;
mod formats;
mod tables;

use anyhow::{Result, bail};
use lmeval_analysis::compare::{Comparison, Precision, Settings, adjust, compare};
use lmeval_analysis::condition::Condition;
use lmeval_analysis::gate::Verdict;
use lmeval_analysis::read::Run;
use lmeval_analysis::stats::ClusterCorrection;
use lmeval_core::Diagnostic;
use lmeval_scoring::registry::Registry;

pub(crate) use self::arguments::{CompareArgs, Format, gate};
pub(crate) use self::formats::{gate_values, number, object, p_value, score_value, signed};
pub(crate) use self::tables::gate_table;
use crate::commands::Status;
use crate::foreign;
use crate::printer::Printer;

/// A decided gate.
pub(crate) struct Decision {
    /// The condition as it was written.
    text: String,
    /// The run that it is about.
    run: String,
    /// The filter pipeline; of several scores the rule that pools them.
    filter: String,
    verdict: Verdict,
    margin: f64,
    difference: f64,
    low: f64,
    high: f64,
    /// The documents that would probably decide an inconclusive gate.
    needed: f64,
}

/// Compares runs, prints the outcome, and decides gates.
pub(crate) fn run(arguments: &CompareArgs, printer: &mut Printer) -> Result<Status> {
    let gates: Vec<Condition> =
        arguments.gate.iter().map(|text| Condition::parse(text)).collect::<Result<_, _>>()?;
    let settings = settings(arguments)?;
    check_formats(arguments)?;
    let base = Run::open(&foreign::run(&arguments.base)?)?;
    let mut runs: Vec<Run> = Vec::new();
    let mut comparisons = Vec::new();
    for path in &arguments.new {
        let mut new = Run::open(&foreign::run(path)?)?;
        // Checkpoints of one model often have the same name.
        if new.name == base.name || runs.iter().any(|run| run.name == new.name) {
            new.name = format!("{} ({})", new.name, path.display());
        }
        let mut comparison = compare(&base, &new, &settings, &Registry::default())?;
        select(&mut comparison, arguments)?;
        comparisons.push(comparison);
        runs.push(new);
    }
    adjust(&mut comparisons);
    let decisions = decide(&gates, &runs, &comparisons, (arguments.confidence, arguments.power))?;
    let mut noted: Vec<&str> = Vec::new();
    for comparison in &comparisons {
        for note in &comparison.notes {
            // Some are about the run that all others are compared with.
            if !noted.contains(&note.as_str()) {
                printer.note(&format!("note: {note}"));
                noted.push(note);
            }
        }
        for (tasks, run) in [(&comparison.only_base, "BASE"), (&comparison.only_new, "NEW")] {
            if !tasks.is_empty() {
                printer.note(&format!("note: only {run} has {}", tasks.join(", ")));
            }
        }
    }
    match arguments.format {
        Format::Table | Format::Markdown => {
            tables::print(&base, &runs, &comparisons, &decisions, arguments, printer)?;
        }
        Format::Csv => formats::csv(&base, &runs, &comparisons, printer)?,
        Format::Json => {
            let changed = match &arguments.flips {
                Some(count) => Some(flips::values(&base, &runs, &comparisons, flips::count(count)?)?),
                None => None,
            };
            formats::json(&base, &runs, &comparisons, &decisions, changed, printer)?;
        }
        Format::Junit => formats::junit(&decisions, printer)?,
        Format::Jsonl => {}
    }
    if let Some(count) = arguments.flips.as_ref().filter(|_| arguments.format != Format::Json) {
        flips::print(&base, &runs, &comparisons, flips::count(count)?, arguments.format, printer)?;
    }
    Ok(status(&decisions))
}

/// The exit status of decided gates.
pub(crate) fn status(decisions: &[Decision]) -> Status {
    match decisions.iter().map(|decision| decision.verdict).max() {
        Some(Verdict::Fail) => Status::GateFailed,
        Some(Verdict::Inconclusive) => Status::GateInconclusive,
        Some(Verdict::Pass) | None => Status::Success,
    }
}

/// Refuses combinations that would print two formats or none.
fn check_formats(arguments: &CompareArgs) -> Result<()> {
    match (arguments.format, &arguments.flips) {
        (Format::Jsonl, None) => bail!(
            Diagnostic::new("--format jsonl prints changed documents")
                .hint("Add --flips all, or use --format json")
        ),
        (Format::Csv | Format::Junit, Some(_)) => bail!(
            Diagnostic::new("--flips has no csv or junit format")
                .hint("Use --format jsonl for the documents")
        ),
        (Format::Junit, None) if arguments.gate.is_empty() => bail!(
            Diagnostic::new("--format junit prints gates, and there is none")
                .hint("Add one: --gate 'TASK:METRIC >= MARGIN'")
        ),
        (_, Some(count)) => flips::count(count).map(drop),
        _ => Ok(()),
    }
}

fn settings(arguments: &CompareArgs) -> Result<Settings> {
    for (name, share) in [("confidence", arguments.confidence), ("power", arguments.power)] {
        if !(share > 0.0 && share < 1.0) {
            bail!("--{name} has to be between 0 and 1, not {share}");
        }
    }
    if arguments.margin.is_some_and(|margin| !(margin > 0.0 && margin.is_finite())) {
        bail!(
            Diagnostic::new("--margin has to be a number above 0").hint(
                "It is the size of a difference; a gate such as 'TASK:METRIC >= -0.01' has a direction"
            )
        );
    }
    Ok(Settings {
        precision: Precision {
            confidence: arguments.confidence,
            power: arguments.power,
            margin: arguments.margin,
            seed: arguments.seed,
            correction: if arguments.no_cluster_correction {
                ClusterCorrection::None
            } else {
                ClusterCorrection::SmallSample
            },
            ..Precision::default()
        },
        tasks: arguments.tasks.clone(),
        cluster: arguments.cluster.clone(),
        by: arguments.by.clone(),
        flips: arguments.flips.is_some(),
        allow_different_prompts: arguments.allow_different_prompts,
        cache: None,
    })
}

/// Keeps the tasks and metrics that were asked for.
fn select(comparison: &mut Comparison, arguments: &CompareArgs) -> Result<()> {
    for task in &arguments.tasks {
        if !comparison.scores.iter().any(|score| score.task == *task) {
            bail!("The runs share no scores of `{task}`");
        }
    }
    for metric in &arguments.metrics {
        if !comparison.scores.iter().any(|score| score.metric == *metric) {
            let mut known: Vec<&str> = comparison.scores.iter().map(|score| score.metric.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            bail!(
                Diagnostic::new(format!("The runs share no scores of the metric `{metric}`"))
                    .hint(format!("They share `{}`", known.join("`, `")))
            );
        }
    }
    if let Some(filter) = &arguments.filter
        && !comparison.scores.iter().any(|score| score.filter == *filter)
    {
        let mut known: Vec<&str> = comparison.scores.iter().map(|score| score.filter.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        bail!(
            Diagnostic::new(format!("The runs share no scores of the filter `{filter}`"))
                .hint(format!("They share `{}`", known.join("`, `")))
        );
    }
    comparison.scores.retain(|score| {
        (arguments.tasks.is_empty() || arguments.tasks.contains(&score.task))
            && (arguments.metrics.is_empty() || arguments.metrics.contains(&score.metric))
            && arguments.filter.as_ref().is_none_or(|filter| score.filter == *filter)
    });
    Ok(())
}

/// Decides gates with this confidence; the documents that would decide are for this power.
pub(crate) fn decide(
    gates: &[Condition],
    runs: &[Run],
    comparisons: &[Comparison],
    (confidence, power): (f64, f64),
) -> Result<Vec<Decision>> {
    let mut decisions = Vec::new();
    for gate in gates {
        for (run, comparison) in runs.iter().zip(comparisons) {
            let decided = gate.decide(&comparison.scores, confidence, power)?;
            decisions.extend(decided.into_iter().map(|decided| Decision {
                text: gate.text.clone(),
                run: run.name.clone(),
                filter: decided.filter,
                verdict: decided.verdict,
                margin: decided.margin,
                difference: decided.difference,
                low: decided.interval.low,
                high: decided.interval.high,
                needed: decided.needed,
            }));
        }
    }
    Ok(decisions)
}
