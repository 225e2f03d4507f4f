//! Arguments of `fidelity`.

use clap::Args;
use lmeval_core::Kept;

use crate::commands::compare::gate;
use crate::settings::Options;

/// Arguments of `fidelity`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if the models are the same or equivalent, 3 if a score is different or a gate fails, 4 if the documents do not decide, 1 on an error, 2 for a usage error, 130 if interrupted.\n\nExamples:\n  lm-eval fidelity --model hf --model_args pretrained=MODEL --against_args pretrained=FOLDER,gguf_file=MODEL-Q4_0.gguf --tasks hellaswag --limit 200 --output_path out\n  lm-eval fidelity --model hf --model_args pretrained=MODEL --against vllm --against_args pretrained=MODEL --tasks arc_easy,gsm8k --output_path out"
)]
pub(crate) struct FidelityArgs {
    /// The backend of the model to check; that of `--model` is the reference. [default: the same as --model]
    #[arg(long, value_name = "NAME", help_heading = "Comparison")]
    pub against: Option<String>,

    /// The arguments of the model to check, like --model_args.
    #[arg(
        long = "against_args",
        alias = "against-args",
        value_name = "ARGS",
        num_args = 1..,
        required_unless_present = "against",
        help_heading = "Comparison"
    )]
    pub against_args: Vec<String>,

    /// The difference of a score between 0 and 1 that does not matter; of other scores, the share of the score.
    #[arg(long, value_name = "DIFFERENCE", default_value_t = 0.01, value_parser = margin, help_heading = "Comparison")]
    pub margin: f64,

    /// A condition on a difference, as for `compare`; may be given several times. Gates then decide instead of --margin.
    #[arg(long, value_name = "GATE", value_parser = gate, help_heading = "Comparison")]
    pub gate: Vec<String>,

    /// The share of each distribution of a model computed here whose tokens are compared one by one; 1 for all tokens.
    #[arg(long, value_name = "SHARE", default_value_t = 0.999, value_parser = share, help_heading = "Comparison")]
    pub keep: f64,

    /// The maximum number of tokens of such a distribution.
    #[arg(
        long = "keep_most",
        alias = "keep-most",
        value_name = "N",
        default_value_t = 1 << 20,
        value_parser = count,
        help_heading = "Comparison"
    )]
    pub keep_most: usize,

    /// The number of most likely tokens to ask a server for. vLLM returns 20 unless it is started with a higher `--max-logprobs`.
    #[arg(
        long = "top_logprobs",
        alias = "top-logprobs",
        value_name = "N",
        default_value_t = 20,
        value_parser = count,
        help_heading = "Comparison"
    )]
    pub top_logprobs: usize,

    /// Compare documents alone, without the distributions of tokens.
    #[arg(long = "documents_only", alias = "documents-only", help_heading = "Comparison")]
    pub documents_only: bool,

    /// The number of documents and tokens to list, those that differ most first.
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Comparison")]
    pub worst: usize,

    /// Print one JSON object, that of `fidelity.json`.
    #[arg(long, help_heading = "Comparison")]
    pub json: bool,

    /// The settings of both runs.
    #[command(flatten)]
    pub settings: Options,
}

impl FidelityArgs {
    /// How much of each distribution is compared.
    pub(super) fn kept(&self) -> Kept {
        Kept { share: self.keep, most: self.keep_most, top: self.top_logprobs }
    }
}

fn margin(text: &str) -> Result<f64, String> {
    let margin = text.parse().ok().filter(|margin: &f64| *margin > 0.0 && margin.is_finite());
    margin.ok_or_else(|| format!("`{text}` is not a number above 0, such as 0.01"))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| format!("`{text}` is not a share above 0 and up to 1, such as 0.999"))
}

fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{text}` is not a number of tokens, such as 20"))
}
