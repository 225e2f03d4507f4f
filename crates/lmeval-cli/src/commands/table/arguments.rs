//! Arguments of `table`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How the table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for the terminal.
    #[default]
    Table,
    /// A Markdown table, for issues and pull requests.
    Markdown,
    /// Comma-separated values, with all digits.
    Csv,
    /// A LaTeX table, for the package `booktabs`.
    Latex,
    /// One JSON object, with all digits.
    Json,
}

/// The rows of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// One row per score, one column per model.
    #[default]
    Task,
    /// One row per model, one column per score.
    Model,
}

/// How to handle several runs of a model that have the same task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Duplicates {
    /// Show the newest, whatever its settings.
    Newest,
    /// Show each run as a model of its own.
    Separate,
}

/// Arguments of `table`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lm-eval table out\n  lm-eval table out/model-a out/model-b --metrics acc\n  lm-eval table out --by model --tasks mmlu,arc_easy\n  lm-eval table out --format latex > scores.tex"
)]
pub(crate) struct TableArgs {
    /// Results files, or folders, of which all runs are taken.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,

    /// Whether rows are scores or models.
    #[arg(long, value_enum, default_value_t)]
    pub by: By,

    /// Only these tasks and groups, names or patterns, separated by commas.
    #[arg(short, long, alias = "task", value_name = "TASKS", value_delimiter = ',')]
    pub tasks: Vec<String>,

    /// Only these metrics, separated by commas.
    #[arg(short, long, alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub metrics: Vec<String>,

    /// Only this filter pipeline.
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,

    /// Several runs of a model that have the same task. [default: the newest if their settings are the same, else an error]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub duplicates: Option<Duplicates>,

    /// How to print the table.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
