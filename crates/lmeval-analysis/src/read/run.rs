//! Finding the files of a run.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::stats::Interval;
use fs_err as fs;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};
use lmeval_scoring::results::task_file_name;

/// The samples of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplesFile {
    /// The task, as the results name it.
    pub task: String,
    /// The path of the JSON lines.
    pub path: PathBuf,
}

/// A finished run: its results, and where its samples are.
#[derive(Clone, Debug)]
pub struct Run {
    /// The model, for tables; the file name where no results say it.
    pub name: String,
    /// The results or samples file that identifies the run.
    pub path: PathBuf,
    /// The content of the results file, if there is one.
    pub results: Option<Dict>,
    /// Samples, sorted by task.
    pub samples: Vec<SamplesFile>,
}

impl Run {
    /// Opens a run given as a results file, a samples file, a journal beside results, or a folder of results.
    ///
    /// Of several runs of one model in a folder the newest is taken. A folder with runs of several models is an error
    /// that lists them.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let meta = fs::metadata(path).map_err(|error| {
            Diagnostic::cannot_read(path, error).hint("Name a results file, a samples file or a folder")
        })?;
        if meta.is_dir() {
            return Self::from_results(&newest(path)?);
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => Ok(Self::from_samples(path)),
            Some("journal") => Self::from_results(&newest(parent(path)).map_err(|_| no_scores(path))?),
            _ => Self::from_results(path),
        }
    }

    /// Opens every run of a folder, or the one that a file belongs to.
    pub fn open_all(path: &Path) -> Result<Vec<Self>, Error> {
        if !path.is_dir() {
            return Ok(vec![Self::open(path)?]);
        }
        let mut found = results_below(path)?;
        if found.is_empty() {
            return Err(no_results(path).into());
        }
        found.sort();
        found.iter().map(|path| Self::from_results(path)).collect()
    }

    /// Opens a run for scoring it again: like [`Run::open`], but a samples file brings the results that were written with it,
    /// and a journal needs none.
    pub fn open_answers(path: &Path) -> Result<Self, Error> {
        let name = file_name(path);
        let is_folder = path.is_dir();
        if !is_folder && has_extension(path, "jsonl") {
            let results = split_stamp(&name).and_then(|(_, stamp)| newest_beside(path, None, Some(stamp)));
            let results = results.map(|path| Self::from_results(&path)).transpose()?;
            let samples = Self::from_samples(path);
            return Ok(match results {
                Some(results) => Self { samples: samples.samples, ..results },
                None => samples,
            });
        }
        if !is_folder && has_extension(path, "journal") {
            // The journal of a folder is `answers.journal`, that of `name_….json` is `name.journal`.
            let front = name.trim_end_matches(".journal");
            let front = if front == "answers" { "results" } else { front };
            if let Some(results) = newest_beside(path, Some(front), None) {
                return Self::from_results(&results);
            }
            fs::metadata(path).map_err(|error| Diagnostic::cannot_read(path, error))?;
            return Ok(Self { name, path: path.to_owned(), results: None, samples: Vec::new() });
        }
        Self::open(path)
    }

    /// The journal that was written with the results, if it exists.
    pub fn journal(&self) -> Option<PathBuf> {
        let name = file_name(&self.path);
        let (front, _) = split_stamp(&name)?;
        let own = if front == "results" { "answers" } else { front };
        Some(parent(&self.path).join(format!("{own}.journal"))).filter(|journal| journal.is_file())
    }

    fn from_samples(path: &Path) -> Self {
        let name = file_name(path);
        let model = parent(path).file_name().map(|name| name.to_string_lossy().into_owned());
        Self {
            name: model.filter(|model| !model.is_empty()).unwrap_or(name),
            path: path.to_owned(),
            results: None,
            samples: vec![SamplesFile { task: task_of(path), path: path.to_owned() }],
        }
    }

    fn from_results(path: &Path) -> Result<Self, Error> {
        let not_results = || {
            Diagnostic::new(format!("`{}` is not a results file", path.display()))
                .hint("Name a `results_….json` or `samples_….jsonl` file, or the folder of a run")
        };
        let text = fs::read_to_string(path).map_err(|error| not_results().caused_by(error))?;
        let Value::Dict(results) = json::loads(&text).map_err(|error| not_results().caused_by(error))? else {
            return Err(not_results().into());
        };
        if !matches!(results.get_str("results"), Some(Value::Dict(_))) {
            return Err(not_results().into());
        }
        let results = (*results).clone();
        let samples = samples_beside(path, &results)?;
        let name = text_of(&results, "model_name")
            .or_else(|| name_in_arguments(&results))
            .or_else(|| text_of(&results, "model_source"))
            .unwrap_or_else(|| file_name(path));
        Ok(Self { name, path: path.to_owned(), results: Some(results), samples })
    }

    /// A dictionary of the results file, such as `configs`.
    pub fn section(&self, name: &str) -> Option<&Dict> {
        match self.results.as_ref()?.get_str(name) {
            Some(Value::Dict(section)) => Some(section),
            _ => None,
        }
    }

    /// The smallest and the largest score that complete answers could have led to; `None` if all answers are finished, or
    /// if the results do not say.
    pub fn bounds(&self, task: &str, metric: &str, filter: &str) -> Option<Interval> {
        let scores = self.section("bounds")?.get_str(task)?.as_dict()?;
        Interval::from_value(scores.get_str(&format!("{metric},{filter}"))?)
    }

    /// The samples of a task.
    pub fn samples_of(&self, task: &str) -> Option<&SamplesFile> {
        self.samples.iter().find(|file| file.task == task)
    }

    /// Whether a metric is better when it is larger; `None` where the results do not say.
    pub fn higher_is_better(&self, task: &str, metric: &str) -> Option<bool> {
        match self.section("higher_is_better")?.get_str(task)? {
            Value::Dict(metrics) => match metrics.get_str(metric)? {
                Value::Bool(higher) => Some(*higher),
                _ => None,
            },
            _ => None,
        }
    }

    /// The time in the name of the results or samples file; empty if it has none.
    pub fn stamp(&self) -> String {
        stamp_of(&self.path)
    }

    /// Orders runs by their start: the later, the greater.
    pub(crate) fn age_key(&self) -> (u64, String) {
        let date = self.results.as_ref().and_then(|results| results.get_str("date")?.to_f64());
        // Whole microseconds; the time of day in the name decides between files without a date.
        (date.map_or(0, |date| (date.max(0.0) * 1e6) as u64), self.stamp())
    }

    /// The `--limit` of the run, as the results state it.
    pub fn limit(&self) -> Option<f64> {
        self.section("config")?.get_str("limit")?.to_f64()
    }
}

