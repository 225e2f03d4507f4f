//! `lm-eval run`: evaluates a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_core::{Diagnostic, Model, OutputType};
use lmeval_engine::{Cancel, Evaluated};
use lmeval_host::Trackers;
use lmeval_journal::Fingerprint;
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_tasks::TaskDict;
use lmeval_tasks::config::{FilterPipeline, FilterStep, Named};

use crate::commands::{Status, budget};
use crate::printer::Printer;
use crate::progress::{ProgressDisplay, RequestCounts, Spinner};
use crate::run::events::RunEvents;
use crate::run::lock::{self, LockRecorder};
use crate::run::output::{self, Objects};
use crate::run::session::{Clock, Ended, Program, Session};
use crate::run::{advice, judges, recipe, thresholds, tracking, verdicts};
use crate::settings::{Options, ProgressMode, RunSettings, record_line};
use crate::words::{counted, for_count};
use crate::{log, roots};

/// Evaluates, for the Python `program` that has issued the command line if there is one.
pub(super) fn run(
    arguments: &Options,
    printer: &mut Printer,
    program: Option<&Program<'_>>,
) -> Result<Status> {
    if arguments.progress == Some(ProgressMode::Json) {
        printer.notes().use_json();
    }
    let mut settings = RunSettings::from_flags(arguments)?;
    settings.python.python = settings.python.python.or_else(|| program?.python.clone());
    print_given(&settings, printer)?;
    run_with(settings, printer, program)
}

/// Evaluates with resolved settings, which are not printed.
pub(super) fn run_with(
    settings: RunSettings,
    printer: &mut Printer,
    program: Option<&Program<'_>>,
) -> Result<Status> {
    Ok(evaluate(settings, printer, program)?.status)
}

/// A run that has ended, with its model, which can be asked for more.
pub(super) struct Finished {
    /// The exit status.
    pub(super) status: Status,
    /// The results file, if one was written.
    pub(super) path: Option<PathBuf>,
    pub(super) model: Arc<dyn Model>,
    /// Whether the user has pressed Ctrl-C.
    pub(super) cancel: Cancel,
}

/// The same, and returns the model as well.
pub(super) fn evaluate(
    settings: RunSettings,
    printer: &mut Printer,
    program: Option<&Program<'_>>,
) -> Result<Finished> {
    let clock = Clock::start();
    start_log(&settings, printer)?;
    if settings.scoring.check_integrity {
        let diagnostic = Diagnostic::new("`--check_integrity`: tasks have no self-tests");
        bail!(diagnostic.hint("`lm-eval validate --tasks …` checks definitions"));
    }
    let roots = roots::resolve(&settings.library, printer)?;
    let manager = roots::manager(&roots, &settings.library)?;
    if let Some(recipe) = &settings.recipe {
        recipe::check_pins(recipe, &settings.documents.tasks, &manager, printer)?;
    }
    let manager = manager.with_metadata(settings.metadata.clone());
    let tasks = roots::load(&manager, &settings.documents.tasks, printer)?;
    thresholds::check(
        thresholds::FAIL_UNDER,
        &settings.scoring.fail_under,
        &tasks,
        &settings.dialect,
        settings.scoring.predict_only,
    )?;
    verdicts::check(&settings, &tasks, printer)?;
    warn_of_unscored_repeats(&settings, &tasks, printer);
    for line in advice::of_run(&settings, &tasks) {
        printer.notes().info(&format!("Suggestion: {line}"));
    }
    let model_args = Value::from(settings.model.args.clone());
    let notes = printer.notes();
    let mut session = Session::prepare(settings, clock, &roots, program, &model_args, notes.clone())?;
    let settings = &session.settings;
    // Before the model: a package or a login that is missing must not cost the time of a run.
    let wanted = Some(&settings.output.trackers).filter(|trackers| !trackers.is_empty());
    let trackers =
        wanted.map(|trackers| Trackers::start(&session.python, &trackers.to_dict())).transpose()?;
    let model = {
        let show = ProgressDisplay::new(settings.output.progress, settings.output.quiet);
        let _spinner = Spinner::start(show, loading(settings), notes.clone());
        session.create_model()?
    };
    session.create_judges()?;
    session.open_files()?;
    session.open_journal(&*model);
    if session.files.is_some() && session.settings.documents.shard.is_none() {
        session.lock = Some(LockRecorder::new(&session.settings));
        session.answers = Some(Arc::default());
    }
    match &session.journal {
        Some(journal) => notes.wrote("journal", None, &journal.path),
        None => warn_unused_cache_flags(&session.settings, printer),
    }
    let options = session.options();
    if let Some(locked) = &session.settings.locked {
        lock::check(&session, (&locked.path, &locked.lock), &model, &tasks, &options, printer)?;
    }
    let ended = session.evaluate(&model, tasks, &options, printer)?;
    let (status, path) = finish(&session, ended, &*model, trackers, printer)?;
    Ok(Finished { status, path, model, cancel: session.cancel().clone() })
}

