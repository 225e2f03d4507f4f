//! The output of a run: result files, tables, and notes about them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_analysis::table::{Selection, score_table};
use lmeval_claims::lock::Lock;
use lmeval_claims::receipt::{self, AnswerDigests, Receipt};
use lmeval_claims::recipe::{RECIPE, add_rows, definition};
use lmeval_core::{Diagnose as _, Model, ModelFacts, ModelStats};
use lmeval_engine::{Evaluated, Failure};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::{
    Column, Environment, Layout, ReportError, RunFacts, Seeds, Summary, add_checksums, bound_notes,
    file_object, make_latex_table, make_table, result_object, to_json, write_results,
};
use lmeval_scoring::results::LetterAudit;

use super::session::Session;
use crate::csv;
use crate::excerpt::cell;
use crate::printer::Printer;
use crate::report::hint_lines;
use crate::settings::{Format, RunSettings};
use crate::words::{counted, for_count};

/// The number of failures listed.
const SHOWN_FAILURES: usize = 20;

/// The number of tasks with unusual answers listed.
const SHOWN_AUDITS: usize = 20;

/// Collects the facts that results record besides the scores.
pub(crate) fn facts(session: &Session, model_facts: ModelFacts, evaluation: &Evaluated) -> RunFacts {
    let settings = &session.settings;
    let device = if settings.dialect.device_as_requested {
        settings.model.device().map(str::to_owned)
    } else {
        model_facts.device.clone().or_else(|| settings.model.device.clone())
    };
    let seed = |index: usize| settings.prompts.seeds[index].map_or(Value::None, Value::Int);
    RunFacts {
        model: settings.model.name.clone(),
        model_source: settings.model.name.clone(),
        model_name: session.model_name.clone(),
        model_args: Value::from(settings.model.args.clone()),
        batch_sizes: model_facts.batch_sizes.clone(),
        model_facts,
        batch_size: settings.model.batch_size.clone(),
        device: device.map_or(Value::None, Value::from),
        use_cache: settings.answers.use_cache.as_deref().map_or(Value::None, Value::str),
        limit: settings.documents.limit.clone(),
        bootstrap_iters: Value::Int(settings.scoring.bootstrap_iters),
        gen_kwargs: Value::from(settings.prompts.gen_kwargs.clone()),
        seeds: Seeds { random: seed(0), numpy: seed(1), torch: seed(2), fewshot: seed(3) },
        start: session.clock.moment,
        seconds: session.clock.began.elapsed().as_secs_f64(),
        environment: Environment::collect(Path::new(".")),
        system_instruction: settings.prompts.system_instruction.clone(),
        chat_template: evaluation.chat_template.clone(),
        fewshot_as_multiturn: settings.prompts.fewshot_as_multiturn,
        dialect: settings.dialect,
        failed_requests: evaluation.failures.len(),
        hash_media: session.hash_media,
        code_limits: evaluation.code_limits.clone(),
        judges: evaluation.judges.clone(),
        model_usage: Dict::new(),
        choices: evaluation.choices.clone(),
    }
}

/// The configurations of the tasks, by key.
pub(crate) fn configs(settings: &RunSettings, evaluation: &Evaluated) -> Dict {
    let tasks = evaluation.tasks.iter();
    tasks
        .map(|(key, task)| {
            let config =
                task.config.to_dict(task.mapping(), &settings.dialect, settings.scoring.predict_only);
            (Value::str(key.as_str()), Value::from(config))
        })
        .collect()
}

/// The key of the numbers of documents that were set for single tasks.
pub(crate) const TASK_LIMITS: &str = "task_limits";

/// The key of the digests of the data of all tasks.
pub(crate) const DATA_DIGESTS: &str = "data_digests";

/// The key of the digests of the conversations of all tasks.
pub(crate) const CHAT_DIGESTS: &str = "chat_digests";

