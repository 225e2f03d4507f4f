//! What a run leaves behind: files, tables, and what the reader should know about them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use lmeval::settings::{Format, RunSettings};
use lmeval_core::Model;
use lmeval_engine::{Evaluated, Failure};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::{
    Column, Environment, Layout, ModelName, Moment, RunFacts, Seeds, Summary, file_object, make_latex_table,
    make_table, result_object, to_json, write_results,
};

use crate::printer::Printer;
use crate::report::hint_lines;

/// How many failures are listed.
const SHOWN_FAILURES: usize = 20;

/// How many tasks with odd answers are listed.
const SHOWN_AUDITS: usize = 20;

/// What is known of a run before it begins.
pub(crate) struct Start {
    /// When it began.
    pub moment: Moment,
    /// The same by a clock that nobody sets.
    pub began: Instant,
    /// The name of the model.
    pub model_name: ModelName,
    /// Where files go, and with which time stamp.
    pub files: Option<(Layout, String)>,
    /// Whether hashes stand for bytes in records.
    pub hash_media: bool,
}

/// What is known of a run beside its scores.
pub(crate) fn facts(
    settings: &RunSettings,
    start: &Start,
    model: &dyn Model,
    evaluation: &Evaluated,
) -> RunFacts {
    let model_facts = model.facts();
    let device = match settings.dialect.name {
        // Reference: what was asked for, whatever was used.
        "0.4" => settings.device().map(str::to_owned),
        _ => model_facts.device.clone().or_else(|| settings.device.clone()),
    };
    let seed = |place: usize| settings.seeds[place].map_or(Value::None, Value::Int);
    RunFacts {
        model: settings.model.clone(),
        model_source: settings.model.clone(),
        model_name: start.model_name.clone(),
        model_args: Value::from(settings.model_args.clone()),
        batch_sizes: model_facts.batch_sizes.clone(),
        model_facts,
        batch_size: settings.batch_size.clone(),
        device: device.map_or(Value::None, Value::from),
        use_cache: settings.use_cache.as_deref().map_or(Value::None, Value::str),
        limit: settings.limit.clone(),
        bootstrap_iters: Value::Int(settings.bootstrap_iters),
        gen_kwargs: Value::from(settings.gen_kwargs.clone()),
        seeds: Seeds { random: seed(0), numpy: seed(1), torch: seed(2), fewshot: seed(3) },
        start: start.moment,
        seconds: start.began.elapsed().as_secs_f64(),
        environment: Environment::collect(Path::new(".")),
        system_instruction: settings.system_instruction.clone(),
        chat_template: evaluation.chat_template.clone(),
        fewshot_as_multiturn: settings.fewshot_as_multiturn,
        dialect: settings.dialect,
        failed_requests: evaluation.failures.len(),
        hash_media: start.hash_media,
        code_limits: evaluation.code_limits.clone(),
    }
}

/// The configurations of tasks, by their keys.
pub(crate) fn configs(settings: &RunSettings, evaluation: &Evaluated) -> Dict {
    let tasks = evaluation.tasks.iter();
    tasks
        .map(|(key, task)| {
            let config = task.config.to_dict(task.mapping(), &settings.dialect, settings.predict_only);
            (Value::str(key.as_str()), Value::from(config))
        })
        .collect()
}

/// Prints and writes results.
pub(crate) fn write(
    settings: &RunSettings,
    start: &Start,
    facts: &RunFacts,
    evaluation: &Evaluated,
    task_hashes: &Dict,
    printer: &mut Printer,
) -> Result<()> {
    let configs = configs(settings, evaluation);
    let in_memory = result_object(&evaluation.results, &configs, facts);
    let in_file = file_object(&evaluation.results, &configs, task_hashes, facts);
    // Files first: a reader of standard output that goes away must not cost them.
    let written = start.files.as_ref().map(|(layout, stamp)| write_results(layout, stamp, &in_file));
    if settings.show_config && settings.format != Format::Json {
        printer.exact(&to_json(&in_memory)?)?;
        printer.result("\n")?;
    }
    print(settings, &in_memory, &in_file, printer)?;
    printer.flush()?;
    match written {
        Some(Ok(path)) => {
            printer.notes().wrote("results", None, &path);
            printer.notes().info(&format!("Results are in {}", path.display()));
        }
        Some(Err(error)) => return Err(error.into()),
        None => {}
    }
    Ok(())
}

