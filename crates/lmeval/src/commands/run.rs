//! `lm-eval run`: evaluate a model.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Result, bail};
use lmeval::environment;
use lmeval::settings::{Options, ProgressMode, RunSettings, record_line};
use lmeval_core::{Diagnostic, Model, ModelStats};
use lmeval_data::Settings;
use lmeval_engine::{Cancel, EvaluateOptions, Evaluated, Events, JournalOptions, evaluate};
use lmeval_host::{Caller, PythonHost, PythonOptions};
use lmeval_pycompat::{Value, repr};
use lmeval_report::{Layout, ModelName, Moment, SampleOptions, sanitize_model_name};
use lmeval_tasks::{Overrides, TaskDict};

use crate::commands::Status;
use crate::printer::Printer;
use crate::progress::{Board, Downloads, Show, Ticker, Waiting};
use crate::run::events::{Records, RunEvents};
use crate::run::output::{self, Start};
use crate::run::{interrupt, model};
use crate::words::{counted, for_count};
use crate::{python, report, roots};

/// The Python program whose command line this is: models and functions that it has registered run in its process.
pub(super) struct Program<'a> {
    pub(super) caller: &'a Arc<Caller>,
    /// Its interpreter, for functions of task files.
    pub(super) python: Option<PathBuf>,
    /// What ends the run when the program has ended.
    pub(super) cancel: &'a OnceLock<Cancel>,
}

/// Evaluates.
pub(super) fn run(
    arguments: &Options,
    printer: &mut Printer,
    program: Option<&Program<'_>>,
) -> Result<Status> {
    if arguments.progress == Some(ProgressMode::Json) {
        printer.notes().use_json();
    }
    let (moment, began) = (Moment::now(), Instant::now());
    let mut settings = RunSettings::of_command(arguments)?;
    settings.python = settings.python.or_else(|| program?.python.clone());
    say(&settings, printer)?;
    if settings.check_integrity {
        let told = Diagnostic::new("`--check_integrity`: there are no self-tests of tasks");
        bail!(told.hint("`lm-eval validate --tasks …` checks definitions"));
    }
    let hash_media = environment::hash_media()?;
    let roots = roots::resolve(&settings.library, printer)?;
    let tasks = load(&settings, &roots, printer)?;
    let notes = printer.notes();
    let mut options = python::options(settings.python.as_deref(), &settings.plugins, &roots, &notes)?;
    options.caller = program.map(|program| Arc::clone(program.caller));
    let model = {
        let show = Show::new(settings.progress, settings.quiet);
        let _waiting = Waiting::start(show, loading(&settings), notes.clone());
        model::create(&settings, &options, &notes)?
    };
    let model_args = Value::from(settings.model_args.clone());
    let model_name = ModelName::of(&settings.model, &model_args, settings.seeds[0]);
    let files = files(&settings, &model_name, moment)?;
    let journal = journal(&settings, &model_name, files.as_ref().map(|(layout, _)| layout), &*model);
    match &journal {
        Some(journal) => notes.wrote("journal", None, &journal.path),
        None => tell_not_kept(&settings, printer),
    }
    let start = Start { moment, began, model_name, files, hash_media };
    let adjust = |run: &mut EvaluateOptions| {
        if let Some(program) = program {
            let run_unsafe_code = settings.confirm_run_unsafe_code;
            run.data.python = Some(PythonHost::new(PythonOptions { run_unsafe_code, ..options }));
            // Nobody else sets it.
            let _ = program.cancel.set(run.cancel.clone());
        }
    };
    let (evaluation, events, board) =
        evaluate_tasks(&settings, &start, &model, (tasks, &roots), journal.as_ref(), printer, adjust)?;
    let facts = output::facts(&settings, &start, &*model, &evaluation);
    for warning in &evaluation.results.warnings {
        printer.note(&format!("warning: {warning}"));
    }
    let task_hashes = events.task_hashes(&evaluation);
    output::write(&settings, &start, &facts, &evaluation, &task_hashes, printer)?;
    output::tell_audit(&evaluation, printer);
    if let Some(journal) = &journal {
        tell_reuse(&evaluation, &events, &board, &journal.path, printer);
    }
    if evaluation.failures.is_empty() {
        return Ok(Status::Success);
    }
    output::tell_failures(&evaluation.failures, journal.is_some(), printer);
    Ok(Status::Failure)
}

/// What is going on while a model is made.
fn loading(settings: &RunSettings) -> String {
    let name = ["pretrained", "model"].into_iter().find_map(|key| settings.model_args.get_str(key));
    format!("Loading the model `{}`", name.map_or_else(|| settings.model.clone(), repr::str))
}

