//! Curves as JSON lines, one per step: what experiment trackers log, and figures that somebody has published.

use std::path::Path;

use fs_err as fs;
use lmeval_core::{Diagnostic, secrets};
use serde_json::{Map, Value, json};

use super::build::{Figures, StepFigures};
use super::{Curve, ScoreCurve};
use crate::Error;
use crate::stats::mean_interval;

const STEP: &str = "global_step";
const CHECKPOINT: &str = "checkpoint";
const RESULTS: &str = "results";
const STDERR: &str = "_stderr";
const DOCUMENTS: &str = "documents";

impl Curve {
    /// One object per step: `global_step`, the checkpoint, and each score as `task/metric` with `task/metric_stderr` and
    /// `task/documents`, as trackers name them.
    pub fn to_lines(&self) -> String {
        let mut text = String::new();
        for (index, step) in self.steps.iter().enumerate() {
            let mut line = Map::new();
            line.insert(STEP.to_owned(), step.step.into());
            line.insert(CHECKPOINT.to_owned(), step.checkpoint.clone().into());
            if let Some(results) = &step.results {
                line.insert(RESULTS.to_owned(), results.clone().into());
            }
            for score in &self.scores {
                let Some(point) = score.points.get(index).and_then(Option::as_ref) else { continue };
                line.insert(key(score), json!(point.value));
                if let Some(stderr) = point.stderr {
                    line.insert(key(score) + STDERR, json!(stderr));
                }
                if let Some(documents) = score.documents {
                    line.insert(format!("{}/{DOCUMENTS}", score.task), json!(documents));
                }
            }
            text += &secrets::mask(&Value::from(line).to_string());
            text.push('\n');
        }
        text
    }
}

fn key(score: &ScoreCurve) -> String {
    format!("{}/{}", score.task, score.label())
}

/// Reads lines that [`Curve::to_lines`] wrote, or that somebody made of published figures.
pub fn read_lines(path: &Path) -> Result<Vec<StepFigures>, Error> {
    let text = fs::read_to_string(path)
        .map_err(|error| Diagnostic::new(format!("Cannot read `{}`", path.display())).caused_by(error))?;
    let mut steps = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let found = read_line(line).map_err(|problem| {
            let message = format!("`{}`, line {}: {problem}", path.display(), index + 1);
            Diagnostic::new(message).hint(
                "Each line is an object such as {\"global_step\": 1000, \"piqa/acc\": 0.55, \"piqa/acc_stderr\": 0.012, \"piqa/documents\": 1838}",
            )
        })?;
        steps.push(found);
    }
    Ok(steps)
}

fn read_line(line: &str) -> Result<StepFigures, String> {
    let Value::Object(fields) = serde_json::from_str(line).map_err(|error| error.to_string())? else {
        return Err("it is not a JSON object".to_owned());
    };
    let step =
        fields.get(STEP).and_then(Value::as_u64).ok_or("it has no `global_step` that is a whole number")?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str| fields.get(name).and_then(Value::as_f64);
    let mut figures = Vec::new();
    for (name, value) in &fields {
        // Tasks of groups and file names have slashes of their own.
        let Some((task, label)) = name.rsplit_once('/') else { continue };
        if label == DOCUMENTS || label.ends_with(STDERR) {
            continue;
        }
        let (metric, filter) = label.split_once(',').unwrap_or((label, "none"));
        let value = value.as_f64().ok_or_else(|| format!("`{name}` is not a number"))?;
        let (stderr, documents) =
            (number(&format!("{name}{STDERR}")), number(&format!("{task}/{DOCUMENTS}")));
        // The standard error of a share follows from its documents.
        let is_share = (0.0..=1.0).contains(&value);
        let stderr = stderr.or_else(|| {
            documents
                .filter(|count| is_share && *count > 1.0)
                .map(|count| (value * (1.0 - value) / (count - 1.0)).sqrt())
        });
        figures.push(Figures {
            task: task.to_owned(),
            metric: metric.to_owned(),
            filter: filter.to_owned(),
            value,
            stderr,
            interval: mean_interval(value, stderr, documents),
            documents,
            higher_is_better: None,
            is_group: false,
        });
    }
    let checkpoint = text(CHECKPOINT).unwrap_or_else(|| format!("step {step}"));
    Ok(StepFigures { step, checkpoint, results: None, failed_requests: 0, figures, runs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lines_are_explained() {
        for (line, problem) in [
            ("x", "expected value"),
            ("[]", "not a JSON object"),
            ("{\"a/acc\": 1}", "no `global_step`"),
            ("{\"global_step\": 1.5}", "no `global_step`"),
            ("{\"global_step\": 1, \"a/acc\": \"x\"}", "`a/acc` is not a number"),
        ] {
            let found = read_line(line).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }

    #[test]
    fn the_error_of_a_share_follows_from_its_documents() {
        let line = "{\"global_step\": 3, \"g/a/acc,strict\": 0.5, \"g/a/documents\": 101}";
        let step = read_line(line).unwrap();
        let figures = &step.figures[0];
        assert_eq!(
            (figures.task.as_str(), figures.metric.as_str(), figures.filter.as_str()),
            ("g/a", "acc", "strict")
        );
        assert_eq!(figures.stderr, Some(0.05));
        assert!(figures.interval.is_some());
    }
}