/// The digests of data and conversations. Files of the 0.4 line have none.
fn digests<'a>(
    settings: &RunSettings,
    evaluation: &'a Evaluated,
) -> impl Iterator<Item = (&'static str, &'a Dict)> {
    let both = [(DATA_DIGESTS, &evaluation.digests), (CHAT_DIGESTS, &evaluation.chat_digests)];
    let is_written = !settings.dialect.plain_result_files;
    both.into_iter().filter(move |(_, digests)| is_written && !digests.is_empty())
}

/// The results of a run in both forms.
pub(crate) struct Objects {
    in_memory: Dict,
    in_file: Dict,
}

impl Objects {
    /// Puts results, configurations and facts together.
    pub(crate) fn new(
        settings: &RunSettings,
        facts: &RunFacts,
        evaluation: &Evaluated,
        task_hashes: &Dict,
    ) -> Self {
        let configs = configs(settings, evaluation);
        let mut objects = Self {
            in_memory: result_object(&evaluation.results, &configs, facts),
            in_file: file_object(&evaluation.results, &configs, task_hashes, facts),
        };
        for (key, digests) in digests(settings, evaluation) {
            objects.add_digests(key, digests);
        }
        let limits = evaluation.tasks.iter().filter_map(|(key, task)| {
            Some((Value::str(key.as_str()), Value::Int(task.options.limit? as i64)))
        });
        let limits: Dict = limits.collect();
        if !limits.is_empty() {
            objects.insert(TASK_LIMITS, &Value::from(limits));
        }
        if let Some(recipe) = &settings.recipe {
            objects.insert(RECIPE, &definition(recipe));
        }
        objects
    }

    /// Adds digests of all tasks, if there are any.
    pub(crate) fn add_digests(&mut self, key: &str, digests: &Dict) {
        if !digests.is_empty() {
            self.insert(key, &Value::from(digests.clone()));
        }
    }

    /// The form for files.
    pub(crate) fn file(&self) -> &Dict {
        &self.in_file
    }

    /// Adds a key.
    pub(crate) fn insert(&mut self, key: &str, value: &Value) {
        for object in [&mut self.in_memory, &mut self.in_file] {
            object.insert(key, value.clone());
        }
    }

    /// Adds the receipt of the run to the form for files.
    pub(crate) fn add_receipt(&mut self, lock: &Lock, answers: &AnswerDigests) {
        let receipt = Receipt {
            inputs: receipt::inputs(lock),
            answers: answers.tasks(),
            scores: receipt::scores(&self.in_file),
        };
        self.in_file.insert(receipt::RECEIPT, receipt.to_value());
    }

    /// Adds the rows of the recipe that the object names, and warns of those that cannot be computed.
    pub(crate) fn add_rows(&mut self, printer: &Printer) -> Result<()> {
        let missing = add_rows(&mut self.in_file)?;
        add_rows(&mut self.in_memory)?;
        for reason in missing {
            printer.notes().info(&reason);
        }
        Ok(())
    }

    /// Replaces the value of a key where it exists.
    pub(crate) fn replace(&mut self, key: &str, value: &Value) {
        for object in [&mut self.in_memory, &mut self.in_file] {
            if object.contains_str(key) {
                object.insert(key, value.clone());
            }
        }
    }

    /// Changes both forms.
    pub(crate) fn edit(&mut self, change: impl Fn(&mut Dict)) {
        change(&mut self.in_memory);
        change(&mut self.in_file);
    }

    /// Adds the checksums of all keys and of the samples files to the form for files, and writes it if files are wanted.
    pub(crate) fn save(&mut self, session: &Session, samples: Dict) -> Result<Option<PathBuf>, ReportError> {
        if !session.settings.dialect.plain_result_files {
            add_checksums(&mut self.in_file, samples)?;
        }
        session.files.as_ref().map(|files| self.save_as(&files.layout, &files.stamp)).transpose()
    }

    /// Writes the results file.
    pub(crate) fn save_as(&self, layout: &Layout, stamp: &str) -> Result<PathBuf, ReportError> {
        write_results(layout, stamp, &self.in_file)
    }