/// Says what the settings come to.
fn say(settings: &RunSettings, printer: &mut Printer) -> Result<()> {
    let notes = printer.notes();
    if settings.progress == ProgressMode::Json {
        notes.use_json();
    }
    if settings.quiet {
        notes.be_quiet();
    }
    if settings.from_file {
        printer.result(&format!("{}\n", record_line(&settings.record)))?;
    }
    for note in &settings.notes {
        notes.info(note);
    }
    if !settings.apply_chat_template.is_on() && looks_like_chat(settings) {
        notes.info(
            "The arguments of the model look like those of a chat model, and `--apply_chat_template` is not given: \
             prompts are plain text",
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

/// Where files go; the folder is tried out, so that the run does not find out at its end.
pub(super) fn files(
    settings: &RunSettings,
    model: &ModelName,
    moment: Moment,
) -> Result<Option<(Layout, String)>> {
    let Some(path) = &settings.output_path else { return Ok(None) };
    let layout = Layout::new(path, &model.sanitized);
    layout.prepare()?;
    let stamp = moment.stamp(&environment::time_zone());
    Ok(Some((layout, stamp)))
}

/// The journal of a model's folder.
const ANSWERS: &str = "answers.journal";

/// Where answers are kept; nowhere for a model that is as fast as a file.
pub(super) fn journal(
    settings: &RunSettings,
    name: &ModelName,
    layout: Option<&Layout>,
    model: &dyn Model,
) -> Option<JournalOptions> {
    if !model.is_worth_saving() {
        return None;
    }
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
        // Earlier versions had hidden folders for names such as `./model`: what was answered there stays answered.
        let earlier = output_path.join(sanitize_model_name(&name.name)).join(ANSWERS);
        if !path.exists() && earlier.exists() { earlier } else { path }
    };
    Some(JournalOptions { path, fresh, import: Vec::new() })
}

/// Says which flags have nothing to work on.
fn tell_not_kept(settings: &RunSettings, printer: &Printer) {
    if settings.use_cache.is_some() {
        printer.notes().info(&format!(
            "`--use_cache` has no effect: `{}` answers as fast as a file can be read",
            settings.model
        ));
    } else if settings.fresh {
        printer.notes().info("`--fresh` has no effect: there are no answers of earlier runs");
    }
}

/// Evaluates; `adjust` has the last word on how.
pub(super) fn evaluate_tasks(
    settings: &RunSettings,
    start: &Start,
    model: &Arc<dyn Model>,
    (tasks, roots): (TaskDict, &[PathBuf]),
    journal: Option<&JournalOptions>,
    printer: &Printer,
    adjust: impl FnOnce(&mut EvaluateOptions),
) -> Result<(Evaluated, Arc<RunEvents>, Arc<Board>)> {
    let notes = printer.notes();
    let show = Show::new(settings.progress, settings.quiet);
    let board = Arc::new(Board::new());
    let records = start.files.as_ref().filter(|_| settings.log_samples).map(|(layout, stamp)| Records {
        layout: layout.clone(),
        stamp: stamp.clone(),
        options: SampleOptions { hash_media: start.hash_media },
    });
    if let Some(records) = &records {
        records.layout.check_tasks(tasks.tasks.keys().map(String::as_str))?;
    }
    let write_out = settings.write_out.then_some(settings.dialect);
    let events =
        Arc::new(RunEvents::new(Arc::clone(&board), notes.clone(), show == Show::Json, write_out, records));
    let cancel = Cancel::new();
    interrupt::listen(cancel.clone(), notes.clone(), journal.is_some());
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
        stats.on_warning(move |warning| notes.note(&format!("warning: {warning}")));
    }
    let ticker = Ticker::start(show, Arc::clone(&board), Arc::clone(model), notes);
    let heard: Arc<dyn Events> = Arc::clone(&events) as Arc<dyn Events>;
    let evaluation = evaluate(model, tasks, &options, &heard);
    drop(ticker);
    for warning in model.stats().map(ModelStats::take_warnings).unwrap_or_default() {
        printer.notes().note(&format!("warning: {warning}"));
    }
    Ok((evaluation?, events, board))
}

/// Says what did not have to be asked.
fn tell_reuse(evaluation: &Evaluated, events: &RunEvents, board: &Board, path: &Path, printer: &Printer) {
    let sent = board.snapshot().sent;
    if events.kept_before() == 0 || evaluation.answered == 0 {
        return;
    }
    let path = path.display();
    let before = evaluation.answered.saturating_sub(sent as usize);
    let text = if sent == 0 && evaluation.failures.is_empty() {
        let all = match evaluation.answered {
            1 => "The only answer was".to_owned(),
            several => format!("All {several} answers were"),
        };
        format!("{all} in {path}; nothing was sent. `--fresh` starts over")
    } else {
        format!(
            "{} came from the model, {before} {} there already",
            counted(sent as usize, "answer"),
            for_count(before, "was", "were")
        )
    };
    printer.notes().info(&text);
}