fn text_of(dict: &Dict, key: &str) -> Option<String> {
    match dict.get_str(key)? {
        Value::Str(text) if !text.is_empty() => Some(text.to_string()),
        _ => None,
    }
}

/// The model in `config.model_args`, for files of old releases, which do not name it.
fn name_in_arguments(results: &Dict) -> Option<String> {
    const KEYS: [&str; 3] = ["pretrained", "model", "engine"];
    match results.get_str("config")?.as_dict()?.get_str("model_args")? {
        Value::Dict(arguments) => KEYS.into_iter().find_map(|key| text_of(arguments, key)),
        Value::Str(text) => KEYS.into_iter().find_map(|key| {
            let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
        }),
        _ => None,
    }
}

/// The folder of a file; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether the name of a file ends with a dot and `wanted`.
pub fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

/// The name of a file without its folder.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn no_scores(path: &Path) -> Diagnostic {
    Diagnostic::new(format!("`{}` holds answers, and there are no results beside it", path.display()))
        .hint("Score it first: `lm-eval rescore`")
}

fn no_results(folder: &Path) -> Diagnostic {
    Diagnostic::new(format!("There are no results in `{}`", folder.display()))
        .hint("`lm-eval run --output_path FOLDER --log_samples` writes them")
}

/// Splits `samples_arc_2026-11-15T02-46-50.151442.jsonl` into `samples_arc` and the time.
pub fn split_stamp(name: &str) -> Option<(&str, &str)> {
    let stem = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json"))?;
    let (front, stamp) = stem.rsplit_once('_')?;
    let shape = b"0000-00-00T00-00-00";
    let bytes = stamp.as_bytes();
    let fits = bytes.len() >= shape.len()
        && bytes.iter().zip(shape).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape || (*shape == b'-' && *byte == b':'),
        })
        && bytes[shape.len()..].iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    fits.then_some((front, stamp))
}