    /// Saves and prints the results. Returns the results file, and whether printing succeeded.
    ///
    /// Files come first: they must be written even if the reader of standard output goes away.
    pub(crate) fn publish(
        &mut self,
        session: &Session,
        samples: Dict,
        printer: &mut Printer,
    ) -> Result<(Option<PathBuf>, Result<()>)> {
        // Scores are written even if rows of a recipe cannot be computed from them.
        let rows = self.add_rows(printer);
        let saved = self.save(session, samples);
        let printed = self.print(&session.settings, printer);
        let path = saved?;
        report_saved(path.as_deref().filter(|_| !session.settings.output.is_temporary), printer);
        rows?;
        Ok((path, printed))
    }

    /// Prints the results.
    pub(crate) fn print(&self, settings: &RunSettings, printer: &mut Printer) -> Result<()> {
        if !settings.output.prints_scores {
            return Ok(());
        }
        if settings.output.show_config && !matches!(settings.output.format, Format::Json | Format::Csv) {
            printer.exact(&to_json(&self.in_memory)?)?;
            printer.result("\n")?;
        }
        self.print_scores(settings, printer)?;
        Ok(printer.flush()?)
    }

    /// Prints the tables, or the results file as JSON.
    pub(crate) fn print_scores(&self, settings: &RunSettings, printer: &mut Printer) -> Result<()> {
        let in_memory = &self.in_memory;
        if settings.output.format == Format::Json {
            printer.exact(&to_json(&self.in_file)?)?;
            return Ok(printer.result("\n")?);
        }
        if settings.output.format == Format::Csv {
            return Ok(printer.exact(&csv_of(&self.in_file))?);
        }
        let summary = Summary {
            model: settings.model.name.clone(),
            model_args: Value::from(settings.model.args.clone()),
            gen_kwargs: Value::from(settings.prompts.gen_kwargs.clone()),
            limit: settings.documents.limit.clone(),
            num_fewshot: settings.prompts.num_fewshot.map_or(Value::None, Value::Int),
            batch_size: settings.model.batch_size.clone(),
            batch_sizes: batch_sizes(in_memory),
        };
        printer.result(&format!("{}\n", summary.line()))?;
        let groups = in_memory.contains_str("groups").then_some(Column::Groups);
        for column in [Column::Results].into_iter().chain(groups) {
            match settings.output.format {
                Format::Latex => printer.result(&make_latex_table(in_memory, column, false))?,
                Format::Markdown => printer.result(&make_table(in_memory, column, false))?,
                _ => printer.table(&make_table(in_memory, column, false))?,
            }
            printer.result(&bound_notes(in_memory, column))?;
            printer.result("\n")?;
        }
        Ok(())
    }
}

/// Says where the results are.
pub(crate) fn report_saved(path: Option<&Path>, printer: &Printer) {
    if let Some(path) = path {
        printer.notes().wrote("results", None, path);
        printer.notes().info(&format!("Results saved to {}", path.display()));
    }
}

/// Prints the warnings about an evaluation.
pub(crate) fn print_warnings(evaluation: &Evaluated, printer: &mut Printer) {
    for warning in &evaluation.results.warnings {
        printer.warn(warning);
    }
}

/// Scores as comma-separated values.
fn csv_of(results: &Dict) -> String {
    let run = Run {
        name: String::new(),
        path: PathBuf::new(),
        results: Some(results.clone()),
        samples: Vec::new(),
    };
    // A run without scores has only the header.
    let rows = score_table(&[run], &Selection::default()).map(|table| table.rows).unwrap_or_default();
    let header =
        ["task", "version", "filter", "n-shot", "metric", "higher_is_better", "value", "stderr", "n"];
    let mut text = csv::line(header);
    for row in rows {
        let Some(Some(score)) = row.cells.into_iter().next() else { continue };
        text += &csv::line([
            row.task,
            cell(score.version.as_ref()),
            row.filter,
            cell(score.shots.as_ref()),
            row.metric,
            cell(row.higher_is_better.map(Value::Bool).as_ref()),
            cell(Some(&score.value)),
            cell(score.stderr.map(Value::Float).as_ref()),
            cell(score.documents.map(Value::Int).as_ref()),
        ]);
    }
    text
}

