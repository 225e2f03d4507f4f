//! `lm-eval verify`: whether a finished run is still what it was, and whether two runs are the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use lmeval_analysis::read::Run;
use lmeval_claims::receipt::{self, AnswerDigests, RECEIPT, Receipt, SCORES};
use lmeval_core::{Diagnostic, InProcess, Model};
use lmeval_engine::{Evaluated, Events};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_scoring::results::value_checksum;

use crate::commands::Status;
use crate::commands::rescore::{Comparison, create_judges};
use crate::json_line;
use crate::printer::Printer;
use crate::run::lock;
use crate::run::output::{self, Objects};
use crate::stored::{Prefer, Scored, SharedModel, Source, StoredArgs, StoredRun};
use crate::words::counted;

/// Documents that a line names.
const NAMED: usize = 5;

/// Arguments of `verify`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 if nothing differs, 1 if something does or on an error, 2 for a usage error.\n\nExamples:\n  lm-eval verify out\n  lm-eval verify out --against published"
)]
pub(crate) struct VerifyArgs {
    /// The run, and the tasks that score it.
    #[command(flatten)]
    pub stored: StoredArgs,

    /// Another run that has to have the same receipt.
    #[arg(long, value_name = "RUN")]
    pub against: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Something that is not as the run wrote it.
struct Difference {
    /// The part of the run.
    part: &'static str,
    text: String,
}

/// Checks a run.
pub(super) fn run(arguments: &VerifyArgs, printer: &mut Printer) -> Result<Status> {
    let run = Run::open_answers(&arguments.stored.run)?;
    let (receipt, stated) = receipt_of(&run)?;
    let mut differences = of_files(&run, &receipt, &stated);
    differences.extend(of_answers(arguments, &run, &receipt, printer)?);
    if let Some(other) = &arguments.against {
        let other = Run::open_answers(other)?;
        differences.extend(of_other(&receipt, &receipt_of(&other)?.0, &other));
    }
    if arguments.json {
        let list = differences.iter().map(|difference| {
            Value::dict([
                ("part", Value::str(difference.part)),
                ("text", Value::str(difference.text.as_str())),
            ])
        });
        let whole = Value::dict([
            ("run", Value::from(run.path.display().to_string())),
            ("receipt", Value::from(stated.as_str())),
            ("differences", Value::list(list)),
        ]);
        let mut text = String::new();
        json_line::write(&mut text, &whole)?;
        printer.exact(&text)?;
    } else {
        for difference in &differences {
            printer.result(&format!("{}: {}\n", difference.part, difference.text))?;
        }
        let tasks = counted(receipt.answers.len(), "task");
        printer.result(&match differences.len() {
            0 => format!("Receipt {stated}: the answers and scores of {tasks} match the run\n"),
            count => format!("Receipt {stated}: {} found\n", counted(count, "difference")),
        })?;
    }
    Ok(if differences.is_empty() { Status::Success } else { Status::Failure })
}

/// The receipt of a run, and the number that it states.
fn receipt_of(run: &Run) -> Result<(Receipt, String)> {
    let path = run.path.display();
    let Some(value) = run.results.as_ref().and_then(|results| results.get_str(RECEIPT)) else {
        bail!(
            Diagnostic::new(format!("`{path}` has no receipt"))
                .hint("Runs with `--output_path` write one if all requests were answered, except with `--compat 0.4` and `--shard`")
                .hint("`lm-eval rescore` scores the stored answers of any run again")
        );
    };
    match Receipt::from_value(value) {
        Some(read) => Ok(read),
        None => bail!("The receipt of `{path}` is damaged"),
    }
}

/// What the files of the run say about each other.
fn of_files(run: &Run, receipt: &Receipt, stated: &str) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |part, text: String| found.push(Difference { part, text });
    if receipt.number() != stated {
        add("receipt", format!("its number is {stated}, and that of its parts is {}", receipt.number()));
    }
    if let Some(change) = run.results_change() {
        add("results", change);
    }
    if let Some(results) = &run.results
        && receipt::scores(results) != receipt.scores
    {
        add("scores", "the scores in the results file differ from the receipt".to_owned());
    }
    match lock::open(&run.path) {
        Ok((path, lock)) if receipt::inputs(&lock) != receipt.inputs => {
            let text = format!("the inputs in `{}` are not those of the receipt", path.display());
            add("inputs", text);
        }
        Ok(_) => {}
        Err(error) => add("inputs", format!("the lock of the run cannot be read: {error}")),
    }
    found
}

/// A run that was scored again.
struct Again {
    evaluation: Evaluated,
    answers: Arc<AnswerDigests>,
    differing: Vec<Difference>,
    results: Dict,
}

