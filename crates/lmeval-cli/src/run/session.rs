//! One evaluation. `run`, `rescore`, `merge` and the Python package differ in where settings, tasks and answers come from; what
//! follows from them is the same: where files go, which answers are saved, and how the engine is called.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::Result;
use lmeval_claims::receipt::AnswerDigests;
use lmeval_core::Model;
use lmeval_data::Settings;
use lmeval_engine::{Cancel, EngineError, EvaluateOptions, Evaluated, Events, JournalOptions, evaluate};
use lmeval_host::{Caller, PythonHost, PythonOptions};
use lmeval_pycompat::Value;
use lmeval_report::{Layout, ModelName, Moment, SampleOptions, sanitize_model_name};
use lmeval_tasks::TaskDict;

use super::events::{Records, RunEvents};
use super::judges::Judging;
use super::live::LiveView;
use super::lock::LockRecorder;
use super::shard::ShardWriter;
use super::{interrupt, judges, model, output};
use crate::browser;
use crate::environment;
use crate::printer::{Notes, Printer};
use crate::progress::{Downloads, ProgressDisplay, RequestCounts, Ticker};
use crate::python;
use crate::settings::RunSettings;

/// The file name of the journal in a model's folder.
const ANSWERS: &str = "answers.journal";

/// The Python program on whose behalf an evaluation runs; its registered models and functions run in its process.
pub(crate) struct Program<'a> {
    pub(crate) caller: &'a Arc<Caller>,
    /// Its interpreter, for Python functions of task files.
    pub(crate) python: Option<PathBuf>,
    /// Cancels the evaluation if that process ends.
    pub(crate) cancel: &'a OnceLock<Cancel>,
}

/// When an evaluation started.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    /// The wall-clock time, for names and results.
    pub(crate) moment: Moment,
    /// The same on a monotonic clock, for durations.
    pub(crate) began: Instant,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self { moment: Moment::now(), began: Instant::now() }
    }
}

/// Where the files of an evaluation go.
pub(crate) struct Files {
    /// The folder.
    pub(crate) layout: Layout,
    /// The time stamp in file names.
    pub(crate) stamp: String,
}

/// Everything that an evaluation needs besides tasks and a model.
pub(crate) struct Session {
    /// The settings in effect.
    pub(crate) settings: RunSettings,
    /// When it started.
    pub(crate) clock: Clock,
    /// The model's name and its sanitized form.
    pub(crate) model_name: ModelName,
    /// For Python functions and models.
    pub(crate) python: PythonOptions,
    /// Whether records contain hashes instead of bytes.
    pub(crate) hash_media: bool,
    /// Where files go; `None` if none are written.
    pub(crate) files: Option<Files>,
    /// The journal of answers; `None` if they are not saved.
    pub(crate) journal: Option<JournalOptions>,
    /// The judges, and what they need.
    pub(crate) judging: Judging,
    /// Receives the values of each document, for a comparison with an earlier run.
    pub(crate) observer: Option<Arc<dyn Events>>,
    /// Collects what the lock of the run needs, if it writes one.
    pub(crate) lock: Option<Arc<LockRecorder>>,
    /// Collects the answers for the receipt of the run.
    pub(crate) answers: Option<Arc<AnswerDigests>>,
    /// Whether answers are stored ones, whose token limit is a fact.
    pub(crate) is_stored: bool,
    cancel: Cancel,
    notes: Notes,
}

impl Session {
    /// Prepares everything that needs neither files nor a model.
    ///
    /// `model_args` name the model in results; a Python caller may have given them as objects.
    pub(crate) fn prepare(
        settings: RunSettings,
        clock: Clock,
        roots: &[PathBuf],
        program: Option<&Program<'_>>,
        model_args: &Value,
        notes: Notes,
    ) -> Result<Self> {
        // Before the model is created, which may take minutes.
        #[cfg(not(feature = "view"))]
        if settings.output.view {
            return Err(super::live::missing().into());
        }
        let cancel = Cancel::new();
        if let Some(program) = program {
            // Set only here.
            let _ = program.cancel.set(cancel.clone());
        }
        Ok(Self {
            clock,
            model_name: ModelName::of(&settings.model.name, model_args, settings.prompts.seeds[0]),
            python: python::of_run(&settings, roots, program.map(|program| program.caller), &notes)?,
            hash_media: environment::hash_media()?,
            files: None,
            journal: None,
            judging: Judging::default(),
            observer: None,
            lock: None,
            answers: None,
            is_stored: false,
            cancel,
            notes,
            settings,
        })
    }

    /// Chooses where files go. Checks that the folder is writable, so that the run does not fail at its end.
    pub(crate) fn open_files(&mut self) -> Result<()> {
        let Some(path) = &self.settings.output.path else { return Ok(()) };
        let layout = Layout::new(path, &self.model_name.sanitized);
        layout.prepare()?;
        let stamp = layout.free_stamp(self.clock.moment, &environment::time_zone());
        self.files = Some(Files { layout, stamp });
        Ok(())
    }

    /// Creates the model that the settings name.
    pub(crate) fn create_model(&self) -> Result<Arc<dyn Model>> {
        model::create(&self.settings, &self.python, &self.notes, self.has_answers())
    }

    /// Creates the judges that the settings bind.
    pub(crate) fn create_judges(&mut self) -> Result<()> {
        self.judging = Judging::create(&self.settings, &self.python, &self.notes, self.has_answers())?;
        Ok(())
    }

    /// Saves answers, unless the model and its judges answer as fast as a file can be read.
    pub(crate) fn open_journal(&mut self, model: &dyn Model) {
        if model.traits().is_worth_saving || self.judging.is_worth_saving() {
            self.journal = self.journal_options();
        }
    }

