//! `lm-eval publish`: a run in the formats of other programs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use lmeval_analysis::publish::{Benchmark, Choice, Output, Record, TARGETS, is_hub_name, target};
use lmeval_core::Diagnostic;
use lmeval_hub::{Client, Commit, Kind, Settings};

use crate::commands::Status;
use crate::foreign;
use crate::printer::Printer;
use crate::words::counted;

/// Arguments of `publish`.
#[derive(Args, Debug)]
#[command(
    after_help = "Nothing is sent anywhere without --push --yes. What `samples` shows may be in the files: prompts, answers and documents.\n\nExamples:\n  lm-eval publish out/model --to card\n  lm-eval publish out/model --to card --tasks gsm8k,mmlu --metrics exact_match,acc\n  lm-eval publish out/model --to hub --benchmark gsm8k_cot=openai/gsm8k:gsm8k\n  lm-eval publish out/model --to eee --model-id org/model --organization 'My lab'\n  lm-eval publish out/model --to hub --push --pull-request --yes"
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

    /// `hub`: the benchmark that a task stands for, as a dataset of the hub and a task in its `eval.yaml`; repeatable.
    #[arg(long, value_name = "TASK=ORG/DATASET:ID")]
    pub benchmark: Vec<String>,

    /// `eee`: who ran the evaluation.
    #[arg(long, value_name = "NAME")]
    pub organization: Option<String>,

    /// Upload the files to a repository of the hub. Without --yes, only says what would be sent where.
    #[arg(long)]
    pub push: bool,

    /// Upload without asking further.
    #[arg(long, requires = "push")]
    pub yes: bool,

    /// The repository for --push. [default: the model, with `--to hub`]
    #[arg(long, value_name = "ORG/NAME", requires = "push")]
    pub repo: Option<String>,

    /// Open a pull request instead of changing the branch `main`.
    #[arg(long, requires = "push")]
    pub pull_request: bool,

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
    let record = Record::open(&foreign::run(&arguments.run)?, choice)?;
    let mut output = Output::new(&arguments.output);
    record.remark(&mut output);
    let format = target(&arguments.to).expect("clap accepts the names of formats only");
    // Before the files are written, so that a wrong name costs nothing.
    let destination = arguments.push.then(|| destination(arguments, &record)).transpose()?;
    (format.write)(&record, &mut output)?;
    for note in &output.notes {
        printer.warn(note);
    }
    for file in &output.files {
        printer.result(&format!("{}\n", file.display()))?;
    }
    match destination {
        Some(destination) => push(&destination, arguments, &output, printer),
        None => Ok(Status::Success),
    }
}

/// A repository of the hub.
struct Destination {
    kind: Kind,
    id: String,
}

/// Where `--push` sends the files: results of a model belong to the model, everything else to a dataset.
fn destination(arguments: &PublishArgs, record: &Record) -> Result<Destination> {
    let kind = match arguments.to.as_str() {
        "hub" => Kind::Model,
        "card" => bail!(
            Diagnostic::new("`--to card` writes a part of a model card, which cannot be pushed by itself")
                .hint("Put it into the `README.md` of the model; `--to hub --push` sends the scores")
        ),
        _ => Kind::Dataset,
    };
    let id = match (&arguments.repo, kind) {
        (Some(id), _) => id.as_str(),
        (None, Kind::Model) => record.model(),
        (None, Kind::Dataset) => bail!(
            Diagnostic::new("`--push` needs the dataset that the files are sent to")
                .hint("`--repo ORG/NAME` names it")
        ),
    };
    if !is_hub_name(id) {
        bail!(
            Diagnostic::new(format!("`{id}` is not the name of a repository of the hub"))
                .hint("`--repo ORG/NAME` names it")
        );
    }
    Ok(Destination { kind, id: id.to_owned() })
}

fn push(
    destination: &Destination,
    arguments: &PublishArgs,
    output: &Output,
    printer: &mut Printer,
) -> Result<Status> {
    let name = |path: &Path| {
        path.strip_prefix(&arguments.output).unwrap_or(path).to_string_lossy().replace('\\', "/")
    };
    let files: Vec<(String, PathBuf)> = output.files.iter().map(|path| (name(path), path.clone())).collect();
    let settings = Settings::from_environment(destination.kind);
    let what = if destination.kind == Kind::Model { "model" } else { "dataset" };
    let place = format!("the {what} `{}` at {}", destination.id, settings.endpoint);
    if files.is_empty() {
        printer.warn(&format!("There is nothing to send to {place}"));
        return Ok(Status::Failure);
    }
    if !arguments.yes {
        let count = counted(files.len(), "file");
        printer.warn(&format!("Not sent: `--yes` sends {count} to {place}"));
        return Ok(Status::Usage);
    }
    let title = format!("Evaluation results of lm-eval ({})", arguments.to);
    let commit = Commit {
        kind: destination.kind,
        id: &destination.id,
        revision: "main",
        title: &title,
        pull_request: arguments.pull_request,
        files: &files,
    };
    let address = commit.push(&Client::new(&settings)?)?;
    printer.result(&format!("{address}\n"))?;
    Ok(Status::Success)
}
