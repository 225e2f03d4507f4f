//! Arguments of `watch`.

use clap::Args;

use crate::commands::curve::ScoreOptions;
use crate::settings::Options;

/// Arguments of `watch`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if every checkpoint was evaluated, 1 if one could not be, 2 for a usage error, 130 if interrupted.\n\nExamples:\n  lm-eval watch runs/pretrain --tasks arc_easy,piqa --model hf\n  lm-eval watch runs/pretrain --recipe dclm-core --latest --device cuda:1 --view\n  lm-eval watch runs/pretrain --tasks arc_easy --stop-when 'arc_easy.acc>=0.6' --best 3\n  lm-eval watch runs/megatron --convert 'python convert.py {input} {output}' --tasks piqa\n  lm-eval watch EleutherAI/pythia-160m --revisions 'step*000' --tasks piqa --once"
)]
pub(crate) struct WatchArgs {
    /// The folder that checkpoints are written to; with --revisions a model of the hub.
    #[arg(value_name = "FOLDER")]
    pub folder: String,

    /// The settings of each evaluation.
    #[command(flatten)]
    pub settings: Options,

    /// Which checkpoints, when, and how long. Last, because their heading would apply to what follows.
    #[command(flatten)]
    pub watch: WatchOptions,
}

/// The flags of `watch` that are not those of `run`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Watching")]
pub(crate) struct WatchOptions {
    /// Evaluate the newest checkpoint first. [default: the oldest]
    #[arg(long)]
    pub latest: bool,

    /// Evaluate what is complete now, then exit.
    #[arg(long, conflicts_with = "until_idle")]
    pub once: bool,

    /// Exit when nothing has changed for this long.
    #[arg(long, alias = "until_idle", value_name = "SECONDS", value_parser = seconds)]
    pub until_idle: Option<f64>,

    /// The time between two looks at the folder. With --revisions at least a minute.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub poll: f64,

    /// How long the files of a checkpoint have to stay as they are.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub settle: f64,

    /// A file that each checkpoint has when it is complete, such as `trainer_state.json`.
    #[arg(long, value_name = "NAME")]
    pub ready: Option<String>,

    /// Evaluate the branches and tags of a model of the hub that fit a pattern such as `step*`.
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "*")]
    pub revisions: Option<String>,

    /// Convert checkpoints of other formats with this command. `{input}`, `{output}` and `{step}` are replaced, quoted for the shell.
    ///
    /// The converted copy is deleted after its evaluation.
    #[arg(long, value_name = "COMMAND", conflicts_with = "revisions")]
    pub convert: Option<String>,

    /// Keep converted copies beside their results.
    #[arg(long, alias = "keep_converted", requires = "convert")]
    pub keep_converted: bool,

    /// The model argument that names a checkpoint.
    #[arg(long, alias = "checkpoint_arg", value_name = "NAME", default_value = "pretrained")]
    pub checkpoint_arg: String,

    /// How often an evaluation that fails is tried.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub attempts: u32,

    /// Stop when a score is beyond a value by more than chance, such as `arc_easy.acc>=0.6`; repeatable: all have to be.
    #[arg(long, alias = "stop_when", value_name = "GOAL")]
    pub stop_when: Vec<String>,

    /// Keep links to this many of the best checkpoints. One is replaced only by one that is better by more than chance.
    #[arg(long, value_name = "N")]
    pub best: Option<usize>,

    /// The score that --best is about, such as `arc_easy.acc`. [default: that of the only task]
    #[arg(long, alias = "best_by", value_name = "TASK.METRIC", requires = "best")]
    pub best_by: Option<String>,

    /// Write the scores for TensorBoard. [default folder: `tensorboard` in that of the results]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "")]
    pub tensorboard: Option<String>,

    /// Steps and scores of the curve.
    #[command(flatten)]
    pub scores: ScoreOptions,
}

/// Parses a number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e9).contains(number));
    number.ok_or_else(|| "must be a number of seconds, at least 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_not_negative() {
        assert_eq!(seconds("0.25"), Ok(0.25));
        for text in ["-1", "x", "inf", "nan", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
