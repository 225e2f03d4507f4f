//! The interface as a function from an address to JSON, for the server and for reports.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fs_err as fs;
use lmeval_analysis::compare::{Comparison, Settings};
use lmeval_analysis::read::{Run, SamplesFile};
use lmeval_analysis::samples::OutcomeRule;
use lmeval_analysis::summary::TaskSettings;
use lmeval_core::{Diagnose as _, Diagnostic, secrets};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::api::{
    AnswerPage, ApiError, BudgetChart, Compare, CurvePage, Flip, FlipPage, LiveState, RunDetail, RunKind,
    Sample, SamplePage, TaskStats, Text,
};
use crate::catalog::{Catalog, FoundCurve, FoundRun, Version, explain};
use crate::comparisons::{Comparisons, flips, scores};
use crate::index::{FileIndex, Indexes, read_line};
use crate::query::{Queries, Query, Selection};
use crate::record::Record;
use crate::samples::{Page, filtered, page, sample};
use crate::wire::{MEDIUM, Num};
use crate::{Error, answers, api, curves, results, stats};

/// How long a request that needs a whole file waits for its index.
const INDEXING: Duration = Duration::from_mins(10);

/// Decoded parameters of an address.
pub(crate) type Parameters = [(String, String)];

/// Why a request has no answer: an HTTP status and the reason.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The problem, with advice.
    pub error: Error,
}

impl Refusal {
    fn new(status: u16, error: impl Into<Error>) -> Self {
        Self { status, error: error.into() }
    }

    /// The answer without its status.
    pub(crate) fn to_answer(&self) -> ApiError {
        let hint = self.error.hints().first().map(|hint| secrets::mask(hint).into_owned());
        ApiError { error: secrets::mask(&explain(&self.error)).into_owned(), hint, status: None }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { status: 422, error }
    }
}

impl From<Diagnostic> for Refusal {
    fn from(error: Diagnostic) -> Self {
        Self { status: 422, error: error.into() }
    }
}

/// A running evaluation that the live page follows.
pub trait Live: Send + Sync {
    /// The state at this moment.
    fn state(&self) -> LiveState;
}

/// The runs below some paths, and everything that pages show of them.
pub struct Viewer {
    pub(crate) catalog: Catalog,
    indexes: Indexes,
    queries: Queries,
    comparisons: Comparisons,
    opened: Mutex<FxHashMap<PathBuf, (Version, Arc<Run>)>>,
    live: Option<Arc<dyn Live>>,
}

/// Runs that were asked for together, and how they differ.
struct Compared {
    base: FoundRun,
    others: Vec<FoundRun>,
    found: Arc<Vec<Comparison>>,
}

/// A samples file that was asked for.
pub(crate) struct Opened {
    pub(crate) found: FoundRun,
    pub(crate) run: Arc<Run>,
    pub(crate) file: SamplesFile,
    pub(crate) index: Arc<FileIndex>,
}

impl Viewer {
    /// A viewer of everything below the paths. Nothing is read yet, but every path has to exist.
    pub fn new(paths: &[PathBuf]) -> Result<Self, Error> {
        Ok(Self {
            catalog: Catalog::new(paths)?,
            indexes: Indexes::default(),
            queries: Queries::default(),
            comparisons: Comparisons::default(),
            opened: Mutex::default(),
            live: None,
        })
    }

    /// Adds a running evaluation.
    #[must_use]
    pub fn with_live(mut self, live: Arc<dyn Live>) -> Self {
        self.live = Some(live);
        self
    }

    /// The running evaluation.
    pub fn live(&self) -> Option<&Arc<dyn Live>> {
        self.live.as_ref()
    }

    /// Answers a request, such as `api/run` with `run`, with JSON. Blocks while files are read.
    pub fn answer(&self, path: &str, parameters: &[(String, String)]) -> Result<String, Refusal> {
        match path {
            "api/runs" => Ok(to_json(&self.catalog.list_runs(self.live.is_some()))),
            "api/run" => self.run(parameters).map(|run| to_json(&run)),
            "api/task" => self.task(parameters).map(|task| to_json(&task)),
            "api/samples" => self.samples(parameters).map(|page| to_json(&page)),
            "api/sample" => self.sample(parameters).map(|sample| to_json(&sample)),
            "api/compare" => self.compare(parameters).map(|compared| to_json(&compared)),
            "api/flips" => self.flips(parameters).map(|page| to_json(&page)),
            "api/curve" => self.curve(parameters).map(|page| to_json(&page)),
            "api/drawing" => self.drawing(parameters).map(|drawing| to_json(&drawing)),
            "api/answers" => self.answers(parameters).map(|page| to_json(&page)),
            other => Err(Refusal::new(404, Diagnostic::new(format!("There is nothing at `/{other}`")))),
        }
    }

