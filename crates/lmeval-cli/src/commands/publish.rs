//! `lm-eval publish`: a run in the formats of other programs.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use lmeval_analysis::publish::{Benchmark, Choice, Output, Record, TARGETS, target};

use crate::commands::Status;
use crate::printer::Printer;

/// Arguments of `publish`.
#[derive(Args, Debug)]
#[command(
    after_help = "Nothing is sent anywhere. What `samples` shows may be in the files: prompts, answers and documents.\n\nExamples:\n  lm-eval publish out/model --to card\n  lm-eval publish out/model --to card --tasks gsm8k,mmlu --metrics exact_match,acc\n  lm-eval publish out/model --to hub --benchmark gsm8k_cot=openai/gsm8k:gsm8k\n  lm-eval publish out/model --to eee --model-id org/model --organization 'My lab'"
)]
pub(crate) struct PublishArgs {
    /// A results file, or a folder, of which the newest run is taken.
    pub run: PathBuf,

    /// The format.
    #[arg(long, value_name = "FORMAT", required = true, value_parser = formats())]
    pub to: String,

    /// The folder of the files.
    #[arg(short, long, value_name = "FOLDER", default_value = "published")]
    pub output: PathBuf,

    /// Only these tasks and groups, names or patterns, separated by commas.
    #[arg(short, long, alias = "task", value_name = "TASKS", value_delimiter = ',')]
    pub tasks: Vec<String>,

    /// Only these metrics, separated by commas.
    #[arg(short, long, alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub metrics: Vec<String>,

    /// The model as ORG/NAME, if the run names it otherwise.
    #[arg(long, value_name = "ORG/NAME")]
    pub model_id: Option<String>,

    /// `hub`: the benchmark that a task stands for, as a data set of the hub and a task in its `eval.yaml`; repeatable.
    #[arg(long, value_name = "TASK=ORG/DATASET:ID")]
    pub benchmark: Vec<String>,

    /// `eee`: who ran the evaluation.
    #[arg(long, value_name = "NAME")]
    pub organization: Option<String>,

    /// `eee`: what the evaluator is to the model. [default: other]
    #[arg(long, value_name = "WHAT", value_parser = ["first_party", "third_party", "collaborative", "other"])]
    pub relationship: Option<String>,
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(
        TARGETS.iter().map(|target| PossibleValue::new(target.name).help(target.summary)),
    )
}

/// Writes the files and prints their names.
pub(crate) fn run(arguments: &PublishArgs, printer: &mut Printer) -> Result<Status> {
    let choice = Choice {
        tasks: arguments.tasks.clone(),
        metrics: arguments.metrics.clone(),
        model: arguments.model_id.clone(),
        organization: arguments.organization.clone(),
        relationship: arguments.relationship.clone(),
        benchmarks: arguments
            .benchmark
            .iter()
            .map(|text| Benchmark::parse(text))
            .collect::<Result<_, _>>()?,
    };
    let record = Record::open(&arguments.run, choice)?;
    let mut output = Output::new(&arguments.output);
    record.remark(&mut output);
    let format = target(&arguments.to).expect("clap accepts the names of formats only");
    (format.write)(&record, &mut output)?;
    for note in &output.notes {
        printer.warn(note);
    }
    for file in &output.files {
        printer.result(&format!("{}\n", file.display()))?;
    }
    Ok(Status::Success)
}
