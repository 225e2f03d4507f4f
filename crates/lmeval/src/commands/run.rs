//! `lm-eval run`: evaluates a model.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Result, bail};
use lmeval::environment;
use lmeval::settings::{Options, ProgressMode, RunSettings, record_line};
use lmeval_core::{Diagnostic, Model};
use lmeval_data::Settings;
use lmeval_engine::{
    Cancel, EngineError, EvaluateOptions, Evaluated, Events, JournalOptions, JudgeModel, evaluate,
};
use lmeval_host::{Caller, PythonHost, PythonOptions, Trackers};
use lmeval_journal::Fingerprint;
use lmeval_pycompat::{Value, repr};
use lmeval_report::{Layout, ModelName, Moment, SampleOptions, sanitize_model_name};
use lmeval_tasks::{Overrides, TaskDict};

use crate::commands::{Status, view};
use crate::printer::{Notes, Printer};
use crate::progress::{Downloads, ProgressDisplay, RequestCounts, Spinner, Ticker};
use crate::run::events::{Records, RunEvents};
use crate::run::judges::{self, Prices};
use crate::run::live::LiveView;
use crate::run::output::{self, Objects, Start};
use crate::run::shard::ShardWriter;
use crate::run::{interrupt, model, thresholds, tracking};
use crate::words::{counted, for_count};
use crate::{log, python, report, roots};

/// The Python program that issued this command line; its registered models and functions run in its process.
pub(super) struct Program<'a> {
    pub(super) caller: &'a Arc<Caller>,
    /// Its interpreter, for Python functions of task files.
    pub(super) python: Option<PathBuf>,
    /// Cancels the run if that process ends.
    pub(super) cancel: &'a OnceLock<Cancel>,
}

