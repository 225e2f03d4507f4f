//! The answers of a finished run as a model: what `rescore` and `budget` evaluate.

mod arguments;
mod prompts;
mod settings;
mod source;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use lmeval_analysis::read::Run;
use lmeval_core::{Diagnostic, Model, ModelTemplate};
use lmeval_engine::{ChatTemplateChoice, EngineError, EvaluateOptions, Evaluated};
use lmeval_pycompat::{Dict, Value};
use lmeval_report::ModelName;
use lmeval_tasks::TaskDict;

pub(crate) use self::arguments::StoredArgs;
pub(crate) use self::settings::{keep_model, text, tokenizer};
pub(crate) use self::source::{Missing, Prefer, SharedModel, Source, StoredModel};
use crate::printer::Printer;
use crate::roots;
use crate::run::events::RunEvents;
use crate::run::session::{Clock, Ended, Session};
use crate::settings::{Options, RunSettings};

/// Requests without a stored answer after which a run that needs all of them ends.
const MOST_MISSING: usize = 10_000;

/// A stored run that is ready to be scored again.
pub(crate) struct StoredRun {
    /// The run as it was written.
    pub(crate) run: Run,
    /// Its settings, with those of the command line over them.
    pub(crate) session: Session,
    /// The tasks that score its answers.
    pub(crate) tasks: TaskDict,
    /// Its answers.
    pub(crate) model: Arc<StoredModel>,
    /// The chat templates that are still to be tried.
    templates: Mutex<VecDeque<ModelTemplate>>,
    partial: bool,
}

/// The scores of stored answers.
pub(crate) struct Scored {
    pub(crate) evaluation: Evaluated,
    pub(crate) events: Arc<RunEvents>,
    /// How many requests were sent, those to judges included.
    pub(crate) sent: u64,
    /// The documents left out.
    pub(crate) missing: Missing,
}

impl StoredRun {
    /// Opens the answers that the arguments name. `options` are the arguments of the command as those of `run`.
    pub(crate) fn open(
        arguments: &StoredArgs,
        options: &Options,
        prefer: Prefer,
        printer: &mut Printer,
    ) -> Result<Self> {
        let clock = Clock::start();
        let run = Run::open_answers(&arguments.run)?;
        let mut settings = settings::settings(&run, arguments, options)?;
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
            settings::restore_formats(&run, &mut settings, &manager);
        }
        let mut tasks = roots::load(&manager, &settings.documents.tasks, printer)?;
        let stored = run.section("configs");
        tasks.restore_variants(|name| stored.is_some_and(|configs| configs.contains_str(name)));
        settings::restore_counts(&run, &mut tasks, &mut settings);
        let source =
            Source::open(&run, &arguments.run, arguments.model.as_deref(), settings.dialect, prefer)?;
        report_changes(&run, &source, printer);
        select_documents(&run, &source, &tasks, &mut settings);
        let mut templates = templates(&run, &source, &mut settings);
        settings.answers.max_failures = (!arguments.partial).then_some(MOST_MISSING);
        let model_args = Value::from(settings.model.args.clone());
        let mut session = Session::prepare(settings, clock, &roots, None, &model_args, printer.notes())?;
        if let (Some(name), Some(sanitized)) = (text(&run, "model_name"), text(&run, "model_name_sanitized"))
        {
            session.model_name = ModelName { name, sanitized };
        }
        session.open_files()?;
        session.is_stored = true;
        let model = StoredModel::new(source, settings::abilities(&run, &session.settings));
        if let Some(template) = templates.pop_front() {
            model.set_template(template);
        }
        Ok(Self {
            run,
            session,
            tasks,
            model: Arc::new(model),
            templates: Mutex::new(templates),
            partial: arguments.partial,
        })
    }

    /// Evaluates on `model`, which answers from the stored ones. `again` is called when everything starts over with another
    /// chat template.
    pub(crate) fn evaluate(
        &self,
        model: &Arc<dyn Model>,
        options: &EvaluateOptions,
        again: &dyn Fn(),
        printer: &Printer,
    ) -> Result<Scored> {
        loop {
            let Ended { outcome: evaluation, events, counts } =
                self.session.evaluate(model, self.tasks.without_warnings(), options, printer)?;
            let missing = self.model.take_missing();
            let counts = counts.snapshot();
            if (missing.documents() > 0 || evaluation.is_err())
                && counts.done == counts.failed
                && let Some(other) = self.next_template()
            {
                // No prompt is stored in this form.
                self.model.set_template(other);
                again();
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
                Some(evaluation) if missing.documents() == 0 || self.partial => {
                    Ok(Scored { evaluation, events, sent: counts.sent, missing })
                }
                evaluation => {
                    events.discard_records();
                    bail!(self.unanswered(&missing, evaluation.is_none()))
                }
            };
        }
    }

    fn next_template(&self) -> Option<ModelTemplate> {
        self.templates.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// The error for documents without an answer.
    fn unanswered(&self, missing: &Missing, is_partial: bool) -> Diagnostic {
        let documents = missing.documents();
        let least = if is_partial && documents >= MOST_MISSING { "at least " } else { "" };
        let message = format!(
            "No scores: {least}{} no stored answer{}",
            if documents == 1 { "1 document has".to_owned() } else { format!("{documents} documents have") },
            missing.describe(&self.model.source)
        );
        Diagnostic::new(message)
            .hint("Filters, metrics and scorers may change, but prompts and generation settings must match the run")
            .hint("`--partial` scores the other documents")
    }
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
fn templates(run: &Run, source: &Source, settings: &mut RunSettings) -> VecDeque<ModelTemplate> {
    if matches!(source, Source::Samples(samples) if samples.is_chat()) {
        settings.prompts.apply_chat_template = ChatTemplateChoice::Default;
        settings.prompts.fewshot_as_multiturn = settings.prompts.fewshot_as_multiturn.or(Some(true));
    }
    if !settings.prompts.apply_chat_template.is_on() {
        return VecDeque::new();
    }
    source.templates(run, settings.dialect).into()
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