/// Scores the stored answers again, and compares.
fn of_answers(
    arguments: &VerifyArgs,
    run: &Run,
    receipt: &Receipt,
    printer: &mut Printer,
) -> Result<Vec<Difference>> {
    let again = again(arguments, Prefer::Samples, printer)?;
    let mut found = again.differing;
    let digests = again.answers.tasks();
    let mut of_journal = None;
    for (task, digest) in &receipt.answers {
        if digests.get(task) == Some(digest) {
            continue;
        }
        if of_journal.is_none() && run.journal().is_some() && !run.samples.is_empty() {
            // The journal tells which of the samples were changed.
            of_journal = Some(self::again(arguments, Prefer::Journal, printer)?.answers);
        }
        let documents = of_journal.as_ref().map(|journal| again.answers.differing(journal, task));
        let text = match documents.filter(|documents| !documents.is_empty()) {
            Some(documents) => format!(
                "`{task}`: the answers to {} are not those of the journal: {}",
                counted(documents.len(), "document"),
                named(&documents)
            ),
            None => format!("`{task}`: the stored answers are not those of the receipt"),
        };
        found.push(Difference { part: "answers", text });
    }
    let written = run.results.clone().unwrap_or_default();
    for section in SCORES {
        let dict =
            |results: &Dict| results.get_str(section).and_then(Value::as_dict).cloned().unwrap_or_default();
        compare(&dict(&written), &dict(&again.results), &mut found);
    }
    let missing = again.evaluation.failures.len();
    if missing > 0 {
        let text = format!("{} without a stored answer", counted(missing, "request"));
        found.push(Difference { part: "answers", text });
    }
    Ok(found)
}

/// The first of some documents.
fn named(documents: &[usize]) -> String {
    let shown: Vec<String> = documents.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if documents.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Scores the stored answers of one source.
fn again(arguments: &VerifyArgs, prefer: Prefer, printer: &mut Printer) -> Result<Again> {
    let mut stored = StoredRun::open(&arguments.stored, &arguments.stored.options(), prefer, printer)?;
    create_judges(&stored.run, &mut stored.session, printer)?;
    let answers = Arc::new(AnswerDigests::of_documents());
    stored.session.answers = Some(Arc::clone(&answers));
    let comparison = Arc::new(Comparison::new(&stored.run, &stored.model, NAMED));
    stored.session.observer = Some(Arc::clone(&comparison) as Arc<dyn Events>);
    let model: Arc<dyn Model> = Arc::new(InProcess::new(SharedModel(Arc::clone(&stored.model))));
    let start_over = || {
        drop(comparison.take());
        answers.clear();
    };
    let options = stored.session.options();
    let Scored { evaluation, events, .. } = stored.evaluate(&model, &options, &start_over, printer)?;
    let facts = output::facts(&stored.session, model.facts(), &evaluation);
    let objects =
        Objects::new(&stored.session.settings, &facts, &evaluation, &events.task_hashes(&evaluation));
    let changed = comparison.take().changed.into_iter().filter(|changed| !changed.first.is_empty());
    let mut differing: Vec<Difference> = of_samples(&stored).collect();
    differing.extend(changed.map(|changed| {
        let documents = changed.first.iter().map(|flip| {
            format!(
                "document {}: {} in the file, {} again",
                flip.document,
                shown(flip.before),
                shown(flip.after)
            )
        });
        let documents: Vec<String> = documents.collect();
        let text =
            format!("`{}` {},{}: {}", changed.task, changed.metric, changed.filter, documents.join("; "));
        Difference { part: "samples", text }
    }));
    Ok(Again { differing, answers, results: objects.file().clone(), evaluation })
}

/// Samples files that are not as the run wrote them.
fn of_samples(stored: &StoredRun) -> impl Iterator<Item = Difference> {
    let changes = stored.run.samples.iter().filter_map(|file| match &stored.model.source {
        Source::Samples(samples) => stored.run.samples_change(file, samples.checksum(&file.path)?),
        Source::Journal(_) => None,
    });
    changes.map(|text| Difference { part: "samples", text })
}

fn shown(number: f64) -> String {
    repr::repr(&Value::Float(number))
}

/// Compares the scores of tasks or groups.
fn compare(written: &Dict, again: &Dict, found: &mut Vec<Difference>) {
    for (task, scores) in written.iter() {
        let of_task = again.get(task).and_then(Value::as_dict);
        for (name, value) in scores.as_dict().into_iter().flat_map(Dict::iter) {
            let now = of_task.and_then(|scores| scores.get(name));
            let is_same = now.is_some_and(|now| value_checksum(now) == value_checksum(value));
            if !is_same {
                let now = now.map_or_else(|| "nothing".to_owned(), repr::repr);
                let text = format!(
                    "`{}` {}: {} in the file, {now} by the stored answers",
                    repr::str(task),
                    repr::str(name),
                    repr::repr(value)
                );
                found.push(Difference { part: "scores", text });
            }
        }
    }
}

/// How the receipt of another run differs.
fn of_other(own: &Receipt, other: &Receipt, run: &Run) -> Vec<Difference> {
    let path: &Path = &run.path;
    let mut parts: Vec<String> = Vec::new();
    if own.inputs != other.inputs {
        parts.push("other inputs; `lm-eval lock diff` names them".to_owned());
    }
    let tasks: BTreeSet<&String> = own.answers.keys().chain(other.answers.keys()).collect();
    let differing = tasks.into_iter().filter(|task| own.answers.get(*task) != other.answers.get(*task));
    parts.extend(differing.map(|task| format!("other answers to `{task}`")));
    if own.scores != other.scores {
        parts.push("other scores".to_owned());
    }
    let of_part =
        |text: String| Difference { part: "against", text: format!("`{}` has {text}", path.display()) };
    parts.into_iter().map(of_part).collect()
}