pub(super) fn run(
    arguments: &Options,
    printer: &mut Printer,
    program: Option<&Program<'_>>,
) -> Result<Status> {
    if arguments.progress == Some(ProgressMode::Json) {
        printer.notes().use_json();
    }
    let (moment, began) = (Moment::now(), Instant::now());
    let mut settings = RunSettings::from_flags(arguments)?;
    settings.python = settings.python.or_else(|| program?.python.clone());
    print_settings(&settings, printer)?;
    if settings.check_integrity {
        let diagnostic = Diagnostic::new("`--check_integrity`: tasks have no self-tests");
        bail!(diagnostic.hint("`lm-eval validate --tasks …` checks definitions"));
    }
    let hash_media = environment::hash_media()?;
    let roots = roots::resolve(&settings.library, printer)?;
    let tasks = load(&settings, &roots, printer)?;
    thresholds::check(&settings.fail_under, &tasks, &settings.dialect, settings.predict_only)?;
    let notes = printer.notes();
    let mut options = python::options(settings.python.as_deref(), &settings.plugins, &roots, &notes)?;
    options.caller = program.map(|program| Arc::clone(program.caller));
    // Before the model: a package or a login that is missing must not cost the time of a run.
    let wanted = Some(&settings.trackers).filter(|trackers| !trackers.is_empty());
    let trackers = wanted.map(|trackers| Trackers::start(&options, &trackers.to_dict())).transpose()?;
    let model_args = Value::from(settings.model_args.clone());
    let model_name = ModelName::of(&settings.model, &model_args, settings.seeds[0]);
    let model = {
        let show = ProgressDisplay::new(settings.progress, settings.quiet);
        let _spinner = Spinner::start(show, loading(&settings), notes.clone());
        model::create(&settings, &options, &notes, has_answers(&settings, &model_name))?
    };
    let judges = judges::create(&settings, &options, &notes, has_answers(&settings, &model_name))?;
    let baseline = judges::baseline(&settings)?;
    let prices = settings.prices.as_deref().map(Prices::read).transpose()?;
    let files = files(&settings, &model_name, moment)?;
    let layout = files.as_ref().map(|(layout, _)| layout);
    let journal = journal(&settings, &model_name, layout, &*model, &judges);
    match &journal {
        Some(journal) => notes.wrote("journal", None, &journal.path),
        None => warn_unused_cache_flags(&settings, printer),
    }
    let start = Start { moment, began, model_name, files, hash_media, observer: None };
    let graders = judges.clone();
    let adjust = |run: &mut EvaluateOptions| {
        (run.judges, run.baseline) = (judges, baseline);
        if let Some(program) = program {
            let run_unsafe_code = settings.confirm_run_unsafe_code;
            run.data.python = Some(PythonHost::new(PythonOptions { run_unsafe_code, ..options }));
            // Set only here.
            let _ = program.cancel.set(run.cancel.clone());
        }
    };
    let (evaluation, events, counts) =
        evaluate_tasks(&settings, &start, &model, (tasks, &roots), journal.as_ref(), printer, adjust)?;
    let mut evaluation = evaluation?;
    judges::add_costs(&mut evaluation, prices.as_ref());
    let mut facts = output::facts(&settings, &start, model.facts(), &evaluation);
    facts.model_usage = judges::model_usage(&settings, evaluation.usage, prices.as_ref());
    for warning in &evaluation.results.warnings {
        printer.note(&format!("warning: {warning}"));
    }
    let task_hashes = events.task_hashes(&evaluation);
    let mut objects = Objects::new(&settings, &facts, &evaluation, &task_hashes);
    if let Some(shard) = settings.shard {
        objects.insert("shard", &Value::from(shard.to_string()));
    }
    objects.add_checksums(&settings, events.checksums(&evaluation))?;
    // Files first: they must be written even if the reader of standard output goes away.
    let saved = start.files.as_ref().map(|(layout, stamp)| objects.save(layout, stamp));
    let printed = objects.print(&settings, printer);
    let path = saved.transpose()?;
    if let Some(path) = &path {
        notes.wrote("results", None, path);
        notes.info(&format!("Results saved to {}", path.display()));
    }
    if let (Some(shard), Some(writer), Some(path)) = (settings.shard, events.shard(), &path) {
        if let Some(identity) = model.portable_identity() {
            writer.set_model(Fingerprint::of(&identity).to_string(), identity.to_string());
        }
        let samples = events.sample_files(&evaluation);
        writer.finish(shard, &settings, (path, &samples), &evaluation)?;
        notes.info(&format!(
            "These are the scores of shard {shard}. When all shards are done, `lm-eval merge` computes those of the run"
        ));
    }
    output::repeat_warnings(&*model, printer);
    judges::repeat_warnings(&graders, printer);
    output::report_unusual_answers(&evaluation, printer);
    judges::report_model(&facts.model_usage, printer);
    judges::report(&evaluation, printer);
    if let Some(live) = events.live() {
        live.finish(path.as_deref());
    }
    if let Some(journal) = &journal {
        report_cache_hits(&evaluation, &events, &counts, &journal.path, printer);
    }
    if !evaluation.failures.is_empty() {
        output::report_failures(&evaluation.failures, journal.is_some(), printer);
    }
    let tracked = match trackers {
        Some(trackers) => {
            let samples = events.sample_files(&evaluation);
            tracking::report(trackers, &objects, path.as_deref(), &start, &samples, printer)
        }
        None => true,
    };
    // A threshold is for the scores of all documents, so `merge` checks it.
    let thresholds = if settings.shard.is_some() { &[][..] } else { &settings.fail_under };
    let passed = thresholds::report(thresholds, &evaluation.results, printer)?;
    if !evaluation.failures.is_empty() || !tracked {
        return Ok(Status::Failure);
    }
    if !passed {
        return Ok(Status::GateFailed);
    }
    printed.map(|()| Status::Success)
}

/// The message shown while the model loads.
fn loading(settings: &RunSettings) -> String {
    let name = ["pretrained", "model"].into_iter().find_map(|key| settings.model_args.get_str(key));
    format!("Loading the model `{}`", name.map_or_else(|| settings.model.clone(), repr::str))
}