/// What to do after a demonstration.
const NEXT: &str = "\nNext, with a model and a task of yours:\n  \
    your model   lm-eval run --model hf --model_args pretrained=FOLDER_OR_NAME --tasks demo_tour\n  \
    your task    lm-eval show demo_spelling --yaml > mine.yaml, then lm-eval validate --tasks mine.yaml\n  \
    look at it   lm-eval run --output_path out --log_samples, then lm-eval view out";

/// Saves, prints and reports everything; returns the exit status and the path of the results.
fn finish(
    session: &Session,
    ended: Ended,
    model: &dyn Model,
    trackers: Option<Trackers>,
    printer: &mut Printer,
) -> Result<(Status, Option<PathBuf>)> {
    let (settings, events) = (&session.settings, &ended.events);
    let mut evaluation = ended.outcome?;
    session.judging.add_costs(&mut evaluation);
    let digests = evaluation.digests.clone();
    if session.lock.is_some() && session.journal.is_none() {
        // Results have them to recognise answers that no longer belong to the data.
        evaluation.digests = Dict::new();
    }
    let mut facts = output::facts(session, model.facts(), &evaluation);
    facts.model_usage = session.judging.model_usage(settings, evaluation.usage);
    output::print_warnings(&evaluation, printer);
    let mut objects = Objects::new(settings, &facts, &evaluation, &events.task_hashes(&evaluation));
    if let Some(shard) = settings.documents.shard {
        objects.insert("shard", &Value::from(shard.to_string()));
    }
    let recorder = session.lock.as_ref();
    let lock = recorder.map(|recorder| lock::of_run(session, recorder, model, (&evaluation, &digests)));
    let lock = lock.transpose()?;
    if let (Some(lock), Some(answers)) = (&lock, &session.answers)
        && evaluation.failures.is_empty()
        && !settings.dialect.plain_result_files
    {
        objects.add_receipt(lock, answers);
    }
    let (path, printed) = objects.publish(session, events.checksums(&evaluation), printer)?;
    let samples = events.sample_files(&evaluation);
    if let Some(lock) = &lock
        && let Some(path) = lock::write(session, lock)?
    {
        printer.notes().wrote("lock", None, &path);
    }
    if let (Some(shard), Some(writer), Some(path)) = (settings.documents.shard, &events.shard, &path) {
        if let Some(identity) = model.portable_identity() {
            writer.set_model(Fingerprint::of(&identity).to_string(), identity.to_string());
        }
        writer.finish(shard, settings, (path, &samples), &evaluation)?;
        printer.notes().info(&format!(
            "These are the scores of shard {shard}. When all shards are done, `lm-eval merge` computes the scores of the run"
        ));
    }
    output::repeat_warnings(model, printer);
    session.judging.repeat_warnings(printer);
    output::report_unusual_answers(&evaluation, printer);
    judges::report_model(&facts.model_usage, printer);
    judges::report(&evaluation, printer);
    if let Some(live) = &events.live {
        live.finish(path.as_deref());
    }
    if let Some(journal) = &session.journal {
        report_cache_hits(&evaluation, events, &ended.counts, &journal.path, printer);
    }
    if !evaluation.failures.is_empty() {
        output::report_failures(&evaluation.failures, session.journal.is_some(), printer);
    }
    let is_tracked = trackers.is_none_or(|trackers| {
        tracking::report(trackers, &objects, path.as_deref(), session, &samples, printer)
    });
    if let Some(path) = path.as_deref().filter(|_| !settings.scoring.budgets.is_empty()) {
        budget::of_run(path, settings, printer)?;
    }
    if settings.documents.is_demonstration {
        printer.notes().info(NEXT);
    }
    // A threshold is for the scores of all documents, so `merge` checks it.
    let thresholds = if settings.documents.shard.is_some() { &[][..] } else { &settings.scoring.fail_under };
    let has_passed = thresholds::report(thresholds, &evaluation.results, printer)?;
    if !evaluation.failures.is_empty() || !is_tracked {
        return Ok((Status::Failure, path));
    }
    let verdict = verdicts::report(settings, path.as_deref(), objects.file(), printer)?;
    if !has_passed {
        return Ok((Status::GateFailed, path));
    }
    printed.map(|()| (verdict, path))
}