    fn run(&self, parameters: &Parameters) -> Result<RunDetail, Refusal> {
        self.describe(&self.found(required(parameters, "run")?)?)
    }

    /// The page of a run.
    pub(crate) fn describe(&self, found: &FoundRun) -> Result<RunDetail, Refusal> {
        if found.kind == RunKind::Results {
            return Ok(results::detail(found, &*self.catalog.summary(&found.path)?)?);
        }
        let mut detail = results::detail(found, &results::bare_summary(found))?;
        if found.kind == RunKind::Journal {
            answers::describe(&self.catalog.check(&found.path)?, &mut detail)?;
        }
        Ok(detail)
    }

    fn task(&self, parameters: &Parameters) -> Result<TaskStats, Refusal> {
        let opened = self.open(parameters)?;
        let state = opened.index.wait(Duration::from_millis(700), |_| false);
        let names = &state.columns.filter_names;
        let filter = match get(parameters, "filter") {
            None => 0,
            Some(name) => match names.iter().position(|known| known == name) {
                Some(position) => position,
                None if !state.is_complete => usize::MAX,
                None => return Err(no_filter(name, names)),
            },
        };
        Ok(stats::describe(&state, filter))
    }

    fn samples(&self, parameters: &Parameters) -> Result<SamplePage, Refusal> {
        let opened = self.open(parameters)?;
        let query = Query::parse(parameters).map_err(|error| Refusal::new(400, error))?;
        let shown = Page::parse(parameters);
        let selection = self.select(&opened, &query, shown.offset + shown.limit)?;
        Ok(page(&opened.index, &selection, &query, &shown)?)
    }

    fn sample(&self, parameters: &Parameters) -> Result<Sample, Refusal> {
        let opened = self.open(parameters)?;
        let query = Query::parse(parameters).map_err(|error| Refusal::new(400, error))?;
        let row: u32 = required(parameters, "row")?
            .parse()
            .map_err(|_| Refusal::new(400, Diagnostic::new("`row` has to be a number")))?;
        drop(opened.index.wait(INDEXING, |state| state.columns.len() > row as usize));
        // Without a filter in the address, neighbours are those of the sample's own pipeline.
        let query = match get(parameters, "filter") {
            Some(_) => query,
            None => {
                let state = opened.index.lock();
                let columns = &state.columns;
                let filter = columns.filters.get(row as usize).map(|filter| *filter as usize);
                let name = filter.and_then(|filter| columns.filter_names.get(filter)).cloned();
                query.in_filter(name)
            }
        };
        let selection = self.select(&opened, &query, row as usize + 2)?;
        let is_full = get(parameters, "full") == Some("1");
        Self::render(&opened, &selection, row, is_full)
    }

    /// One sample in full.
    pub(crate) fn render(
        opened: &Opened,
        selection: &Selection,
        row: u32,
        is_full: bool,
    ) -> Result<Sample, Refusal> {
        let settings = match opened.found.kind {
            RunKind::Results => TaskSettings::read(&opened.found.path, &opened.file.task),
            RunKind::Samples | RunKind::Journal => None,
        };
        let names = (opened.found.id.as_str(), opened.file.task.as_str());
        sample(&opened.index, selection, names, row, &settings.unwrap_or_default(), is_full)
            .map_err(|error| Refusal::new(404, error))
    }

    pub(crate) fn select(
        &self,
        opened: &Opened,
        query: &Query,
        rows: usize,
    ) -> Result<Arc<Selection>, Refusal> {
        let selection = self.queries.select(&opened.index, query, (&opened.run, &opened.file), rows);
        selection.map_err(|error| Refusal::new(400, error))
    }

    pub(crate) fn compare(&self, parameters: &Parameters) -> Result<Compare, Refusal> {
        let Compared { base, others, found } = self.compared(parameters)?;
        let mut comparisons = Vec::with_capacity(others.len());
        for (new, comparison) in others.iter().zip(found.iter()) {
            comparisons.push(api::Comparison {
                new: self.catalog.describe(new)?,
                scores: scores(comparison),
                only_base: comparison.only_base.clone(),
                only_new: comparison.only_new.clone(),
                notes: comparison.notes.clone(),
            });
        }
        Ok(Compare { base: self.catalog.describe(&base)?, comparisons })
    }