/// Prints the effective settings and notes about them.
fn print_settings(settings: &RunSettings, printer: &mut Printer) -> Result<()> {
    let notes = printer.notes();
    if settings.progress == ProgressMode::Json {
        notes.use_json();
    }
    if settings.quiet {
        notes.be_quiet();
    }
    log::start(settings.log, &notes)?;
    if settings.from_file {
        printer.result(&format!("{}\n", record_line(&settings.record)))?;
    }
    for note in &settings.notes {
        notes.info(note);
    }
    if !settings.apply_chat_template.is_on() && looks_like_chat(settings) {
        notes.info(
            "The model arguments look like those of a chat model, but `--apply_chat_template` is not given: \
             prompts are sent as plain text",
        );
    }
    Ok(())
}

/// Reference: any argument that contains one of these words.
fn looks_like_chat(settings: &RunSettings) -> bool {
    settings.model_args.values().any(|value| {
        let text = repr::str(value).to_lowercase();
        text.contains("inst") || text.contains("chat")
    })
}

fn load(settings: &RunSettings, roots: &[PathBuf], printer: &mut Printer) -> Result<TaskDict> {
    let manager = roots::manager(roots, &settings.library)?.with_metadata(settings.metadata.clone());
    let specs = manager.select(&settings.tasks)?;
    let loaded = manager.load(&specs, Overrides::default())?;
    for warning in &loaded.warnings {
        printer.styled(&report::render(report::Severity::Warning, warning));
    }
    Ok(loaded)
}

/// Where files go. Checks that the folder is writable, so that the run does not fail at its end.
pub(super) fn files(
    settings: &RunSettings,
    model: &ModelName,
    moment: Moment,
) -> Result<Option<(Layout, String)>> {
    let Some(path) = &settings.output_path else { return Ok(None) };
    let layout = Layout::new(path, &model.sanitized);
    layout.prepare()?;
    let stamp = layout.free_stamp(moment, &environment::time_zone());
    Ok(Some((layout, stamp)))
}

/// The file name of the journal in a model's folder.
const ANSWERS: &str = "answers.journal";

/// The journal of the run; none if the model and its judges answer as fast as a file can be read.
pub(super) fn journal(
    settings: &RunSettings,
    name: &ModelName,
    layout: Option<&Layout>,
    model: &dyn Model,
    judges: &[JudgeModel],
) -> Option<JournalOptions> {
    let is_worth_saving =
        || model.is_worth_saving() || judges.iter().any(|judge| judge.model.is_worth_saving());
    journal_options(settings, name, layout).filter(|_| is_worth_saving())
}

/// Whether the journal of a run exists and is going to be used.
pub(super) fn has_answers(settings: &RunSettings, name: &ModelName) -> bool {
    let layout = settings.output_path.as_ref().map(|path| Layout::new(path, &name.sanitized));
    let journal = journal_options(settings, name, layout.as_ref());
    journal.is_some_and(|journal| !journal.fresh && journal.path.exists())
}

fn journal_options(
    settings: &RunSettings,
    name: &ModelName,
    layout: Option<&Layout>,
) -> Option<JournalOptions> {
    let fresh = settings.fresh;
    if let Some(prefix) = settings.use_cache.as_deref().filter(|prefix| !prefix.is_empty()) {
        let path = if prefix.ends_with(".journal") { prefix.to_owned() } else { format!("{prefix}.journal") };
        let import = lmeval_journal::old_caches(Path::new(prefix));
        return Some(JournalOptions { path: PathBuf::from(path), fresh, import });
    }
    let output_path = settings.output_path.as_ref()?;
    let path = if output_path.extension().is_some_and(|extension| extension == "json") {
        output_path.with_extension("journal")
    } else {
        let path = layout?.folder().join(ANSWERS);
        // Earlier versions used hidden folders for names such as `./model`; reuse a journal found there.
        let earlier = output_path.join(sanitize_model_name(&name.name)).join(ANSWERS);
        if !path.exists() && earlier.exists() { earlier } else { path }
    };
    Some(JournalOptions { path, fresh, import: Vec::new() })
}

