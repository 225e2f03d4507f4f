//! Arguments of `samples`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

/// How samples are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A block per document, or with --fields a table.
    #[default]
    Table,
    /// The lines of the samples files, or with --fields one JSON object per document.
    #[value(alias = "json")]
    Jsonl,
    /// Comma-separated values, one line per document.
    Csv,
    /// A Markdown table, for issues and pull requests.
    Markdown,
}

/// Arguments of `samples`.
#[derive(Args, Debug)]
#[command(
    after_help = "Fields: those of the samples file (`doc`, `doc_id`, `target`, `resps`, `filtered_resps`, `arguments`, metrics by name), and `task`, `prompt`, `answer`, `continuations`, `outcome`, `scores`.\n\nExamples:\n  lm-eval samples out --wrong -n 5\n  lm-eval samples out --tasks gsm8k --filter strict-match --wrong\n  lm-eval samples out --where \"'sorry' in answer | lower\"\n  lm-eval samples out --sort '-prompt | length' --fields doc_id,acc,doc.question\n  lm-eval samples out --right --format jsonl > right.jsonl"
)]
pub(crate) struct SamplesArgs {
    /// A results file, a samples file, or a folder, of which the newest run is taken.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,

    /// Only these tasks, names or patterns, separated by commas.
    #[arg(short, long, alias = "task", value_name = "TASKS", value_delimiter = ',')]
    pub tasks: Vec<String>,

    /// Only this filter pipeline.
    #[arg(long, value_name = "NAME")]
    pub filter: Option<String>,

    /// Only documents with a score of 0.
    #[arg(long, conflicts_with = "right")]
    pub wrong: bool,

    /// Only documents with a score of 1.
    #[arg(long)]
    pub right: bool,

    /// The metric that tells right from wrong. [default: the first of the document that is a number of which more is better]
    #[arg(short, long = "metrics", alias = "metric", value_name = "METRIC")]
    pub metric: Option<String>,

    /// Only documents for which a Jinja expression is true; may be given several times.
    #[arg(long = "where", value_name = "EXPR")]
    pub conditions: Vec<String>,

    /// Sort by a field or an expression; `-` in front of it means descending.
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub sort: Option<String>,

    /// Print at most N documents.
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub limit: Option<u64>,

    /// Print these fields or expressions, separated by commas.
    #[arg(long, value_name = "FIELDS")]
    pub fields: Option<String>,

    /// Do not fold long values. CSV and JSON are never folded.
    #[arg(long)]
    pub full: bool,

    /// How to print the documents.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Do not start a pager on a terminal.
    #[arg(long)]
    pub no_pager: bool,
}