/// The batch sizes the model determined itself.
fn batch_sizes(results: &Dict) -> Vec<i64> {
    let sizes =
        results.get_str("config").and_then(Value::as_dict).and_then(|config| config.get_str("batch_sizes"));
    sizes.and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_i64).collect()
}

/// Repeats the warnings of the model below the results: those of the start are far above.
pub(crate) fn repeat_warnings(model: &dyn Model, printer: &Printer) {
    for warning in model.stats().map(ModelStats::take_warnings).unwrap_or_default() {
        printer.notes().warn(&warning);
    }
}

/// Reports unusual answers, which a score alone hides.
pub(crate) fn report_unusual_answers(evaluation: &Evaluated, printer: &Printer) {
    let mut lines = Vec::new();
    for task in &evaluation.results.tasks {
        for (pipeline, audit) in &task.audit {
            let unusual: Vec<String> = [
                (audit.empty, "empty answer", "empty answers"),
                (audit.whitespace_only, "whitespace-only answer", "whitespace-only answers"),
                (audit.truncated, "truncated answer", "truncated answers"),
                (audit.refused, "refused answer", "refused answers"),
                (
                    audit.extraction_failed,
                    "answer did not match the filter",
                    "answers did not match the filter",
                ),
                (
                    audit.unresolved_targets,
                    "document whose target is not among its options",
                    "documents whose target is not among their options",
                ),
                (audit.unparsed, "judgement without a verdict", "judgements without a verdict"),
                (
                    audit.errored,
                    "document skipped for lack of an answer",
                    "documents skipped for lack of an answer",
                ),
            ]
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, several)| format!("{count} {}", for_count(count, one, several)))
            .chain(missing_letters(&audit.letters))
            .collect();
            if !unusual.is_empty() {
                lines.push(format!("  {}, {pipeline}: {}", task.entry.name, unusual.join(", ")));
            }
        }
    }
    print_list("Unusual answers", &lines, SHOWN_AUDITS, printer);
}

/// Documents with letters that the server did not list, and what that means for the accuracy.
fn missing_letters(letters: &LetterAudit) -> Option<String> {
    let (low, high) = letters.bounds().filter(|_| letters.missing > 0)?;
    let documents = counted(letters.missing, "document");
    let absent = match letters.absent {
        0 => String::new(),
        absent => format!(", {absent} of them without any letter and scored as wrong"),
    };
    Some(format!(
        "{documents} with a letter missing from the server's list{absent}; acc is between {low:.4} and {high:.4}"
    ))
}

fn print_list(title: &str, lines: &[String], most: usize, printer: &Printer) {
    if lines.is_empty() {
        return;
    }
    let mut text = format!("{title}:\n{}", lines[..lines.len().min(most)].join("\n"));
    if lines.len() > most {
        let _ = write!(text, "\n  and {} more", lines.len() - most);
    }
    printer.notes().info(&text);
}

/// Lists requests that failed permanently.
pub(crate) fn report_failures(failures: &[Failure], has_journal: bool, printer: &mut Printer) {
    let mut text = match failures.len() {
        1 => "1 request failed permanently; its document is excluded from the scores".to_owned(),
        several => {
            format!("{several} requests failed permanently; their documents are excluded from the scores")
        }
    };
    for failure in failures.iter().take(SHOWN_FAILURES) {
        let _ = write!(text, "\n  {}: {}", failure.request.describe(), failure.error.message_for_request());
    }
    if failures.len() > SHOWN_FAILURES {
        let _ = write!(text, "\n  and {} more", failures.len() - SHOWN_FAILURES);
    }
    let mut hints: Vec<String> = Vec::new();
    for hint in failures.iter().flat_map(|failure| failure.error.hints()) {
        if !hints.contains(&hint) && hints.len() < 3 {
            hints.push(hint);
        }
    }
    let again = if has_journal {
        "Run the same command again to send only the failed requests"
    } else {
        "With `--output_path` or `--use_cache`, running the same command again sends only the failed requests"
    };
    hints.push(again.to_owned());
    printer.error(&(text + &hint_lines(&hints)));
}
