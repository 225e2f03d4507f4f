//! Arguments of `budget`.

use clap::Args;

use crate::commands::curve::CurveOutput;
use crate::settings::Budget;
use crate::stored::StoredArgs;

/// Arguments of `budget`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if everything was scored, 1 if documents have no stored answer or on an error, 2 for a usage error.\n\nExamples:\n  lm-eval budget out/qwen3\n  lm-eval budget out/qwen3 --budgets 1k,2k,4k,8k\n  lm-eval budget out/qwen3 --reductions avg@16,maj@16 --output_path curve\n  lm-eval budget out/gpt-4o --format csv > curve.csv"
)]
pub(crate) struct BudgetArgs {
    /// Which answers are scored, and by which tasks.
    #[command(flatten)]
    pub stored: StoredArgs,

    /// Token limits to score at: `512,1k,2k`, where `k` is 1,024. [default: powers of two up to the longest answer]
    #[arg(long, value_name = "TOKENS", num_args = 1.., value_delimiter = ',', value_parser = Budget::parse)]
    pub budgets: Vec<Budget>,

    /// The model's tokenizer: a folder, or a name on the hub. [default: the one that the run used]
    #[arg(long, value_name = "NAME")]
    pub tokenizer: Option<String>,

    /// Where the curve goes.
    #[command(flatten)]
    pub output: CurveOutput,
}
