//! The few top-level keys of a file that the index needs.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, yaml};
use rustc_hash::FxHashMap;

use super::walk::TaskFile;
use crate::error::{Error, ErrorKind};
use crate::source::{MAX_INCLUDE_DEPTH, beside, include_names, normalise, read, read_regular, unreadable};

/// The top-level values of one file that decide how it is indexed.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) task: Option<Value>,
    pub(super) group: Option<Value>,
    pub(super) class: bool,
    pub(super) tag: Option<Value>,
    pub(super) output_type: Option<Value>,
    pub(super) include: Option<Value>,
}

impl Facts {
    /// Extracts the facts of a mapping.
    pub(super) fn of(values: &Dict) -> Self {
        Self {
            task: values.get_str("task").cloned(),
            group: values.get_str("group").cloned(),
            class: values.contains_str("class"),
            tag: values.get_str("tag").cloned(),
            output_type: values.get_str("output_type").cloned(),
            include: values.get_str("include").cloned(),
        }
    }

    /// Reads a file without its includes. Errors have no location; load the file to get it.
    pub(super) fn read(file: &TaskFile) -> Result<Self, Error> {
        let bytes = if file.regular { read_regular(&file.real).map(Cow::Owned) } else { read(&file.real) };
        let bytes = bytes.map_err(|error| unreadable(&file.path, error))?;
        let loader = yaml::Loader { functions: true, ..yaml::Loader::default() };
        match loader.load_bytes(&bytes).map_err(|error| Error::new(ErrorKind::Yaml, error.to_string()))?.value
        {
            Value::Dict(values) => Ok(Self::of(&values)),
            other => {
                let message = format!("The file contains {} instead of a mapping", other.type_name());
                Err(Error::new(ErrorKind::Type, message))
            }
        }
    }

    /// Whether the file itself defines neither a task nor a group.
    pub(super) fn is_template(&self) -> bool {
        self.task.is_none() && self.group.is_none() && !self.class
    }

    /// Overlays the values of `other`.
    fn update(&mut self, other: &Self) {
        let set = |mine: &mut Option<Value>, theirs: &Option<Value>| {
            if theirs.is_some() {
                mine.clone_from(theirs);
            }
        };
        set(&mut self.task, &other.task);
        set(&mut self.group, &other.group);
        set(&mut self.tag, &other.tag);
        set(&mut self.output_type, &other.output_type);
        set(&mut self.include, &other.include);
        self.class |= other.class;
    }
}

/// Facts of files by real path, or the error for a file that cannot be read.
#[derive(Default)]
pub(super) struct Known {
    facts: FxHashMap<Arc<Path>, Arc<Result<Facts, Error>>>,
    /// Other paths under which files are included, with their real paths.
    aliases: FxHashMap<PathBuf, Arc<Path>>,
}

impl Known {
    pub(super) fn insert(&mut self, real: Arc<Path>, facts: Arc<Result<Facts, Error>>) {
        self.facts.insert(real, facts);
    }

    pub(super) fn insert_alias(&mut self, path: PathBuf, real: Arc<Path>) {
        self.aliases.insert(path, real);
    }

    pub(super) fn get(&self, real: &Path) -> Option<&Result<Facts, Error>> {
        self.facts.get(real).map(AsRef::as_ref)
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.facts.contains_key(path) || self.aliases.contains_key(path)
    }

    /// The paths that a file includes, as written, without those already known. Invalid `include` values include
    /// nothing here and fail when they are merged.
    pub(super) fn missing(&self, real: &Path) -> Vec<PathBuf> {
        let Some(Ok(facts)) = self.get(real) else { return Vec::new() };
        if facts.group.is_some() {
            return Vec::new();
        }
        let names = include_names(facts.include.as_ref()).unwrap_or_default();
        names.iter().map(|name| normalise(&beside(real, name))).filter(|path| !self.contains(path)).collect()
    }

    /// The facts of a file overlaid on those of its includes, by the rules of the loader.
    pub(super) fn merged(&self, facts: &Facts, real: &Path) -> Result<Facts, Error> {
        self.merge(facts, real, &mut vec![real.to_owned()], 0)
    }

    fn merge(
        &self,
        facts: &Facts,
        real: &Path,
        visited: &mut Vec<PathBuf>,
        depth: usize,
    ) -> Result<Facts, Error> {
        if facts.group.is_some() || facts.include.is_none() {
            return Ok(facts.clone());
        }
        let mut result = Facts::default();
        for name in include_names(facts.include.as_ref())? {
            let path = normalise(&beside(real, &name));
            let path = self.aliases.get(&path).map_or(path, |real| real.to_path_buf());
            if visited.contains(&path) || depth >= MAX_INCLUDE_DEPTH {
                return Err(Error::new(ErrorKind::Cycle, format!("Include cycle at `{}`", path.display())));
            }
            visited.push(path.clone());
            let included = match self.get(&path) {
                Some(Ok(included)) => included,
                Some(Err(error)) => return Err(Error::new(error.kind(), error.to_string())),
                None => {
                    return Err(Error::new(ErrorKind::Io, format!("`{}` cannot be read", path.display())));
                }
            };
            result.update(&self.merge(included, &path, visited, depth + 1)?);
        }
        let mut own = facts.clone();
        own.include = None;
        result.update(&own);
        Ok(result)
    }
}
