//! Arguments of `curve`, and those about scores that `watch` has, too.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lmeval_analysis::curve::Selection;

/// Arguments of `curve`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lm-eval curve results\n  lm-eval curve runs/step1000 runs/step2000 --tasks arc_easy,piqa --metrics acc\n  lm-eval curve results --output_path curve\n  lm-eval curve published.jsonl --format svg > curve.svg"
)]
pub(crate) struct CurveArgs {
    /// Results files, folders, of which all runs are taken, or files with one JSON object per step (`.jsonl`).
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,

    /// Which scores are shown.
    #[command(flatten)]
    pub scores: ScoreOptions,

    /// Only these tasks and groups, names or patterns, separated by commas.
    #[arg(short, long, alias = "task", value_name = "TASKS", value_delimiter = ',')]
    pub tasks: Vec<String>,

    /// The name in headings. [default: that of the first path]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Where the curve goes.
    #[command(flatten)]
    pub output: CurveOutput,
}

/// Where a curve goes, and how it is printed.
#[derive(Args, Debug)]
pub(crate) struct CurveOutput {
    /// Also write the curve to this folder, as JSON, CSV, SVG and PNG.
    #[arg(short = 'o', long = "output_path", aliases = ["output-path", "output"], value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// How the curve is printed.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Which scores a curve has.
#[derive(Args, Debug, Default)]
pub(crate) struct ScoreOptions {
    /// A regular expression whose first group is the step, for names such as `run7-000500`.
    #[arg(long, alias = "step_pattern", value_name = "REGEX", allow_hyphen_values = true)]
    pub step_pattern: Option<String>,

    /// Only these metrics, separated by commas.
    #[arg(short, long, alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub metrics: Vec<String>,

    /// The score of guessing, where the options of a task do not say it: `TASK=VALUE` or `TASK:METRIC=VALUE`; repeatable.
    #[arg(long, value_name = "TASK=VALUE", value_parser = chance)]
    pub chance: Vec<(String, f64)>,
}

impl ScoreOptions {
    /// The scores that are shown.
    pub(crate) fn selection(&self) -> Selection {
        Selection { tasks: Vec::new(), metrics: self.metrics.clone(), chances: self.chance.clone() }
    }
}

impl CurveArgs {
    /// The scores that are shown.
    pub(super) fn selection(&self) -> Selection {
        Selection { tasks: self.tasks.clone(), ..self.scores.selection() }
    }
}

/// Parses `TASK=VALUE`.
fn chance(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.rsplit_once('=').ok_or("must be TASK=VALUE, such as arc_easy=0.25")?;
    let value = value.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let value = value.ok_or_else(|| "the value must be a number, such as 0.25".to_owned())?;
    if name.trim().is_empty() { Err("names no task".to_owned()) } else { Ok((name.trim().to_owned(), value)) }
}

/// How a curve is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A Markdown table with sparklines, folded if the terminal is narrower.
    #[default]
    Table,
    /// Comma-separated values with all digits.
    Csv,
    /// One JSON object.
    Json,
    /// One JSON object per step, or per task of `budget`.
    Jsonl,
    /// A drawing.
    Svg,
}