/// Warns about cache flags that have no effect.
fn warn_unused_cache_flags(settings: &RunSettings, printer: &Printer) {
    if settings.use_cache.is_some() {
        printer.notes().info(&format!(
            "`--use_cache` has no effect: `{}` answers as fast as a file can be read",
            settings.model
        ));
    } else if settings.fresh {
        printer.notes().info("`--fresh` has no effect: no answers are saved");
    }
}

/// Evaluates; `adjust` makes final changes to the options.
pub(super) fn evaluate_tasks(
    settings: &RunSettings,
    start: &Start,
    model: &Arc<dyn Model>,
    (tasks, roots): (TaskDict, &[PathBuf]),
    journal: Option<&JournalOptions>,
    printer: &Printer,
    adjust: impl FnOnce(&mut EvaluateOptions),
) -> Result<Ended> {
    let notes = printer.notes();
    let show = ProgressDisplay::new(settings.progress, settings.quiet);
    let counts = Arc::new(RequestCounts::new());
    let records = start.files.as_ref().filter(|_| settings.log_samples).map(|(layout, stamp)| Records {
        layout: layout.clone(),
        stamp: stamp.clone(),
        options: SampleOptions { hash_media: start.hash_media },
    });
    if let Some((layout, _)) = start.files.as_ref().filter(|_| records.is_some() || settings.shard.is_some())
    {
        layout.check_tasks(tasks.tasks.keys().map(String::as_str))?;
    }
    let write_out = settings.write_out.then_some(settings.dialect);
    let live = settings.view.then(|| live(start, &counts, model, &notes)).transpose()?;
    let events = RunEvents::new(
        Arc::clone(&counts),
        notes.clone(),
        show == ProgressDisplay::Json,
        write_out,
        records,
        start.observer.clone(),
    );
    let shard = match (settings.shard, &start.files) {
        (Some(_), Some((layout, _))) => Some(ShardWriter::new(layout.folder())?),
        _ => None,
    };
    let events = Arc::new(events.with_live(live).with_shard(shard));
    let cancel = Cancel::new();
    interrupt::listen(cancel.clone(), Some(Arc::downgrade(model)), notes.clone(), journal.is_some());
    let mut data = Settings::from_environment();
    data.hub.progress = Arc::new(Downloads::new(notes.clone()));
    let mut options = settings.evaluate_options();
    options.keep_samples = false;
    options.journal = journal.cloned();
    options.cancel = cancel;
    options.data.settings = Some(data);
    options.data.python = Some(PythonHost::new(PythonOptions {
        run_unsafe_code: settings.confirm_run_unsafe_code,
        ..python::options(settings.python.as_deref(), &settings.plugins, roots, &notes)?
    }));
    adjust(&mut options);
    if let Some(stats) = model.stats() {
        let notes = notes.clone();
        let waiting = notes.clone();
        stats.on_wait(move |reason| waiting.info(reason));
        stats.on_warning(move |warning| notes.note(&format!("warning: {warning}")));
    }
    let graders = judges::models(&options.judges);
    let ticker = Ticker::start(show, Arc::clone(&counts), (Arc::clone(model), graders), notes);
    let handler: Arc<dyn Events> = Arc::clone(&events) as Arc<dyn Events>;
    let evaluation = evaluate(model, tasks, &options, &handler);
    drop(ticker);
    if evaluation.is_err() {
        output::repeat_warnings(&**model, printer);
    }
    Ok((evaluation, events, counts))
}

/// The outcome of a run, with everything that its events left.
type Ended = (Result<Evaluated, EngineError>, Arc<RunEvents>, Arc<RequestCounts>);

/// Starts the page that follows the run and prints its address.
fn live(
    start: &Start,
    counts: &Arc<RequestCounts>,
    model: &Arc<dyn Model>,
    notes: &Notes,
) -> Result<LiveView> {
    let folder = start.files.as_ref().map(|(layout, _)| layout.folder());
    let live = LiveView::start(start.model_name.name.clone(), folder, counts, model)?;
    notes.note(&format!("Follow the run at {}", live.url()));
    view::open(&live.url());
    Ok(live)
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
