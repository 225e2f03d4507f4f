//! `lm-eval rescore`: scores stored answers again, without a model.

mod arguments;
mod changes;
mod judging;
mod prompts;
mod source;
mod stored;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_analysis::read::Run;
use lmeval_core::{Diagnostic, InProcess, Model, ModelTemplate};
use lmeval_engine::{ChatTemplateChoice, EngineError, Evaluated, Events, NoEvents, evaluate};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_report::ModelName;
use lmeval_scoring::results::SampleRecord;
use lmeval_tasks::TaskDict;

use crate::settings::{Format, RunSettings};

pub(crate) use self::arguments::RescoreArgs;
use self::changes::{ChangesSoFar, Comparison};
use self::source::{Missing, SharedModel, Source, StoredModel};
use crate::commands::Status;
use crate::printer::Printer;
use crate::roots;
use crate::run::judges;
use crate::run::output::{self, Objects};
use crate::run::session::{Clock, Ended, Session};
use crate::words::counted;

/// Requests without a stored answer after which a run that needs all of them ends.
const MOST_MISSING: usize = 10_000;

/// Scores the answers of a stored run again.
pub(crate) fn run(arguments: &RescoreArgs, printer: &mut Printer) -> Result<Status> {
    let clock = Clock::start();
    let run = Run::open_answers(&arguments.run)?;
    let mut settings = stored::settings(&run, arguments)?;
    if run.results.is_none() {
        printer.notes().info(&format!(
            "`{}` has no results file beside it: few-shot examples, seeds and generation settings are the defaults{}",
            arguments.run.display(),
            if arguments.config.is_some() { " and those of `--config`" } else { "" }
        ));
    }
    let roots = roots::resolve(&settings.library, printer)?;
    let mut manager = roots::manager(&roots, &settings.library)?.with_metadata(settings.metadata.clone());
    if arguments.tasks.is_none() {
        manager = manager.with_unknown_hint(
            "The run names this task; if it is in a file of yours, pass `--tasks FILE` or `--include_path DIR`",
        );
        stored::restore_formats(&run, &mut settings, &manager);
    }
    let mut tasks = roots::load(&manager, &settings.documents.tasks, printer)?;
    stored::restore_counts(&run, &mut tasks, &mut settings);
    let source = Source::open(&run, &arguments.run, arguments.model.as_deref(), settings.dialect)?;
    report_changes(&run, &source, printer);
    select_documents(&run, &source, &tasks, &mut settings);
    let templates = templates(&run, &source, &mut settings);
    settings.answers.max_failures = (!arguments.partial).then_some(MOST_MISSING);
    let model_args = Value::from(settings.model.args.clone());
    let mut session = Session::prepare(settings, clock, &roots, None, &model_args, printer.notes())?;
    if let (Some(name), Some(sanitized)) =
        (stored::text(&run, "model_name"), stored::text(&run, "model_name_sanitized"))
    {
        session.model_name = ModelName { name, sanitized };
    }
    session.open_files()?;
    judging::create(&run, &mut session, printer)?;
    let stored = Arc::new(StoredModel::new(source, stored::abilities(&run, &session.settings)));
    let comparison = Arc::new(Comparison::new(&run, &stored, arguments.flips));
    session.observer = Some(Arc::clone(&comparison) as Arc<dyn Events>);
    let model: Arc<dyn Model> = Arc::new(InProcess::new(SharedModel(Arc::clone(&stored))));
    let rescoring = Rescoring { arguments, run: &run, session: &session, stored: &stored, model: &model };
    let (evaluation, written, missing) = rescoring.evaluate(&tasks, templates, &comparison, printer)?;
    let found = comparison.take();
    rescoring.report(&evaluation, &written, &missing, &found, printer)?;
    if session.settings.output.format != Format::Json {
        let records = rescoring.records(tasks, &evaluation, &found);
        changes::print_flips(&run, &found, &records, printer)?;
    }
    Ok(Status::Success)
}

/// Restricts tasks to the documents that the run has, if it did not have all of them.
fn select_documents(run: &Run, source: &Source, tasks: &TaskDict, settings: &mut RunSettings) {
    let Source::Samples(samples) = source else { return };
    if !settings.documents.limit.is_none() {
        return;
    }
    let is_part = |task: &str| {
        let Some(counts) = run.section("n-samples").and_then(|tasks| tasks.get_str(task)?.as_dict()) else {
            return run.results.is_none();
        };
        let count = |name: &str| counts.get_str(name).and_then(Value::as_i64);
        count("effective") < count("original")
    };
    let mut chosen = Dict::new();
    for task in tasks.tasks.keys().filter(|task| is_part(task)) {
        if let Some(documents) = samples.documents(task) {
            chosen.insert(task.as_str(), Value::list(documents.into_iter().map(Value::Int)));
        }
    }
    settings.documents.samples = Some(chosen).filter(|chosen| !chosen.is_empty());
}

