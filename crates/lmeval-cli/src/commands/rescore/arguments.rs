//! Arguments of `rescore`.

use std::path::PathBuf;

use clap::Args;

use crate::settings::{Format, JudgeSetting, Options};
use crate::stored::StoredArgs;

/// Arguments of `rescore`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if everything was scored, 1 if documents have no stored answer or on an error, 2 for a usage error.\n\nExamples:\n  lm-eval rescore out/gpt-4o\n  lm-eval rescore out/gpt-4o --tasks my_gsm8k.yaml --output_path rescored\n  lm-eval rescore out/gpt-4o/answers.journal --tasks gsm8k --include_path my_tasks\n  lm-eval rescore out/gpt-4o --judge grader=openai-chat-completions,model=gpt-4o-mini\n  lm-eval rescore samples_gsm8k_2026-03-01T09-30-00.123456.jsonl --flips 20"
)]
pub(crate) struct RescoreArgs {
    /// Which answers are scored, and by which tasks.
    #[command(flatten)]
    pub stored: StoredArgs,

    /// Show this many changed documents of each score.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub flips: usize,

    /// A model that grades answers: `ROLE=BACKEND,key=value,…`; repeatable. Only judgements that the run lacks are asked for.
    #[arg(long, value_name = "JUDGE")]
    pub judge: Option<Vec<JudgeSetting>>,

    /// The stored run whose answers pairwise judges compare with.
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,

    /// A YAML or JSON file with the prices of a million tokens by model, for the cost of judges.
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,

    /// Write results to this folder, or to a file if it ends in `.json`.
    #[arg(short = 'o', long = "output_path", aliases = ["output-path", "output"], value_name = "PATH")]
    pub output_path: Option<String>,

    /// Also write the documents with their answers and scores.
    #[arg(short = 's', long = "log_samples", alias = "log-samples")]
    pub log_samples: bool,

    /// How results are printed.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

impl RescoreArgs {
    /// The arguments as those of `run`.
    pub(super) fn options(&self) -> Options {
        Options {
            output_path: self.output_path.clone(),
            log_samples: self.log_samples.then_some(true),
            format: self.format,
            judge: self.judge.clone(),
            baseline: self.baseline.clone(),
            prices: self.prices.clone(),
            ..self.stored.options()
        }
    }
}
