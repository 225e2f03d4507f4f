//! Runs of other programs: Every Eval Ever and logs of Inspect.
//!
//! A log is converted once to the results and samples files that every other reader knows, in a folder named by the digest of the log. So comparisons, tables and the
//! viewer have no second way to read a run.

mod archive;
mod eee;
mod inspect;
mod log;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};

use self::log::Log;
use crate::Error;
use crate::read::{SEARCH_DEPTH, has_extension, split_stamp};

/// How much of a file is searched for the marks of a format.
const HEAD: u64 = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    EveryEvalEver,
    Inspect,
}

impl Format {
    /// The format of a file, by the keys at its start.
    fn of(path: &Path) -> Option<Self> {
        if has_extension(path, "eval") {
            // Archives of ZIP begin so.
            let mut head = [0; 2];
            fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
            return (&head == b"PK").then_some(Self::Inspect);
        }
        if !has_extension(path, "json") || split_stamp(&path.file_name()?.to_string_lossy()).is_some() {
            return None;
        }
        let mut head = Vec::new();
        fs::File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
        let head = String::from_utf8_lossy(&head);
        let has = |keys: &[&str]| keys.iter().all(|key| head.contains(&format!("\"{key}\"")));
        match () {
            () if has(&["schema_version", "evaluation_id"]) => Some(Self::EveryEvalEver),
            () if has(&["eval", "task_id", "run_id"]) => Some(Self::Inspect),
            () => None,
        }
    }
}

/// The runs that the logs of other programs in a file or a folder were converted to, as results files below `cache`; empty if there are none.
///
/// The logs of one run of Inspect, which writes one per task, become one run.
pub fn converted(path: &Path, cache: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut logs: Vec<(PathBuf, Format)> = Vec::new();
    if path.is_dir() {
        find(path, 0, &mut logs);
        logs.sort();
    } else {
        logs.extend(Format::of(path).map(|format| (path.to_owned(), format)));
    }
    let mut runs: Vec<(Option<String>, Vec<PathBuf>, Format)> = Vec::new();
    for (path, format) in logs {
        let id = if format == Format::Inspect { inspect::run_id(&path)? } else { None };
        match runs.iter_mut().find(|(known, _, _)| id.is_some() && *known == id) {
            Some((_, paths, _)) => paths.push(path),
            None => runs.push((id, vec![path], format)),
        }
    }
    runs.iter().map(|(_, paths, format)| convert(paths, *format, cache)).collect()
}

impl Ord for Format {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*self as u8).cmp(&(*other as u8))
    }
}

impl PartialOrd for Format {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn find(folder: &Path, depth: usize, found: &mut Vec<(PathBuf, Format)>) {
    // A folder that cannot be listed has no runs, as in every other search.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if kind.is_dir() && depth < SEARCH_DEPTH {
            find(&path, depth + 1, found);
        } else if kind.is_file()
            && let Some(format) = Format::of(&path)
        {
            found.push((path, format));
        }
    }
}

fn convert(paths: &[PathBuf], format: Format, cache: &Path) -> Result<PathBuf, Error> {
    let mut digest = log::Digest::default();
    for path in paths {
        digest.add(path)?;
        if format == Format::EveryEvalEver
            && let Some(documents) = eee::documents(path)
        {
            digest.add(&documents)?;
        }
    }
    let folder = cache.join("foreign").join(digest.finish());
    if let Some(results) = log::results_in(&folder) {
        return Ok(results);
    }
    let mut whole = Log::default();
    for path in paths {
        whole.append(match format {
            Format::EveryEvalEver => eee::read(path)?,
            Format::Inspect => inspect::read(path)?,
        });
    }
    whole.write(&folder)
}

/// A log that is not as its format says.
fn wrong(path: &Path, problem: &str) -> Diagnostic {
    Diagnostic::new(format!("`{}`: {problem}", path.display()))
}

fn read_json(path: &Path) -> Result<Dict, Error> {
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::cannot_read(path, error))?;
    match json::loads(&text) {
        Ok(Value::Dict(content)) => Ok((*content).clone()),
        Ok(_) => Err(wrong(path, "not a JSON object").into()),
        Err(error) => {
            Err(Diagnostic::new(format!("`{}` is not JSON", path.display())).caused_by(error).into())
        }
    }
}

/// The value below several keys.
fn at<'a>(dict: &'a Dict, keys: &[&str]) -> Option<&'a Value> {
    let (last, front) = keys.split_last()?;
    let mut inner = dict;
    for key in front {
        inner = inner.get_str(key)?.as_dict()?;
    }
    inner.get_str(last).filter(|value| !value.is_none())
}

/// The string below several keys.
fn text_at(dict: &Dict, keys: &[&str]) -> Option<String> {
    at(dict, keys)?.as_str().map(str::to_owned)
}

/// The dictionaries in the list below several keys.
fn dicts_at<'a>(dict: &'a Dict, keys: &[&str]) -> impl Iterator<Item = &'a Dict> {
    at(dict, keys).and_then(Value::as_list).into_iter().flatten().filter_map(Value::as_dict)
}

/// A number that a format writes as text.
fn number_or_text(value: &Value) -> Value {
    value
        .as_str()
        .and_then(|text| json::loads(text).ok())
        .filter(|value| value.to_f64().is_some())
        .unwrap_or_else(|| value.clone())
}
