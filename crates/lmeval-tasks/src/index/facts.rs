//! What the index needs to know of a file: a few top-level keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind};
use crate::source::{MAX_INCLUDE_DEPTH, beside, identity, include_names, parse};

/// The top-level values of one file that decide its place in the index.
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
    /// The facts of a mapping.
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

    /// Reads a file, and nothing that it includes.
    pub(super) fn read(path: &Path, real: &Path) -> Result<Self, Error> {
        Ok(Self::of(&parse(path, real)?.values))
    }

    /// Whether the file defines nothing by itself.
    pub(super) fn is_template(&self) -> bool {
        self.task.is_none() && self.group.is_none() && !self.class
    }

    /// Sets what `other` has over what is here.
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

/// Facts of files by their real path; a file that cannot be read is there with the reason.
pub(super) type FactsByPath = FxHashMap<PathBuf, Arc<Result<Facts, Error>>>;

/// The files that a file includes, by their real paths; wrong `include` values include nothing here and fail
/// when they are merged.
pub(super) fn included_paths(facts: &Facts, real: &Path) -> Vec<PathBuf> {
    if facts.group.is_some() {
        return Vec::new();
    }
    let names = include_names(facts.include.as_ref()).unwrap_or_default();
    names.iter().map(|name| identity(&beside(real, name))).collect()
}

/// The facts of a file with those of its includes under them, by the rules of the loader.
pub(super) fn merged(facts: &Facts, real: &Path, known: &FactsByPath) -> Result<Facts, Error> {
    let mut visited = vec![real.to_owned()];
    merge(facts, real, known, &mut visited, 0)
}

fn merge(
    facts: &Facts,
    real: &Path,
    known: &FactsByPath,
    visited: &mut Vec<PathBuf>,
    depth: usize,
) -> Result<Facts, Error> {
    if facts.group.is_some() || facts.include.is_none() {
        return Ok(facts.clone());
    }
    let names = include_names(facts.include.as_ref())?;
    let mut result = Facts::default();
    for name in names {
        let path = identity(&beside(real, &name));
        if visited.contains(&path) || depth >= MAX_INCLUDE_DEPTH {
            return Err(Error::new(ErrorKind::Cycle, format!("Include cycle at `{}`", path.display())));
        }
        visited.push(path.clone());
        let included = match known.get(&path).map(AsRef::as_ref) {
            Some(Ok(included)) => included,
            Some(Err(error)) => return Err(Error::new(error.kind(), error.to_string())),
            None => return Err(Error::new(ErrorKind::Io, format!("`{}` cannot be read", path.display()))),
        };
        result.update(&merge(included, &path, known, visited, depth + 1)?);
    }
    let mut own = facts.clone();
    own.include = None;
    result.update(&own);
    Ok(result)
}