fn print(settings: &RunSettings, in_memory: &Dict, in_file: &Dict, printer: &mut Printer) -> Result<()> {
    if settings.format == Format::Json {
        printer.exact(&to_json(in_file)?)?;
        return Ok(printer.result("\n")?);
    }
    let summary = Summary {
        model: settings.model.clone(),
        model_args: Value::from(settings.model_args.clone()),
        gen_kwargs: Value::from(settings.gen_kwargs.clone()),
        limit: settings.limit.clone(),
        num_fewshot: settings.num_fewshot.map_or(Value::None, Value::Int),
        batch_size: settings.batch_size.clone(),
        batch_sizes: batch_sizes(in_memory),
    };
    printer.result(&format!("{}\n", summary.line()))?;
    let groups = in_memory.contains_str("groups").then_some(Column::Groups);
    for column in [Column::Results].into_iter().chain(groups) {
        match settings.format {
            Format::Latex => printer.result(&make_latex_table(in_memory, column, false))?,
            _ => printer.table(&make_table(in_memory, column, false))?,
        }
        printer.result("\n")?;
    }
    Ok(())
}

/// The batch sizes that the model found out for itself.
fn batch_sizes(results: &Dict) -> Vec<i64> {
    let sizes =
        results.get_str("config").and_then(Value::as_dict).and_then(|config| config.get_str("batch_sizes"));
    sizes.and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_i64).collect()
}

/// Says which answers are odd: a score alone hides them.
pub(crate) fn tell_audit(evaluation: &Evaluated, printer: &Printer) {
    let mut lines = Vec::new();
    for (task, pipelines) in evaluation.results.audit.iter() {
        let Some(pipelines) = pipelines.as_dict() else { continue };
        for (pipeline, counts) in pipelines.iter() {
            let Some(counts) = counts.as_dict() else { continue };
            let count = |name: &str| counts.get_str(name).and_then(Value::as_i64).unwrap_or(0);
            let odd: Vec<String> = [
                ("empty", "empty answer", "empty answers"),
                ("whitespace_only", "answer of whitespace alone", "answers of whitespace alone"),
                ("truncated", "answer that was cut off", "answers that were cut off"),
                (
                    "extraction_failed",
                    "answer without what the filter looks for",
                    "answers without what the filter looks for",
                ),
                (
                    "unresolved_targets",
                    "document whose target is not among its options",
                    "documents whose target is not among their options",
                ),
                (
                    "errored",
                    "document left out for lack of an answer",
                    "documents left out for lack of an answer",
                ),
            ]
            .into_iter()
            .filter(|(name, ..)| count(name) > 0)
            .map(|(name, one, several)| match count(name) {
                1 => format!("1 {one}"),
                count => format!("{count} {several}"),
            })
            .collect();
            if let (false, Some(task), Some(pipeline)) = (odd.is_empty(), task.as_str(), pipeline.as_str()) {
                lines.push(format!("  {task}, {pipeline}: {}", odd.join(", ")));
            }
        }
    }
    tell_lines("Odd answers", &lines, SHOWN_AUDITS, printer);
}

fn tell_lines(title: &str, lines: &[String], most: usize, printer: &Printer) {
    if lines.is_empty() {
        return;
    }
    let mut text = format!("{title}:\n{}", lines[..lines.len().min(most)].join("\n"));
    if lines.len() > most {
        let _ = write!(text, "\n  and {} more", lines.len() - most);
    }
    printer.notes().info(&text);
}

/// Lists requests that failed for good.
pub(crate) fn tell_failures(failures: &[Failure], is_kept: bool, printer: &mut Printer) {
    let mut text = match failures.len() {
        1 => "error: 1 request failed for good; its document is left out of the scores".to_owned(),
        several => {
            format!("error: {several} requests failed for good; their documents are left out of the scores")
        }
    };
    for failure in failures.iter().take(SHOWN_FAILURES) {
        let _ = write!(text, "\n  {}: {}", failure.request.describe(), failure.error);
    }
    if failures.len() > SHOWN_FAILURES {
        let _ = write!(text, "\n  and {} more", failures.len() - SHOWN_FAILURES);
    }
    let mut hints: Vec<String> = Vec::new();
    for hint in failures.iter().flat_map(|failure| failure.error.hints()) {
        if !hints.contains(hint) && hints.len() < 3 {
            hints.push(hint.clone());
        }
    }
    let again = if is_kept {
        "The same command again sends only the requests that failed"
    } else {
        "With `--output_path` or `--use_cache`, the same command again sends only the requests that failed"
    };
    hints.push(again.to_owned());
    printer.note(&(text + &hint_lines(&hints)));
}
