//! Arguments of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lmeval_analysis::condition::Condition;

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for the terminal.
    #[default]
    Table,
    /// A Markdown table, for issues and pull requests.
    Markdown,
    /// Comma-separated values, one line per score.
    Csv,
    /// One JSON object.
    Json,
    /// JUnit XML: one test case per gate.
    Junit,
    /// One JSON object per changed document, with --flips.
    Jsonl,
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if every gate passes or there is none, 3 if one fails, 4 if one is inconclusive.\n\nExamples:\n  lm-eval compare out/base out/new\n  lm-eval compare out/base out/new --flips 5\n  lm-eval compare out/base out/new --by subject\n  lm-eval compare out/base out/new --gate 'mmlu:acc >= -0.01' --format junit"
)]
pub(crate) struct CompareArgs {
    /// The run to compare with: a results file, a samples file, or a folder.
    #[arg(value_name = "BASE")]
    pub base: PathBuf,

    /// The runs to compare.
    #[arg(value_name = "NEW", required = true)]
    pub new: Vec<PathBuf>,

    /// Only these tasks and groups, separated by commas.
    #[arg(short, long, alias = "task", value_name = "TASKS", value_delimiter = ',')]
    pub tasks: Vec<String>,

    /// Only these metrics, separated by commas.
    #[arg(short, long, alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub metrics: Vec<String>,

    /// Only this filter pipeline.
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,

    /// A condition on a difference, `TASK:METRIC >= MARGIN` or `<=`; may be given several times.
    ///
    /// Several scores are one condition as `RULE(TASK:METRIC, …) >= MARGIN`, with the rule `documents`, `tasks`, `worst` or `fisher`.
    #[arg(long, value_name = "GATE", value_parser = gate)]
    pub gate: Vec<String>,

    /// The smallest difference of a score between 0 and 1 that matters, to compute the documents needed to find it.
    #[arg(long, value_name = "DIFFERENCE")]
    pub margin: Option<f64>,

    /// Print N documents whose score changed, the largest changes first; `all` for all of them.
    #[arg(long, value_name = "N")]
    pub flips: Option<String>,

    /// Break scores down by a field of the documents.
    #[arg(long, value_name = "FIELD")]
    pub by: Option<String>,

    /// A field of the documents that names their cluster: clustered standard errors.
    ///
    /// Without it, the `metadata: {cluster: FIELD}` of each task is used.
    #[arg(long, value_name = "FIELD")]
    pub cluster: Option<String>,

    /// Do not correct clustered standard errors for few clusters.
    #[arg(long)]
    pub no_cluster_correction: bool,

    /// The confidence of intervals; tests and power use one minus it.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub confidence: f64,

    /// The power that detectable differences and document counts are for.
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    pub power: f64,

    /// The seed of permutations and resamples.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,

    /// Compare documents although their prompts differ.
    #[arg(long)]
    pub allow_different_prompts: bool,

    /// How to print the comparison.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Checks a gate, so that a malformed one is a usage error; it is parsed again where it is decided.
pub(crate) fn gate(text: &str) -> Result<String, String> {
    Condition::parse(text)
        .map(|_| text.to_owned())
        .map_err(|_| "write `TASK:METRIC >= MARGIN`, as in 'mmlu:acc >= -0.01' or 'tasks(mmlu:acc, gsm8k:exact_match) >= -0.01'".to_owned())
}