/// The message shown while the model loads.
fn loading(settings: &RunSettings) -> String {
    let name = ["pretrained", "model"].into_iter().find_map(|key| settings.model.args.get_str(key));
    format!("Loading the model `{}`", name.map_or_else(|| settings.model.name.clone(), repr::str))
}

/// Prints the settings of a file, as other layers override them, and notes about all layers.
pub(super) fn print_given(settings: &RunSettings, printer: &mut Printer) -> Result<()> {
    set_notes(settings, printer);
    if settings.from_file {
        printer.result(&format!("{}\n", record_line(&settings.record)))?;
    }
    for note in &settings.notes {
        printer.notes().info(note);
    }
    Ok(())
}

fn set_notes(settings: &RunSettings, printer: &Printer) {
    if settings.output.progress == ProgressMode::Json {
        printer.notes().use_json();
    }
    if settings.output.quiet {
        printer.notes().be_quiet();
    }
}

/// Starts the log, and warns about chat models without a template.
fn start_log(settings: &RunSettings, printer: &Printer) -> Result<()> {
    set_notes(settings, printer);
    let notes = printer.notes();
    log::start(settings.output.log, &notes)?;
    if !settings.prompts.apply_chat_template.is_on() && looks_like_chat(settings) {
        notes.info(
            "The model arguments look like those of a chat model, but `--apply_chat_template` is not given: \
             prompts are sent as plain text",
        );
    }
    Ok(())
}

/// Reference: any argument that contains one of these words.
fn looks_like_chat(settings: &RunSettings) -> bool {
    settings.model.args.values().any(|value| {
        let text = repr::str(value).to_lowercase();
        text.contains("inst") || text.contains("chat")
    })
}

/// Warns about cache flags that have no effect.
fn warn_unused_cache_flags(settings: &RunSettings, printer: &Printer) {
    if settings.answers.use_cache.is_some() {
        printer.notes().info(&format!(
            "`--use_cache` has no effect: `{}` answers as fast as a file can be read",
            settings.model.name
        ));
    } else if settings.answers.fresh {
        printer.notes().info("`--fresh` has no effect: no answers are saved");
    }
}

/// Reports how many answers came from the journal.
fn report_cache_hits(
    evaluation: &Evaluated,
    events: &RunEvents,
    counts: &RequestCounts,
    path: &Path,
    printer: &Printer,
) {
    let sent = counts.snapshot().sent;
    if events.saved_before() == 0 || evaluation.answered == 0 {
        return;
    }
    let path = path.display();
    let before = evaluation.answered.saturating_sub(sent as usize);
    let text = if sent == 0 && evaluation.failures.is_empty() {
        let all = match evaluation.answered {
            1 => "The only answer was".to_owned(),
            several => format!("All {several} answers were"),
        };
        format!("{all} reused from {path}; nothing was sent to the model. `--fresh` starts over")
    } else {
        format!(
            "{} came from the model, {before} {} reused",
            counted(sent as usize, "answer"),
            for_count(before, "was", "were")
        )
    };
    printer.notes().info(&text);
}

/// Names tasks whose filters leave one of the answers that `--repeats` asks for.
fn warn_of_unscored_repeats(settings: &RunSettings, tasks: &TaskDict, printer: &Printer) {
    let documents = &settings.documents;
    let Some(repeats) = documents.repeats.filter(|repeats| *repeats > 1 && documents.reductions.is_empty())
    else {
        return;
    };
    let takes_first =
        |step: &FilterStep| matches!(&step.function, Named::Name(name) if &**name == "take_first");
    let by_default = settings.dialect.scoring.default_filter_takes_first;
    let leaves_one = |pipeline: &FilterPipeline| match pipeline.filter.as_slice() {
        [] => by_default,
        steps => steps.iter().any(takes_first),
    };
    let names: Vec<&str> = tasks
        .tasks
        .values()
        .filter(|task| task.config.output_type == OutputType::GenerateUntil)
        .filter(|task| task.config.reductions.is_empty() && task.options.reductions.is_empty())
        .filter(|task| task.config.filter_list.iter().all(leaves_one))
        .map(lmeval_tasks::Task::name)
        .collect();
    if !names.is_empty() {
        printer.notes().warn(&format!(
            "only the first of {repeats} answers is scored, because of the filter `take_first`: {}. \
             `--reductions avg@{repeats},pass@1,maj@{repeats}` scores all",
            names.join(", ")
        ));
    }
}
