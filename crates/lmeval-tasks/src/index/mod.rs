//! The index of tasks, groups and tags, with the files that define them.

mod facts;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_pycompat::Value;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use self::facts::{Facts, Known};
use self::walk::TaskFile;
use crate::error::{Error, ErrorKind};
use crate::source::Identities;

/// The kind of an index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A task written in YAML.
    Task,
    /// A task whose YAML names a Python class.
    PythonTask,
    /// Several tasks or groups with aggregated scores.
    Group,
    /// A name that selects several tasks.
    Tag,
}

impl Kind {
    /// The name in messages and listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::PythonTask => "python task",
            Self::Group => "group",
            Self::Tag => "tag",
        }
    }
}

/// A named task, group or tag.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Whether it is a task, a group or a tag.
    pub kind: Kind,
    /// The file that defines it; `None` for a tag.
    pub path: Option<Arc<Path>>,
    /// The value of `output_type` after includes, if it is set.
    pub output_type: Option<Arc<str>>,
    /// For a tag, the names of its tasks, otherwise the names of its tags; sorted.
    pub tags: Vec<Arc<str>>,
}

/// A file that could not be indexed, and why.
#[derive(Debug)]
pub struct Problem {
    /// The file that was skipped.
    pub path: Arc<Path>,
    /// Why it was skipped.
    pub error: Error,
    template: bool,
}

impl Problem {
    /// Whether the file is valid but defines nothing: it exists to be included.
    pub fn is_template(&self) -> bool {
        self.template
    }
}

/// A name that two files define.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The name that is defined twice.
    pub name: Arc<str>,
    /// The file whose definition is used.
    pub used: Option<Arc<Path>>,
    /// The file whose definition is ignored.
    pub ignored: Option<Arc<Path>>,
    /// Whether the files are in different roots, of which the later wins; within one root the first wins.
    pub across_roots: bool,
}

/// All names defined in the library roots.
#[derive(Debug, Default)]
pub struct Index {
    entries: FxHashMap<Arc<str>, Entry>,
    problems: Vec<Problem>,
    duplicates: Vec<Duplicate>,
}

impl Index {
    /// Reads the roots in order; names of later roots replace those of earlier ones.
    pub fn build<P: AsRef<Path>>(roots: &[P]) -> Self {
        let mut index = Self::default();
        for root in roots {
            let one = Self::of_root(root.as_ref());
            index.problems.extend(one.problems);
            index.duplicates.extend(one.duplicates);
            for (name, entry) in one.entries {
                let used = entry.path.clone();
                if let Some(old) = index.entries.insert(Arc::clone(&name), entry) {
                    index.duplicates.push(Duplicate { name, used, ignored: old.path, across_roots: true });
                }
            }
        }
        index.duplicates.sort_by(|left, right| left.name.cmp(&right.name));
        index
    }

    fn of_root(root: &Path) -> Self {
        let found = walk::task_files(root);
        let read: Vec<Read> =
            found.par_iter().with_min_len(32).map(|file| Arc::new(Facts::read(file))).collect();
        let known = with_includes(&found, &read);
        let mut index = Self::default();
        // In chunks, so that the facts of all files are never in memory twice.
        for (files, facts) in found.chunks(1024).zip(read.chunks(1024)) {
            let merged: Vec<Result<Facts, Error>> = files
                .par_iter()
                .zip(facts)
                .map(|(file, facts)| match facts.as_ref() {
                    Ok(facts) => known.merged(facts, &file.real),
                    Err(error) => Err(Error::new(error.kind(), error.message())),
                })
                .collect();
            for (file, facts) in files.iter().zip(merged) {
                let template = facts.as_ref().is_ok_and(Facts::is_template);
                if let Err(error) = facts.and_then(|facts| index.register(&facts, &file.path)) {
                    index.problems.push(Problem { path: Arc::clone(&file.path), error, template });
                }
            }
        }
        for entry in index.entries.values_mut() {
            entry.tags.sort_unstable();
            entry.tags.dedup();
        }
        index
    }

    /// Adds the definition in one file.
    fn register(&mut self, facts: &Facts, path: &Arc<Path>) -> Result<(), Error> {
        let (kind, name) = kind_and_name(facts)?;
        let tags = tag_names(facts.tag.as_ref())?;
        let path = Arc::clone(path);
        if let Some(first) = self.entries.get(&name) {
            let used = first.path.clone();
            self.duplicates.push(Duplicate { name, used, ignored: Some(path), across_roots: false });
            return Ok(());
        }
        let output_type = match &facts.output_type {
            Some(Value::Str(output_type)) => Some(Arc::clone(output_type)),
            _ => None,
        };
        let entry = Entry { kind, path: Some(path), output_type, tags: tags.clone() };
        self.entries.insert(Arc::clone(&name), entry);
        if kind == Kind::Group {
            return Ok(());
        }
        for tag in tags {
            let entry = self.entries.entry(tag).or_insert_with(|| Entry {
                kind: Kind::Tag,
                path: None,
                output_type: None,
                tags: Vec::new(),
            });
            entry.tags.push(Arc::clone(&name));
        }
        Ok(())
    }