    fn compared(&self, parameters: &Parameters) -> Result<Compared, Refusal> {
        let base = self.found(required(parameters, "base")?)?;
        let others: Vec<FoundRun> = required(parameters, "new")?
            .split(',')
            .filter(|id| !id.is_empty())
            .map(|id| self.found(id))
            .collect::<Result<_, _>>()?;
        let text = |name: &str| get(parameters, name).map(str::to_owned);
        let settings = Settings {
            by: text("by"),
            cluster: text("cluster"),
            flips: true,
            allow_different_prompts: get(parameters, "allow") == Some("1"),
            ..Settings::default()
        };
        let of = get(parameters, "task").filter(|_| settings.by.is_some());
        let mut key =
            format!("{of:?}{:?}{:?}{}", settings.by, settings.cluster, settings.allow_different_prompts);
        let mut runs = Vec::with_capacity(others.len());
        for found in std::iter::once(&base).chain(&others) {
            let run = self.open_run(found)?;
            // Writing to a string cannot fail.
            let _ = write!(key, "{:?}", Version::of(&run.path).ok());
            for file in &run.samples {
                // Writing to a string cannot fail.
                let _ = write!(key, "{}{:?}", file.path.display(), Version::of(&file.path).ok());
            }
            runs.push(run);
        }
        // A field to break down by belongs to one task; others may not have it.
        if let (Some(task), true) = (get(parameters, "task"), settings.by.is_some()) {
            for run in &mut runs {
                let mut only = (**run).clone();
                only.samples.retain(|file| file.task == task);
                *run = Arc::new(only);
            }
        }
        let first = runs.remove(0);
        let found = self.comparisons.get(key, &first, &runs, &settings).map_err(|error| {
            let is_about_prompts = error.hints().iter().any(|hint| hint.contains("allow-different-prompts"));
            Refusal::new(if is_about_prompts { 409 } else { 422 }, error)
        })?;
        Ok(Compared { base, others, found })
    }

    pub(crate) fn flips(&self, parameters: &Parameters) -> Result<FlipPage, Refusal> {
        let Compared { base, others, found } = self.compared(parameters)?;
        let (Some(new), Some(comparison)) = (others.first(), found.first()) else {
            return Err(Refusal::new(400, Diagnostic::new("`new` names no run")));
        };
        let (task, filter, metric) =
            (required(parameters, "task")?, required(parameters, "filter")?, required(parameters, "metric")?);
        let shown = Page::parse(parameters);
        let Some(found) = flips(comparison, (task, filter, metric), get(parameters, "direction")) else {
            return Err(Refusal::new(
                404,
                Diagnostic::new(format!("The runs share no `{metric}` of `{task}`")),
            ));
        };
        let (left, right) = (self.open_task(&base, task)?, self.open_task(new, task)?);
        let (left, right) = (Side::open(&left)?, Side::open(&right)?);
        let mut rows = Vec::new();
        for flip in found.selected.iter().skip(shown.offset).take(shown.limit) {
            let ((base_row, base_line), (new_row, new_line)) =
                (left.read(flip.base_offset)?, right.read(flip.new_offset)?);
            let (Some(base), Some(new)) = (Record::parse(&base_line), Record::parse(&new_line)) else {
                continue;
            };
            let text = |text: &str| Text::start_of(text, MEDIUM);
            rows.push(Flip {
                doc_id: flip.doc_id,
                base_row,
                new_row,
                base_value: Num(flip.base),
                new_value: Num(flip.new),
                input: Text::end_of(&base.prompt(), MEDIUM),
                target: text(&base.target()),
                base_answer: text(&base.answer()),
                new_answer: text(&new.answer()),
                base_filtered: text(&filtered(&base)),
                new_filtered: text(&filtered(&new)),
            });
        }
        let (total, offset) = (found.selected.len(), shown.offset);
        Ok(FlipPage { total, up: found.up, down: found.down, offset, rows })
    }

    pub(crate) fn curve(&self, parameters: &Parameters) -> Result<CurvePage, Refusal> {
        Ok(curves::page(&self.found_curve(parameters)?, &self.catalog)?)
    }

    pub(crate) fn drawing(&self, parameters: &Parameters) -> Result<BudgetChart, Refusal> {
        Ok(curves::drawing(&self.found_curve(parameters)?)?)
    }

    fn found_curve(&self, parameters: &Parameters) -> Result<FoundCurve, Refusal> {
        let id = required(parameters, "curve")?;
        let found = self.catalog.curve(id).ok_or_else(|| {
            let error = Diagnostic::new(format!("There is no curve `{id}`"));
            Refusal::new(404, error.hint("It was moved or deleted; reload the list of runs"))
        })?;
        self.catalog.check(&found.path)?;
        Ok(found)
    }

    fn answers(&self, parameters: &Parameters) -> Result<AnswerPage, Refusal> {
        let found = self.found(required(parameters, "run")?)?;
        if found.kind != RunKind::Journal {
            return Err(Refusal::new(400, Diagnostic::new("Only journals have answers without documents")));
        }
        let path = self.catalog.check(&found.path)?;
        answers::page(&path, parameters, &Page::parse(parameters))
    }