/// The chat templates to try; none for plain prompts.
fn templates(run: &Run, source: &Source, settings: &mut RunSettings) -> Vec<ModelTemplate> {
    if matches!(source, Source::Samples(samples) if samples.is_chat()) {
        settings.prompts.apply_chat_template = ChatTemplateChoice::Default;
        settings.prompts.fewshot_as_multiturn = settings.prompts.fewshot_as_multiturn.or(Some(true));
    }
    if !settings.prompts.apply_chat_template.is_on() {
        return Vec::new();
    }
    source.templates(run, settings.dialect)
}

/// Hashes of the tasks whose samples were written, and checksums of their files.
struct Written {
    hashes: Dict,
    checksums: Dict,
}

/// Warns of files that are not as the run wrote them.
fn report_changes(run: &Run, source: &Source, printer: &Printer) {
    let results = run.results_change().into_iter();
    let samples = run.samples.iter().filter_map(|file| match source {
        Source::Samples(samples) => run.samples_change(file, samples.checksum(&file.path)?),
        Source::Journal(_) => None,
    });
    for change in results.chain(samples) {
        printer.notes().warn(&change);
    }
}

/// Everything that a rescoring run consists of.
struct Rescoring<'a> {
    arguments: &'a RescoreArgs,
    run: &'a Run,
    session: &'a Session,
    stored: &'a Arc<StoredModel>,
    model: &'a Arc<dyn Model>,
}

