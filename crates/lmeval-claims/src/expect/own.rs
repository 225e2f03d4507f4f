//! Reads our own form: a list of scores below `expect`, and gates.

use std::path::{Path, PathBuf};

use lmeval_analysis::condition::Condition;
use lmeval_analysis::stats::Sampled;
use lmeval_pycompat::Dict;

use super::{Against, Check, Expectations, split_metric};
use crate::Error;
use crate::document::{Document, Node};

/// The number of runs of a series if none is given.
const LAST: usize = 10;

pub(super) fn read(path: &Path, document: &Document) -> Result<Expectations, Error> {
    let root = document.root();
    root.check_keys(&["expect", "gates", "baseline", "settings"])?;
    let checks = root.get("expect")?.map(|list| list.items()).transpose()?.unwrap_or_default();
    let gates = root.get("gates")?.map(|list| list.items_or_one()).transpose()?.unwrap_or_default();
    let gates = gates.iter().map(|node| {
        Condition::parse(&node.text()?).map_err(|error| -> Error { Box::new((*error).at(node.location())) })
    });
    let gates: Vec<Condition> = gates.collect::<Result<_, Error>>()?;
    let baseline = root.get("baseline")?.map(|node| beside(path, &node)).transpose()?;
    if !gates.is_empty() && baseline.is_none() {
        return Err(root.error("Gates compare with a run, and the file has no `baseline`"));
    }
    let settings = root.get("settings")?;
    Ok(Expectations {
        path: path.to_owned(),
        settings: settings.and_then(|node| node.value().as_dict().cloned()).unwrap_or_else(Dict::new),
        checks: checks.iter().map(|node| check(path, node)).collect::<Result<_, _>>()?,
        gates,
        baseline,
        notes: Vec::new(),
    })
}

fn beside(path: &Path, node: &Node<'_>) -> Result<PathBuf, Error> {
    Ok(path.parent().unwrap_or(Path::new("")).join(node.text()?))
}

fn check(path: &Path, node: &Node<'_>) -> Result<Check, Error> {
    node.check_keys(&[
        "task", "metric", "filter", "value", "stderr", "n", "rtol", "margin", "baseline", "series", "last",
    ])?;
    let number = |key: &str| node.get(key)?.map(|node| node.number()).transpose();
    let positive = |key: &str| -> Result<Option<f64>, Error> {
        let found = number(key)?;
        match (found, node.get(key)?) {
            (Some(found), Some(node)) if found < 0.0 => {
                Err(node.error(format!("`{key}` must not be negative")))
            }
            _ => Ok(found),
        }
    };
    let (value, rtol, margin, stderr) =
        (number("value")?, positive("rtol")?, positive("margin")?, positive("stderr")?);
    let documents = node.get("n")?.map(|node| node.count(1)).transpose()?.map(|count| count as f64);
    let against = match (value, node.get("baseline")?, node.get("series")?) {
        (Some(value), None, None) => match rtol {
            Some(rtol) if margin.is_none() && stderr.is_none() && documents.is_none() => {
                Against::Tolerance { value, rtol }
            }
            _ => Against::Score(Sampled { value, stderr, documents }),
        },
        (None, Some(run), None) => Against::Run(beside(path, &run)?),
        (None, None, Some(folder)) => {
            let last = node.get("last")?.map(|last| last.count(2)).transpose()?;
            Against::Series {
                folder: beside(path, &folder)?,
                last: last.and_then(|last| usize::try_from(last).ok()).unwrap_or(LAST),
            }
        }
        _ => return Err(node.error("An expectation needs one of `value`, `baseline` and `series`")),
    };
    let (metric, filter) = split_metric(&node.need("metric")?.text()?);
    let filter = match node.get("filter")? {
        Some(filter) => Some(filter.text()?),
        None => filter,
    };
    Ok(Check { task: node.need("task")?.text()?, metric, filter, against, margin })
}