/// The time in the name of a results or samples file; empty if it has none.
pub fn stamp_of(path: &Path) -> String {
    split_stamp(&file_name(path)).map(|(_, stamp)| stamp.to_owned()).unwrap_or_default()
}

/// The task that a samples file is named after.
pub fn task_of(path: &Path) -> String {
    let name = file_name(path);
    let task = split_stamp(&name).and_then(|(front, _)| front.strip_prefix("samples_"));
    task.unwrap_or_else(|| name.trim_end_matches(".jsonl")).replace("--", "::")
}

/// The newest results file in the folder of a file, with this name before the time, or this time.
fn newest_beside(path: &Path, front: Option<&str>, stamp: Option<&str>) -> Option<PathBuf> {
    let entries = fs::read_dir(parent(path)).ok()?.flatten().map(|entry| entry.path());
    let fits = |path: &PathBuf| {
        let name = file_name(path);
        has_extension(path, "json")
            && split_stamp(&name).is_some_and(|(own, of)| {
                front.is_none_or(|front| own == front) && stamp.is_none_or(|stamp| of == stamp)
            })
    };
    let mut found: Vec<PathBuf> = entries.filter(fits).collect();
    sort_by_start(&mut found);
    found.pop()
}

/// Sorts results files by the start of their runs.
///
/// Names contain the local time of the machine that wrote them: at the end of daylight saving time, or in another zone, a later
/// run may have an earlier name. So files whose names are close to the last one are compared by the date in their content.
fn sort_by_start(found: &mut [PathBuf]) {
    found.sort_by_cached_key(|path| split_stamp(&file_name(path)).map(|(_, stamp)| stamp.to_owned()));
    let Some(last) = found.last().and_then(|path| local_time(path)) else { return };
    let is_close = |path: &PathBuf| local_time(path).is_some_and(|time| last - time <= ZONES);
    let first = found.iter().position(is_close).unwrap_or(found.len());
    let close = &mut found[first..];
    if close.len() > 1 {
        let dated: Option<Vec<(i64, &PathBuf)>> =
            close.iter().map(|path| Some((start_of(path)?, path))).collect();
        // The names decide if a file does not say when its run began.
        if let Some(mut dated) = dated {
            dated.sort_by_key(|(date, _)| *date);
            let sorted: Vec<PathBuf> = dated.into_iter().map(|(_, path)| path.clone()).collect();
            close.clone_from_slice(&sorted);
        }
    }
}

/// The microseconds between the zones that are the furthest apart.
const ZONES: i64 = 26 * 3_600_000_000;
/// The offsets of zones are multiples of these microseconds.
const ZONE_STEP: i64 = 900_000_000;
/// How far the name may be from the date, in microseconds: a number in JSON is rounded, and a name that exists is not used again.
const ROUNDING: i64 = 10_000;

/// The time in the name of a results file in microseconds, as if it were UTC.
fn local_time(path: &Path) -> Option<i64> {
    let name = file_name(path);
    let (_, stamp) = split_stamp(&name)?;
    let (date, time) = stamp.split_once('T')?;
    let time: DateTime = format!("{date}T{}", time.replace('-', ":")).parse().ok()?;
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_microsecond())
}

/// When the run of a results file began, in microseconds since the epoch: its `date`, if that is the time in its name in some
/// zone. Merged results have the date of a shard, and a damaged date fits no zone.
fn start_of(path: &Path) -> Option<i64> {
    let date = i64::try_from(Run::from_results(path).ok()?.age_key().0).ok()?;
    let offset = local_time(path)? - date;
    let rest = (offset + ROUNDING).rem_euclid(ZONE_STEP);
    (offset.abs() <= ZONES && rest <= 2 * ROUNDING).then_some(date)
}