impl Rescoring<'_> {
    /// Evaluates on the stored answers; returns the outcome, the samples that were written, and the documents left out.
    fn evaluate(
        &self,
        tasks: &TaskDict,
        templates: Vec<ModelTemplate>,
        comparison: &Comparison,
        printer: &mut Printer,
    ) -> Result<(Evaluated, Written, Missing)> {
        let mut templates = templates.into_iter();
        if let Some(template) = templates.next() {
            self.stored.set_template(template);
        }
        let mut options = self.session.options();
        options.digests = self.stored_digests().is_some();
        loop {
            let Ended { outcome: evaluation, events, counts } =
                self.session.evaluate(self.model, tasks.without_warnings(), &options, printer)?;
            let missing = self.stored.take_missing();
            let counts = counts.snapshot();
            if (missing.documents() > 0 || evaluation.is_err())
                && counts.done == counts.failed
                && let Some(other) = templates.next()
            {
                // No prompt is stored in this form.
                self.stored.set_template(other);
                comparison.take();
                events.discard_records();
                continue;
            }
            let evaluation = match evaluation {
                Err(EngineError::NothingAnswered { .. } | EngineError::TooManyFailures { .. })
                    if missing.documents() > 0 =>
                {
                    None
                }
                evaluation => Some(evaluation?),
            };
            return match evaluation {
                Some(mut evaluation) if missing.documents() == 0 || self.arguments.partial => {
                    self.check_conversations(&evaluation, printer)
                        .inspect_err(|_| events.discard_records())?;
                    self.session.judging.add_costs(&mut evaluation);
                    let asked = usize::try_from(counts.sent).unwrap_or(0);
                    let asked = asked.saturating_sub(evaluation.usage.answers);
                    judging::report_asked(self.run, &self.session.judging, asked, printer);
                    let hashes = events.task_hashes(&evaluation);
                    let written = Written { hashes, checksums: events.checksums(&evaluation) };
                    Ok((evaluation, written, missing))
                }
                evaluation => {
                    events.discard_records();
                    bail!(self.unanswered(&missing, evaluation.is_none()))
                }
            };
        }
    }

    /// The digests of the data of the stored run, if the same documents are selected again.
    fn stored_digests(&self) -> Option<&Dict> {
        self.run.section(output::DATA_DIGESTS).filter(|_| self.session.settings.documents.samples.is_none())
    }

    /// Warns of tasks whose documents or examples are not those of the stored run.
    fn report_other_data(&self, evaluation: &Evaluated, printer: &mut Printer) {
        let Some(stored) = self.stored_digests() else { return };
        for (task, digest) in evaluation.digests.iter() {
            if stored.get(task).is_some_and(|stored| stored != digest) {
                let task = repr::str(task);
                printer.warn(&format!(
                    "The data of `{task}` has changed since the run: other documents or few-shot examples. A \
                     different score need not come from filters and metrics"
                ));
            }
        }
    }

    /// Checks that the conversations are those of the stored run: a stored prompt may have more in it than the messages that
    /// are looked for.
    fn check_conversations(&self, evaluation: &Evaluated, printer: &mut Printer) -> Result<()> {
        if evaluation.chat_digests.is_empty()
            || self.arguments.partial
            || self.session.settings.documents.samples.is_some()
        {
            return Ok(());
        }
        let Some(stored) = self.run.section(output::CHAT_DIGESTS) else {
            if let Source::Samples(samples) = &self.stored.source
                && !samples.is_chat()
            {
                printer.warn("The run has no digests of its chat messages, so a prompt from which text was only removed since \
                     would pass for the same",
                );
            }
            return Ok(());
        };
        let differs =
            |(task, digest): &(&Value, &Value)| stored.get(task).is_some_and(|stored| stored != *digest);
        let Some((task, _)) = evaluation.chat_digests.iter().find(differs) else { return Ok(()) };
        let message = format!("The chat messages of `{}` are not those of the stored run", repr::str(task));
        bail!(Diagnostic::new(message).hint(
            "Filters, metrics and scorers may change, but the prompts and generation settings must be those of the run"
        ))
    }

    /// The error for documents without an answer.
    fn unanswered(&self, missing: &Missing, is_partial: bool) -> Diagnostic {
        let documents = missing.documents();
        let least = if is_partial && documents >= MOST_MISSING { "at least " } else { "" };
        let message = format!(
            "No scores: {least}{} no stored answer{}",
            if documents == 1 { "1 document has".to_owned() } else { format!("{documents} documents have") },
            missing.describe(&self.stored.source)
        );
        Diagnostic::new(message)
            .hint("Filters, metrics and scorers may change, but the prompts and generation settings must be those of the run")
            .hint("`--partial` scores the other documents")
    }

    /// Writes the results and prints them, with the scores before and after.
    fn report(
        &self,
        evaluation: &Evaluated,
        written: &Written,
        missing: &Missing,
        found: &ChangesSoFar,
        printer: &mut Printer,
    ) -> Result<()> {
        let settings = &self.session.settings;
        output::print_warnings(evaluation, printer);
        self.report_other_data(evaluation, printer);
        judges::report(evaluation, printer);
        let mut facts = output::facts(self.session, self.model.facts(), evaluation);
        facts.model_facts.tokenizer = stored::tokenizer(self.run);
        let mut objects = Objects::new(settings, &facts, evaluation, &written.hashes);
        let rescored = self.origin(missing, found);
        objects.edit(|object| stored::keep_model(object, self.run, &rescored));
        let saved = objects.save(self.session, written.checksums.clone());
        objects.print_scores(settings, printer)?;
        if settings.output.format != Format::Json {
            changes::print_scores(self.run, found, &evaluation.results, printer)?;
        }
        printer.flush()?;
        for problem in &found.problems {
            printer.warn(&format!("The stored samples cannot be compared: {problem}"));
        }
        if missing.documents() > 0 {
            printer.warn(&format!("{} left out for lack of a stored answer; scores on a subset are not comparable with full runs{}",
                counted(missing.documents(), "document"),
                missing.describe(&self.stored.source)
            ));
        }
        output::report_unusual_answers(evaluation, printer);
        output::report_saved(saved?.as_deref(), printer);
        Ok(())
    }

    /// Where the answers came from, for the results.
    fn origin(&self, missing: &Missing, found: &ChangesSoFar) -> Dict {
        let stored = |key: &str| self.run.results.as_ref().and_then(|results| results.get_str(key).cloned());
        let mut rescored = Dict::new();
        rescored.insert("from", self.arguments.run.display().to_string());
        rescored.insert("answers", self.stored.source.kind());
        rescored.insert("date", stored("date").unwrap_or_default());
        rescored.insert("lm_eval_version", stored("lm_eval_version").unwrap_or_default());
        if missing.documents() > 0 {
            rescored.insert("missing_documents", missing.to_dict());
        }
        if !found.compared.is_empty() {
            rescored.insert("changes", changes::to_value(found));
        }
        rescored
    }

    /// The records of the changed documents that are shown, by task.
    ///
    /// Keeping the records of all documents would need memory for all prompts, so these few are scored once more.
    fn records(
        &self,
        tasks: TaskDict,
        evaluation: &Evaluated,
        found: &ChangesSoFar,
    ) -> HashMap<String, Vec<SampleRecord>> {
        let mut chosen = Dict::new();
        let mut count = 0;
        for (task, _) in &evaluation.tasks {
            let changed = found.changed.iter().filter(|changed| changed.task == *task);
            let mut documents: Vec<i64> =
                changed.flat_map(|changed| changed.first.iter().map(|flip| flip.document)).collect();
            documents.sort_unstable();
            documents.dedup();
            count += documents.len();
            if documents.is_empty() {
                // A task without documents would be evaluated in full.
                documents.push(0);
            }
            chosen.insert(task.as_str(), Value::list(documents.into_iter().map(Value::Int)));
        }
        if count == 0 {
            return HashMap::new();
        }
        let mut options = self.session.options();
        (options.limit, options.samples, options.max_failures) = (None, Some(chosen), None);
        (options.log_samples, options.keep_samples, options.bootstrap_iters) = (true, true, 0);
        let events: Arc<dyn Events> = Arc::new(NoEvents);
        // The scores are printed already; a failure here costs only what a filter returned for a few documents.
        let Ok(evaluated) = evaluate(self.model, tasks, &options, &events) else { return HashMap::new() };
        evaluated.results.samples.into_iter().collect()
    }
}