    fn found(&self, id: &str) -> Result<FoundRun, Refusal> {
        self.catalog.get(id).ok_or_else(|| {
            let hint = "It was moved or deleted; reload the list of runs";
            Refusal::new(404, Diagnostic::new(format!("There is no run `{id}`")).hint(hint))
        })
    }

    fn open(&self, parameters: &Parameters) -> Result<Opened, Refusal> {
        let found = self.found(required(parameters, "run")?)?;
        self.open_task(&found, required(parameters, "task")?)
    }

    /// The samples of a task of a run, with their index.
    pub(crate) fn open_task(&self, found: &FoundRun, task: &str) -> Result<Opened, Refusal> {
        let run = self.open_run(found)?;
        let Some(file) = run.samples_of(task).cloned() else {
            let message = format!("There are no samples of `{task}`");
            let hint = "`lm-eval run --log_samples` writes them";
            return Err(Refusal::new(404, Diagnostic::new(message).hint(hint)));
        };
        let path = self.catalog.check(&file.path)?;
        let rule = OutcomeRule::new(&run, task, None);
        let index = self.indexes.get(&path, &rule, run.written_samples(task))?;
        Ok(Opened { found: found.clone(), run, file, index })
    }

    /// A run as the analysis reads it, with only those samples files that may be read.
    pub(crate) fn open_run(&self, found: &FoundRun) -> Result<Arc<Run>, Refusal> {
        if found.kind == RunKind::Journal {
            let hint = "`lm-eval rescore` scores the answers of a journal";
            return Err(Refusal::new(422, Diagnostic::new("A journal has answers and no scores").hint(hint)));
        }
        let path = self.catalog.check(&found.path)?;
        let version = Version::of(&path).map_err(|error| Diagnostic::new(error.to_string()))?;
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, run)) = opened().get(&path)
            && *known == version
            && run.samples.len() == found.samples.len()
        {
            return Ok(Arc::clone(run));
        }
        let allowed: Vec<SamplesFile> = found
            .samples
            .iter()
            .filter_map(|file| {
                Some(SamplesFile { task: file.task.clone(), path: self.catalog.check(&file.path).ok()? })
            })
            .collect();
        let mut run = match found.kind {
            RunKind::Results => Run::open(&path)?,
            RunKind::Samples | RunKind::Journal => {
                Run { name: found.shown.clone(), path: path.clone(), results: None, samples: Vec::new() }
            }
        };
        let names = match found.kind {
            RunKind::Results => Some(self.catalog.summary(&path)?),
            RunKind::Samples | RunKind::Journal => None,
        };
        run.samples = allowed
            .into_iter()
            .map(|file| {
                let named = names.as_ref().and_then(|summary| {
                    let mut tasks = summary.tasks.iter().map(|task| task.name.as_str());
                    tasks.find(|task| results::samples_of(found, task) == Some(file.path.as_path()))
                });
                SamplesFile { task: named.map_or(file.task, str::to_owned), path: file.path }
            })
            .collect();
        let run = Arc::new(run);
        let mut opened = opened();
        if opened.len() > 64 {
            opened.clear();
        }
        opened.insert(path, (version, Arc::clone(&run)));
        Ok(run)
    }
}

/// One side of a list of changed documents.
struct Side {
    file: fs::File,
    index: Arc<FileIndex>,
}

impl Side {
    fn open(opened: &Opened) -> Result<Self, Refusal> {
        drop(opened.index.wait(INDEXING, |_| false));
        let file = fs::File::open(&opened.index.path).map_err(|error| Diagnostic::new(error.to_string()))?;
        Ok(Self { file, index: Arc::clone(&opened.index) })
    }

    /// The row that starts at an offset, and its line.
    fn read(&self, offset: u64) -> Result<(usize, String), Refusal> {
        let (row, start, length) = {
            let state = self.index.lock();
            let columns = &state.columns;
            let row = columns.offsets.partition_point(|known| *known < offset);
            let start = columns.offsets.get(row).copied();
            (row, start, columns.lengths.get(row).copied().unwrap_or(0))
        };
        let Some(start) = start else {
            return Err(Refusal::new(409, Diagnostic::new("The samples changed after they were compared")));
        };
        Ok((row, read_line(&self.file, start, length)?))
    }
}

/// An answer as JSON.
pub(crate) fn to_json(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("all keys are strings and nothing is written to a file")
}

/// A parameter that is present and not empty.
pub(crate) fn get<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
}

fn required<'a>(parameters: &'a Parameters, name: &str) -> Result<&'a str, Refusal> {
    get(parameters, name)
        .ok_or_else(|| Refusal::new(400, Diagnostic::new(format!("The address has no `{name}`"))))
}

fn no_filter(name: &str, known: &[String]) -> Refusal {
    let error = Diagnostic::new(format!("There is no filter pipeline `{name}`"));
    Refusal::new(404, error.hint(format!("The samples have {}", known.join(", "))))
}
