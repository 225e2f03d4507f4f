//! Reads a task file with its includes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lmeval_pycompat::yaml;
use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind, Location};
use crate::source::path::{Identities, beside, read};
use crate::source::{Mapping, Origin, SourceFile, Step};

/// A file without its includes: its root mapping and the locations in it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The entries of the file, including `include`.
    pub values: Dict,
    /// Locates the entries.
    pub file: Arc<SourceFile>,
}

/// Reads task files, each once, from any number of threads.
///
/// Included files are cached for the lifetime of the loader, so use one loader per load.
#[derive(Debug, Default)]
pub struct Loader {
    included: Mutex<FxHashMap<PathBuf, Included>>,
    identities: Identities,
}

/// An included file, or the error that reading it gave.
type Included = Arc<Result<Parsed, Error>>;

impl Loader {
    /// Creates a loader with an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file with its includes merged in: later includes override earlier ones, and the file overrides them all.
    /// Values are replaced, never merged.
    pub fn load(&self, path: &Path) -> Result<Mapping, Error> {
        let real = self.identities.of(path);
        let parsed = parse(path, &real)?;
        self.merged(&parsed, &mut Visits::new(real))
    }

    /// Reads a file without its includes; `include` stays among its keys.
    pub fn load_alone(&self, path: &Path) -> Result<Parsed, Error> {
        parse(path, &self.identities.of(path))
    }

    fn merged(&self, parsed: &Parsed, visits: &mut Visits) -> Result<Mapping, Error> {
        let origin = Origin::File { file: Arc::clone(&parsed.file), prefix: Arc::from([]) };
        let mut own = Mapping::from_dict(parsed.values.clone(), &origin);
        // In a group file, `include` has another meaning.
        if own.contains("group") || !own.contains("include") {
            return Ok(own);
        }
        let here = own.locate(&[Step::from("include")]);
        let names = include_names(own.remove("include").as_ref()).map_err(|error| error.at(here.clone()))?;
        let mut merged = Mapping::new();
        for name in names {
            let path = self.identities.of(&beside(parsed.file.real_path(), &name));
            visits.enter(&path, here.as_ref()).map_err(|error| error.at(here.clone()))?;
            let included = self.included(&path);
            let values = match included.as_ref() {
                Ok(included) => self.merged(included, visits),
                Err(error) => Err(error.clone()),
            };
            let mut values = values.map_err(|error| match &here {
                Some(_) if error.location().is_none() && error.kind() == ErrorKind::Io => {
                    let error = error.at(here.clone());
                    if Path::new(&name).is_absolute() {
                        error
                    } else {
                        error.hint(format!(
                            "`include` is read relative to the folder of this file: `{}`",
                            path.display()
                        ))
                    }
                }
                Some(here) if error.location().is_some_and(|location| location.path() != here.path()) => {
                    error.hint(format!("Included from {here}"))
                }
                _ => error,
            })?;
            visits.leave();
            values.remove("task_list");
            merged.update(&values);
        }
        merged.update(&own);
        Ok(merged)
    }

    fn included(&self, real: &Path) -> Included {
        // The lock guards whole insertions, so a panicking thread cannot leave the map inconsistent.
        let mut included = self.included.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = included.get(real) {
            return Arc::clone(known);
        }
        drop(included);
        let parsed = Arc::new(parse(real, real));
        included = self.included.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(included.entry(real.to_owned()).or_insert(parsed))
    }
}

/// The maximum depth of nested includes.
pub(crate) const MAX_INCLUDE_DEPTH: usize = 64;

/// Reads one file; `real` is its path with symbolic links resolved, which its references are relative to.
pub(crate) fn parse(path: &Path, real: &Path) -> Result<Parsed, Error> {
    let bytes = read(real).map_err(|error| unreadable(path, error))?;
    parse_bytes(path, real, &bytes)
}

/// The error for a file that cannot be read.
pub(crate) fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let message = format!("`{}` cannot be read: {}", path.display(), io_reason(&error));
    Error::new(ErrorKind::Io, message).including_cause(error)
}

/// Parses the bytes of a file.
fn parse_bytes(path: &Path, real: &Path, bytes: &[u8]) -> Result<Parsed, Error> {
    let directory = real.parent().unwrap_or_else(|| Path::new("")).to_string_lossy();
    let source = |text: &str, marks| Arc::new(SourceFile::new(path.to_owned(), real.to_owned(), text, marks));
    let decoded = yaml::decode(bytes);
    let text = match &decoded {
        Ok(text) => Cow::Borrowed(&**text),
        Err(_) => yaml::decode_lossy(bytes),
    };
    let loaded = decoded
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|text| yaml::Loader::for_directory(directory).load(text))
        .map_err(|error| {
            let offset = error.position().offset.min(text.len());
            let line = error.position().line as usize + 1;
            let file = source(&text, yaml::Marks::default());
            let message = format!("Invalid YAML: {}", error.message());
            Error::new(ErrorKind::Yaml, message)
                .at(Some(file.location(offset..offset, line)))
                .including_cause(error)
        })?;
    let file = source(&text, loaded.marks);
    match loaded.value {
        Value::Dict(values) => Ok(Parsed { values: Arc::unwrap_or_clone(values), file }),
        other => Err(Error::new(
            ErrorKind::Type,
            format!("A task file must contain a dict, not {}", other.type_name()),
        )
        .at(Some(file.location(0..0, 1)))),
    }
}

/// The reason without the path, which is already in the message.
fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    }
}

/// The files that an `include` value names.
pub(crate) fn include_names(value: Option<&Value>) -> Result<Vec<String>, Error> {
    let wrong = |found: &Value| {
        Error::new(
            ErrorKind::Type,
            format!("`include` must be a str or a list of strs, not {}", found.type_name()),
        )
    };
    match value {
        Some(Value::Str(name)) => Ok(vec![name.to_string()]),
        Some(Value::List(names)) => {
            names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(|| wrong(name))).collect()
        }
        Some(other) => Err(wrong(other)),
        None => Ok(Vec::new()),
    }
}

/// The files visited in one load.
struct Visits {
    /// The file being merged, preceded by those that include it.
    chain: Vec<PathBuf>,
    /// Every included file with the location that includes it.
    seen: Vec<(PathBuf, Option<Location>)>,
}

impl Visits {
    fn new(first: PathBuf) -> Self {
        Self { chain: vec![first], seen: Vec::new() }
    }

    /// Enters a file; a file may be reached only once in one load.
    fn enter(&mut self, path: &Path, location: Option<&Location>) -> Result<(), Error> {
        if let Some(start) = self.chain.iter().position(|open| open == path) {
            let chain: Vec<String> = self.chain[start..]
                .iter()
                .map(PathBuf::as_path)
                .chain([path])
                .map(|path| format!("`{}`", path.display()))
                .collect();
            return Err(Error::new(ErrorKind::Cycle, format!("Include cycle: {}", chain.join(" → "))));
        }
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| seen == path) {
            let error = Error::new(ErrorKind::Cycle, format!("`{}` is included twice", path.display()))
                .hint("A file may be included only once, directly or through others");
            return Err(match first {
                Some(first) => error.hint(format!("It is included first from {first}")),
                None => error,
            });
        }
        if self.chain.len() > MAX_INCLUDE_DEPTH {
            return Err(Error::new(ErrorKind::Cycle, "Files are included too deeply"));
        }
        self.seen.push((path.to_owned(), location.cloned()));
        self.chain.push(path.to_owned());
        Ok(())
    }

    fn leave(&mut self) {
        self.chain.pop();
    }
}
