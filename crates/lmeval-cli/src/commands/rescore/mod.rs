//! `lm-eval rescore`: scores stored answers again, without a model.

mod arguments;
mod changes;
mod judging;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_core::{Diagnostic, InProcess, Model};
use lmeval_engine::{Evaluated, Events, NoEvents, evaluate};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_scoring::results::SampleRecord;

pub(crate) use self::arguments::RescoreArgs;
pub(crate) use self::changes::{ChangesSoFar, Comparison};
pub(crate) use self::judging::create as create_judges;
use crate::commands::Status;
use crate::printer::Printer;
use crate::run::judges;
use crate::run::output::{self, Objects};
use crate::settings::Format;
use crate::stored::{self, Missing, Prefer, Scored, SharedModel, Source, StoredRun};
use crate::words::counted;

/// Scores the answers of a stored run again.
pub(crate) fn run(arguments: &RescoreArgs, printer: &mut Printer) -> Result<Status> {
    let mut stored = StoredRun::open(&arguments.stored, &arguments.options(), Prefer::Samples, printer)?;
    judging::create(&stored.run, &mut stored.session, printer)?;
    let comparison = Arc::new(Comparison::new(&stored.run, &stored.model, arguments.flips));
    stored.session.observer = Some(Arc::clone(&comparison) as Arc<dyn Events>);
    let model: Arc<dyn Model> = Arc::new(InProcess::new(SharedModel(Arc::clone(&stored.model))));
    let rescoring = Rescoring { arguments, stored: &stored, model: &model };
    let (evaluation, written, missing) = rescoring.evaluate(&comparison, printer)?;
    let found = comparison.take();
    rescoring.report(&evaluation, &written, &missing, &found, printer)?;
    if stored.session.settings.output.format != Format::Json {
        let records = rescoring.records(&evaluation, &found);
        changes::print_flips(&stored.run, &found, &records, printer)?;
    }
    Ok(Status::Success)
}

/// Hashes of the tasks whose samples were written, and checksums of their files.
struct Written {
    hashes: Dict,
    checksums: Dict,
}

/// Everything that a rescoring run consists of.
struct Rescoring<'a> {
    arguments: &'a RescoreArgs,
    stored: &'a StoredRun,
    model: &'a Arc<dyn Model>,
}

impl Rescoring<'_> {
    /// Evaluates on the stored answers; returns the outcome, the samples that were written, and the documents left out.
    fn evaluate(
        &self,
        comparison: &Comparison,
        printer: &mut Printer,
    ) -> Result<(Evaluated, Written, Missing)> {
        let session = &self.stored.session;
        let mut options = session.options();
        options.digests = self.stored_digests().is_some();
        let again = || drop(comparison.take());
        let Scored { mut evaluation, events, sent, missing } =
            self.stored.evaluate(self.model, &options, &again, printer)?;
        self.check_conversations(&evaluation, printer).inspect_err(|_| events.discard_records())?;
        session.judging.add_costs(&mut evaluation);
        let asked = usize::try_from(sent).unwrap_or(0).saturating_sub(evaluation.usage.answers);
        judging::report_asked(&self.stored.run, &session.judging, asked, printer);
        let hashes = events.task_hashes(&evaluation);
        let written = Written { hashes, checksums: events.checksums(&evaluation) };
        Ok((evaluation, written, missing))
    }

    /// The digests of the data of the stored run, if the same documents are selected again.
    fn stored_digests(&self) -> Option<&Dict> {
        self.stored
            .run
            .section(output::DATA_DIGESTS)
            .filter(|_| self.stored.session.settings.documents.samples.is_none())
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
            || self.arguments.stored.partial
            || self.stored.session.settings.documents.samples.is_some()
        {
            return Ok(());
        }
        let Some(stored) = self.stored.run.section(output::CHAT_DIGESTS) else {
            if let Source::Samples(samples) = &self.stored.model.source
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
            "Filters, metrics and scorers may change, but prompts and generation settings must match the run"
        ))
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
        let settings = &self.stored.session.settings;
        output::print_warnings(evaluation, printer);
        self.report_other_data(evaluation, printer);
        judges::report(evaluation, printer);
        let mut facts = output::facts(&self.stored.session, self.model.facts(), evaluation);
        facts.model_facts.tokenizer = stored::tokenizer(&self.stored.run);
        let mut objects = Objects::new(settings, &facts, evaluation, &written.hashes);
        let rescored = self.origin(missing, found);
        objects.edit(|object| stored::keep_model(object, &self.stored.run, &rescored));
        objects.add_rows(printer)?;
        let saved = objects.save(&self.stored.session, written.checksums.clone());
        objects.print_scores(settings, printer)?;
        if settings.output.format != Format::Json {
            changes::print_scores(&self.stored.run, found, &evaluation.results, printer)?;
        }
        printer.flush()?;
        for problem in &found.problems {
            printer.warn(&format!("The stored samples cannot be compared: {problem}"));
        }
        if missing.documents() > 0 {
            printer.warn(&format!("{} left out for lack of a stored answer; scores on a subset are not comparable with full runs{}",
                counted(missing.documents(), "document"),
                missing.describe(&self.stored.model.source)
            ));
        }
        output::report_unusual_answers(evaluation, printer);
        output::report_saved(saved?.as_deref(), printer);
        Ok(())
    }

    /// Where the answers came from, for the results.
    fn origin(&self, missing: &Missing, found: &ChangesSoFar) -> Dict {
        let stored =
            |key: &str| self.stored.run.results.as_ref().and_then(|results| results.get_str(key).cloned());
        let mut rescored = Dict::new();
        rescored.insert("from", self.arguments.stored.run.display().to_string());
        rescored.insert("answers", self.stored.model.source.kind());
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
    fn records(&self, evaluation: &Evaluated, found: &ChangesSoFar) -> HashMap<String, Vec<SampleRecord>> {
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
        let mut options = self.stored.session.options();
        (options.limit, options.samples, options.max_failures) = (None, Some(chosen), None);
        (options.log_samples, options.keep_samples, options.bootstrap_iters) = (true, true, 0);
        let events: Arc<dyn Events> = Arc::new(NoEvents);
        // The scores are printed already; a failure here costs only what a filter returned for a few documents.
        let Ok(evaluated) = evaluate(self.model, self.stored.tasks.without_warnings(), &options, &events)
        else {
            return HashMap::new();
        };
        evaluated.results.samples.into_iter().collect()
    }
}