/// The content of the results file that was written with a samples file.
pub(super) fn results_beside(path: &Path) -> Option<Dict> {
    let name = file_name(path);
    let (_, stamp) = split_stamp(&name)?;
    let found = newest_beside(path, None, Some(stamp))?;
    // The viewer follows no links out of its folders.
    fs::symlink_metadata(&found).ok().filter(std::fs::Metadata::is_file)?;
    Run::from_results(&found).ok()?.results
}

/// How many folders deep runs are looked for.
pub const SEARCH_DEPTH: usize = 16;

/// Results files in a folder and in the folders below it, but not behind links.
fn results_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((inner, depth)) = folders.pop() {
        let entries = match fs::read_dir(&inner) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(Diagnostic::cannot_read(&inner, error).into()),
            // A folder of someone else's below the given one.
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth < SEARCH_DEPTH {
                folders.push((path, depth + 1));
            } else if has_extension(&path, "json")
                && split_stamp(&file_name(&path)).is_some()
                && path.is_file()
            {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// The newest results file of a folder with runs of one model.
fn newest(folder: &Path) -> Result<PathBuf, Error> {
    let mut found = results_below(folder)?;
    sort_by_start(&mut found);
    let Some(last) = found.last().cloned() else {
        return Err(no_results(folder).into());
    };
    // Runs of one model are `<model>/results_….json` or `<name>_….json`: folder and front of the name identify it.
    let series = |path: &Path| {
        let name = file_name(path);
        (parent(path).to_owned(), split_stamp(&name).map(|(front, _)| front.to_owned()))
    };
    let mut choices: Vec<&PathBuf> = Vec::new();
    for path in found.iter().rev() {
        if !choices.iter().any(|choice| series(choice) == series(path)) {
            choices.push(path);
        }
    }
    if choices.len() > 1 {
        let listed: Vec<String> = choices.iter().map(|path| format!("  {}", path.display())).collect();
        return Err(Diagnostic::new(format!(
            "`{}` holds {} series of runs; name one:\n{}",
            folder.display(),
            choices.len(),
            listed.join("\n")
        ))
        .into());
    }
    Ok(last)
}

/// The samples files that were written with a results file: those beside it with the same time.
fn samples_beside(path: &Path, results: &Dict) -> Result<Vec<SamplesFile>, Error> {
    let name = file_name(path);
    let Some((_, stamp)) = split_stamp(&name) else { return Ok(Vec::new()) };
    let tasks: Vec<String> = match results.get_str("configs") {
        Some(Value::Dict(configs)) => configs
            .keys()
            .filter_map(|key| if let Value::Str(key) = key { Some(key.to_string()) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    let mut samples = Vec::new();
    let entries = fs::read_dir(parent(path)).map_err(|error| {
        Diagnostic::new(format!("Cannot list the folder of `{}`", path.display())).caused_by(error)
    })?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = file_name(&path);
        let Some((front, of)) = split_stamp(&name) else { continue };
        let Some(written) =
            front.strip_prefix("samples_").filter(|_| has_extension(&path, "jsonl") && of == stamp)
        else {
            continue;
        };
        // The reference leaves colons as they are. A task of exactly that name comes first.
        let exact = tasks.iter().find(|task| task.as_str() == written);
        let task = exact.or_else(|| tasks.iter().find(|task| is_file_name(task, written)));
        samples
            .push(SamplesFile { task: task.cloned().unwrap_or_else(|| written.replace("--", "::")), path });
    }
    samples.sort_by(|left, right| left.task.cmp(&right.task));
    Ok(samples)
}

/// Whether a file is named after a task, by us or by an earlier version, which did not replace single colons.
fn is_file_name(task: &str, written: &str) -> bool {
    task_file_name(task) == written || task.replace("::", "--").replace(['/', '\\'], "_") == written
}