    /// Looks up a name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// All names with their entries, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (&**name, entry))
    }

    /// The names of the given kinds, sorted.
    pub fn names(&self, kinds: &[Kind]) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.iter().filter(|(_, entry)| kinds.contains(&entry.kind)).map(|(name, _)| name).collect();
        names.par_sort_unstable();
        names
    }

    /// The number of names, of all kinds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no file defines anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Files that could not be indexed.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Names defined by more than one file.
    pub fn duplicates(&self) -> &[Duplicate] {
        &self.duplicates
    }
}

/// The facts of a file, or why it cannot be read.
type Read = Arc<Result<Facts, Error>>;

/// The files found and everything they include, directly or indirectly.
fn with_includes(found: &[TaskFile], read: &[Read]) -> Known {
    let mut known = Known::default();
    let identities = Identities::default();
    for (file, facts) in found.iter().zip(read) {
        identities.know(&file.real);
        known.insert(Arc::clone(&file.real), Arc::clone(facts));
    }
    let mut fresh: Vec<Arc<Path>> = found.iter().map(|file| Arc::clone(&file.real)).collect();
    while !fresh.is_empty() {
        let missing: Vec<Vec<PathBuf>> =
            fresh.par_iter().with_min_len(32).map(|path| known.missing(path)).collect();
        let distinct: FxHashSet<PathBuf> = missing.into_iter().flatten().collect();
        let read: Vec<(PathBuf, Arc<Path>, Read)> = distinct
            .into_par_iter()
            .map(|path| {
                let real: Arc<Path> = identities.of(&path).into();
                let facts = Arc::new(Facts::read(&TaskFile {
                    path: Arc::clone(&real),
                    real: Arc::clone(&real),
                    regular: false,
                }));
                (path, real, facts)
            })
            .collect();
        fresh.clear();
        for (path, real, facts) in read {
            if path != *real {
                known.insert_alias(path, Arc::clone(&real));
            }
            if !known.contains(&real) {
                known.insert(Arc::clone(&real), facts);
                fresh.push(real);
            }
        }
    }
    known
}

/// The kind of a mapping, judging by its keys, and its name in the index.
fn kind_and_name(facts: &Facts) -> Result<(Kind, Arc<str>), Error> {
    let (kind, key, value) = if facts.class {
        (Kind::PythonTask, "task", &facts.task)
    } else if facts.group.is_some() {
        (Kind::Group, "group", &facts.group)
    } else if facts.task.is_some() {
        (Kind::Task, "task", &facts.task)
    } else {
        return Err(Error::new(
            ErrorKind::Value,
            "The file has none of the keys `task`, `group` and `class`",
        ));
    };
    match value {
        Some(Value::Str(name)) if kind == Kind::Group => Ok((kind, Arc::clone(name))),
        Some(Value::Str(name)) => match name.split_once('@') {
            Some((name, _)) => Ok((kind, name.into())),
            None => Ok((kind, Arc::clone(name))),
        },
        Some(other) => {
            Err(Error::new(ErrorKind::Type, format!("`{key}` must be a str, not {}", other.type_name())))
        }
        None => Err(Error::new(ErrorKind::Type, "A file with `class` must have a `task` name")),
    }
}

/// The names in a `tag` value.
fn tag_names(tag: Option<&Value>) -> Result<Vec<Arc<str>>, Error> {
    let wrong = |value: &Value| {
        Error::new(
            ErrorKind::Type,
            format!("`tag` must be a str or a list of strs, not {}", value.type_name()),
        )
    };
    match tag {
        None | Some(Value::None) => Ok(Vec::new()),
        Some(Value::Str(tag)) if tag.is_empty() => Ok(Vec::new()),
        Some(Value::Str(tag)) => Ok(vec![Arc::clone(tag)]),
        Some(Value::List(tags)) => tags
            .iter()
            .map(|tag| match tag {
                Value::Str(tag) => Ok(Arc::clone(tag)),
                other => Err(wrong(other)),
            })
            .collect(),
        Some(other) => Err(wrong(other)),
    }
}