    /// Whether the journal exists and is going to be used.
    fn has_answers(&self) -> bool {
        self.journal_options().is_some_and(|journal| !journal.fresh && journal.path.exists())
    }

    fn journal_options(&self) -> Option<JournalOptions> {
        let fresh = self.settings.answers.fresh;
        if let Some(prefix) = self.settings.answers.use_cache.as_deref().filter(|prefix| !prefix.is_empty()) {
            let path =
                if prefix.ends_with(".journal") { prefix.to_owned() } else { format!("{prefix}.journal") };
            let import = lmeval_journal::old_caches(Path::new(prefix));
            return Some(JournalOptions { path: PathBuf::from(path), fresh, import });
        }
        let output_path = self.settings.output.path.as_ref()?;
        let path = if output_path.extension().is_some_and(|extension| extension == "json") {
            output_path.with_extension("journal")
        } else {
            let path = Layout::new(output_path, &self.model_name.sanitized).folder().join(ANSWERS);
            // Earlier versions used hidden folders for names such as `./model`; reuse a journal found there.
            let earlier = output_path.join(sanitize_model_name(&self.model_name.name)).join(ANSWERS);
            if !path.exists() && earlier.exists() { earlier } else { path }
        };
        Some(JournalOptions { path, fresh, import: Vec::new() })
    }

    /// The options of the engine.
    pub(crate) fn options(&self) -> EvaluateOptions {
        let mut data = Settings::from_environment();
        data.hub.progress = Arc::new(Downloads::new(self.notes.clone()));
        let mut options = self.settings.evaluate_options();
        options.keep_samples = false;
        options.journal.clone_from(&self.journal);
        options.cancel = self.cancel.clone();
        options.digests |= self.lock.is_some();
        options.data.settings = Some(data);
        options.data.python = Some(PythonHost::new(self.python.clone()));
        (options.judges, options.baseline) = (self.judging.judges.clone(), self.judging.baseline.clone());
        options
    }

    /// A handler of events that writes samples if they are wanted.
    pub(crate) fn events(&self, counts: &Arc<RequestCounts>) -> RunEvents {
        let records = self.files.as_ref().filter(|_| self.settings.output.log_samples).map(|files| Records {
            layout: files.layout.clone(),
            stamp: files.stamp.clone(),
            options: SampleOptions { hash_media: self.hash_media },
        });
        RunEvents::new(Arc::clone(counts), self.notes.clone(), records, self.observer.clone())
    }

    /// Tells whether the run has been stopped.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Stops gracefully on Ctrl-C.
    pub(crate) fn listen(&self, model: Option<&Arc<dyn Model>>) {
        let model = model.map(Arc::downgrade);
        interrupt::listen(self.cancel.clone(), model, self.notes.clone(), self.journal.is_some());
    }

    /// Evaluates, with progress, a live page and the files of a shard if the settings want them.
    pub(crate) fn evaluate(
        &self,
        model: &Arc<dyn Model>,
        tasks: TaskDict,
        options: &EvaluateOptions,
        printer: &Printer,
    ) -> Result<Ended> {
        let settings = &self.settings;
        let show = ProgressDisplay::new(settings.output.progress, settings.output.quiet);
        let counts = Arc::new(RequestCounts::new());
        let wants_files = settings.output.log_samples || settings.documents.shard.is_some();
        if let Some(files) = self.files.as_ref().filter(|_| wants_files) {
            files.layout.check_tasks(tasks.tasks.keys().map(String::as_str))?;
        }
        let mut events = self.events(&counts);
        events.warns_of_limits = !self.is_stored;
        events.json = show == ProgressDisplay::Json;
        events.lock.clone_from(&self.lock);
        events.answers.clone_from(&self.answers);
        events.write_out = settings.output.write_out.then_some(settings.dialect);
        if settings.output.view {
            events.live = Some(self.live(&counts, model)?);
        }
        if let Some(files) = self.files.as_ref().filter(|_| settings.documents.shard.is_some()) {
            events.shard = Some(ShardWriter::new(files.layout.folder())?);
        }
        let events = Arc::new(events);
        self.listen(Some(model));
        if let Some(stats) = model.stats() {
            let (waiting, warned) = (self.notes.clone(), self.notes.clone());
            stats.on_wait(move |reason| waiting.info(reason));
            stats.on_warning(move |warning| warned.warn(warning));
        }
        let graders = judges::models(&options.judges);
        let ticker =
            Ticker::start(show, Arc::clone(&counts), (Arc::clone(model), graders), self.notes.clone());
        let handler: Arc<dyn Events> = Arc::clone(&events) as Arc<dyn Events>;
        let outcome = evaluate(model, tasks, options, &handler);
        drop(ticker);
        if outcome.is_err() {
            output::repeat_warnings(&**model, printer);
        }
        Ok(Ended { outcome, events, counts })
    }

    /// Starts the page that follows the run and prints its address.
    fn live(&self, counts: &Arc<RequestCounts>, model: &Arc<dyn Model>) -> Result<LiveView> {
        let folder = self.files.as_ref().map(|files| files.layout.folder());
        let live = LiveView::start(self.model_name.name.clone(), folder, counts, model)?;
        self.notes.note(&format!("Follow the run at {}", live.url()));
        browser::open(&live.url());
        Ok(live)
    }
}

/// The outcome of an evaluation, with everything that its events left.
pub(crate) struct Ended {
    pub(crate) outcome: Result<Evaluated, EngineError>,
    pub(crate) events: Arc<RunEvents>,
    pub(crate) counts: Arc<RequestCounts>,
}
