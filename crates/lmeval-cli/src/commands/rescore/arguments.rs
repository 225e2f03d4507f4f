//! Arguments of `rescore`.

use std::path::PathBuf;

use clap::Args;

use crate::settings::{
    Choices, Compat, Format, JudgeSetting, LibraryArgs, Options, PythonArgs, Reductions, TaskNames,
};

/// Arguments of `rescore`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if everything was scored, 1 if documents have no stored answer or on an error, 2 for a usage error.\n\nExamples:\n  lm-eval rescore out/gpt-4o\n  lm-eval rescore out/gpt-4o --tasks my_gsm8k.yaml --output_path rescored\n  lm-eval rescore out/gpt-4o/answers.journal --tasks gsm8k --include_path my_tasks\n  lm-eval rescore out/gpt-4o --judge grader=openai-chat-completions,model=gpt-4o-mini\n  lm-eval rescore samples_gsm8k_2026-03-01T09-30-00.123456.jsonl --flips 20"
)]
pub(crate) struct RescoreArgs {
    /// A results file, a samples file, a journal, or a folder with the results of one model.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,

    /// Score these tasks instead of those of the run: names, patterns, `task@format`, `group::task` or YAML files.
    #[arg(short, long, alias = "task", value_name = "TASKS", num_args = 1..)]
    pub tasks: Option<Vec<TaskNames>>,

    /// How the answers to each document become one value: `avg@16,pass@1,maj@16`. [default: as in the run]
    #[arg(long, value_name = "NAMES", num_args = 1..)]
    pub reductions: Option<Vec<Reductions>>,

    /// Score the other documents if some have no stored answer.
    #[arg(long)]
    pub partial: bool,

    /// Show this many changed documents of each score.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub flips: usize,

    /// Take the answers of the model whose identity contains this string, if a journal has several.
    #[arg(long, value_name = "TEXT")]
    pub model: Option<String>,

    /// A model that grades answers: `ROLE=BACKEND,key=value,…`; repeatable. Only judgements that the run lacks are asked for.
    #[arg(long, value_name = "JUDGE")]
    pub judge: Option<Vec<JudgeSetting>>,

    /// The stored run whose answers pairwise judges compare with.
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,

    /// A YAML or JSON file with the prices of a million tokens by model, for the cost of judges.
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,

    /// Follow the rules of this lm-eval release line: `0.5` or `0.4`. [default: that of the run]
    #[arg(long, value_name = "VERSION")]
    pub compat: Option<Compat>,

    /// How multiple-choice options were compared: `letters` or `generate`. [default: as in the run]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub choices: Option<Choices>,

    /// A YAML settings file as for `run`, for a run without a results file.
    #[arg(short = 'C', long, value_name = "FILE")]
    pub config: Option<String>,

    /// Write results to this folder, or to a file if it ends in `.json`.
    #[arg(short = 'o', long = "output_path", aliases = ["output-path", "output"], value_name = "PATH")]
    pub output_path: Option<String>,

    /// Also write the documents with their answers and scores.
    #[arg(short = 's', long = "log_samples", alias = "log-samples")]
    pub log_samples: bool,

    /// How results are printed.
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Allow tasks that run code written by the model.
    #[arg(long = "confirm_run_unsafe_code", alias = "confirm-run-unsafe-code")]
    pub confirm_run_unsafe_code: bool,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,

    /// The Python that runs task functions.
    #[command(flatten)]
    pub python: PythonArgs,
}

impl RescoreArgs {
    /// The arguments as those of `run`.
    pub(super) fn options(&self) -> Options {
        Options {
            config: self.config.clone(),
            tasks: self.tasks.clone(),
            reductions: self.reductions.clone(),
            compat: self.compat.clone(),
            choices: self.choices,
            output_path: self.output_path.clone(),
            log_samples: self.log_samples.then_some(true),
            format: self.format,
            judge: self.judge.clone(),
            baseline: self.baseline.clone(),
            prices: self.prices.clone(),
            confirm_run_unsafe_code: self.confirm_run_unsafe_code.then_some(true),
            library: self.library.clone(),
            python: self.python.clone(),
            ..Options::default()
        }
    }
}
