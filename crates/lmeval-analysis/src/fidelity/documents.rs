//! The documents of a written report, as a score that two runs can be compared by.

use fs_err as fs;
use lmeval_pycompat::{Dict, Value, json};

use crate::compare::{Compared, Difference, Flip, Test};
use crate::read::{Run, parent};
use crate::stats::Interval;

/// The name of a report, beside the results of the new run.
pub const REPORT: &str = "fidelity.json";
/// The name of the score.
const METRIC: &str = "KL divergence";

/// For each task of the report about two runs, the divergences of its documents, the largest first: as changes from 0, so that documents
/// can be looked at side by side. Empty if there is no report about these runs.
pub fn divergences(base: &Run, new: &Run) -> Vec<Compared> {
    read(base, new).unwrap_or_default()
}

fn read(base: &Run, new: &Run) -> Option<Vec<Compared>> {
    let text = fs::read_to_string(parent(&new.path).join(REPORT)).ok()?;
    let report = json::loads(&text).ok()?;
    let report = report.as_dict()?;
    let is_of = |name: &str, run: &Run| {
        let path = report.get_str(name)?.as_dict()?.get_str("path")?.as_str()?.to_owned();
        // The folder may have been moved; the time in the name stays.
        Some(std::path::Path::new(&path).file_name()? == run.path.file_name()?)
    };
    if !(is_of("base", base)? && is_of("new", new)?) {
        return None;
    }
    let figures = report.get_str("tokens")?.as_dict()?;
    let mut scores: Vec<Compared> = Vec::new();
    for document in report.get_str("documents")?.as_list()? {
        let document = document.as_dict()?;
        let (task, flip) = (document.get_str("task")?.as_str()?, flip(document)?);
        match scores.iter_mut().find(|score| score.task == task) {
            Some(score) => score.flips.push(flip),
            None => {
                let filter = document.get_str("filter")?.as_str()?;
                scores.push(score(task, filter, figures.get_str(task)?.as_dict()?, flip)?);
            }
        }
    }
    for score in &mut scores {
        (score.outcome.count, score.outcome.up) = (score.flips.len(), score.flips.len());
    }
    Some(scores)
}

/// A document of the report.
fn flip(document: &Dict) -> Option<Flip> {
    let [base, new] = document.get_str("offsets")?.as_list()? else { return None };
    let offset = |value: &Value| u64::try_from(value.as_i64()?).ok();
    Some(Flip {
        doc_id: document.get_str("doc_id")?.as_i64()?,
        base: 0.0,
        new: document.get_str("kl")?.to_f64()?,
        base_offset: offset(base)?,
        new_offset: offset(new)?,
    })
}

/// The divergence of a task.
fn score(task: &str, filter: &str, figures: &Dict, first: Flip) -> Option<Compared> {
    let kl = figures.get_str("kl")?.as_dict()?;
    let number = |name: &str| kl.get_str(name).and_then(Value::to_f64).unwrap_or(f64::NAN);
    let (mean, stderr) = (number("mean"), number("stderr"));
    let outcome = Difference {
        base: 0.0,
        new: mean,
        difference: mean,
        stderr,
        interval: Interval { low: mean - 1.96 * stderr, high: mean + 1.96 * stderr },
        // A divergence explains; it is not tested.
        p_value: f64::NAN,
        test: Test::Student,
        count: 0,
        up: 0,
        down: 0,
        clusters: None,
        detectable: f64::NAN,
        needed: None,
    };
    Some(Compared {
        task: task.to_owned(),
        filter: filter.to_owned(),
        metric: METRIC.to_owned(),
        higher_is_better: Some(false),
        is_group: false,
        outcome,
        benjamini_hochberg: f64::NAN,
        holm: f64::NAN,
        only_base: 0,
        only_new: 0,
        possible: None,
        by: Vec::new(),
        flips: vec![first],
    })
}
