//! A mapping that records the origin of its keys.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_pycompat::repr::repr;
use lmeval_pycompat::yaml::{Marks, Segment};
use lmeval_pycompat::{Dict, Value};
use rustc_hash::FxHashMap;

use crate::error::Location;

/// A YAML file with the position of every key and item.
pub struct SourceFile {
    path: Arc<Path>,
    real_path: PathBuf,
    text: Arc<str>,
    marks: Marks,
}

impl SourceFile {
    /// A file with the positions that the loader recorded; `real_path` has symbolic links resolved.
    pub fn new(path: PathBuf, real_path: PathBuf, text: &str, marks: Marks) -> Self {
        Self { path: path.into(), real_path, text: with_plain_line_ends(text).into(), marks }
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path with symbolic links resolved; includes and functions are relative to it.
    pub fn real_path(&self) -> &Path {
        &self.real_path
    }

    /// The content of the file. Every line break of YAML is a line feed at the same offset.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The keys that a mapping of the file has more than once, with the location of each later one.
    pub fn repeated_keys(&self) -> impl Iterator<Item = (Arc<str>, Location)> + '_ {
        let repeated = self.marks.repeated_keys().into_iter();
        repeated.map(|(key, span)| (key, self.location(span.range(), span.start.line as usize + 1)))
    }

    /// A location in the file.
    pub fn location(&self, range: Range<usize>, line: usize) -> Location {
        Location::new(Arc::clone(&self.path), Arc::clone(&self.text), range, line)
    }
}

/// Replaces the line breaks that only YAML recognises by line feeds. Offsets stay the same: spaces pad the difference
/// in length.
fn with_plain_line_ends(text: &str) -> Cow<'_, str> {
    const OTHERS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];
    if !text.contains(OTHERS) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => plain.push('\r'),
            '\r' => plain.push('\n'),
            '\u{85}' => plain.push_str(" \n"),
            '\u{2028}' | '\u{2029}' => plain.push_str("  \n"),
            other => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceFile").field(&self.path).finish()
    }
}

/// One step on the path from the root of a mapping to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into the value of a key.
    Key(Arc<str>),
    /// Into an item of a list.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.into())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl Step {
    fn segment(&self) -> Segment<'_> {
        match self {
            Self::Key(key) => Segment::Key(key),
            Self::Index(index) => Segment::Index(*index),
        }
    }
}

/// The origin of a key.
#[derive(Clone, Debug)]
pub enum Origin {
    /// In a file, below `prefix` (empty for the top level).
    File {
        /// Locates the key.
        file: Arc<SourceFile>,
        /// The path from the root of the file to the mapping with the key.
        prefix: Arc<[Step]>,
    },
    /// Given inline by a caller.
    Inline,
    /// Overridden by the caller.
    Override,
    /// Set by a prompt format.
    Format(Arc<str>),
}

/// A mapping merged from files, inline values and overrides: the raw form of a task or group.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    values: Dict,
    origins: FxHashMap<Arc<str>, Origin>,
}

impl Mapping {
    /// Creates an empty mapping.
    pub fn new() -> Self {
        Self::default()
    }

    /// A mapping with the entries of a dictionary, all of one origin.
    pub fn from_dict(values: Dict, origin: &Origin) -> Self {
        let origins = values
            .keys()
            .map(|key| match key {
                Value::Str(key) => (Arc::clone(key), origin.clone()),
                // Such a key is always unknown, but the error message needs its location.
                other => (repr(other).into(), origin.clone()),
            })
            .collect();
        Self { values, origins }
    }

    /// The entries without their origins.
    pub fn values(&self) -> &Dict {
        &self.values
    }

    /// The value of a key, which may be null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get_str(key)
    }

    /// Whether the key is present, even if it is null.
    pub fn contains(&self, key: &str) -> bool {
        self.values.contains_str(key)
    }

    /// Sets a key and its origin.
    pub fn insert(&mut self, key: &str, value: impl Into<Value>, origin: Origin) {
        let key: Arc<str> = key.into();
        self.origins.insert(Arc::clone(&key), origin);
        self.values.insert(Value::Str(key), value.into());
    }

    /// Removes a key, and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.origins.remove(key);
        self.values.remove_str(key)
    }

    /// Overlays `other`, values and origins; existing keys stay in their position.
    pub fn update(&mut self, other: &Self) {
        self.values.update(&other.values);
        for (key, origin) in &other.origins {
            self.origins.insert(Arc::clone(key), origin.clone());
        }
    }

    /// The files that the keys come from, each once.
    pub fn files(&self) -> Vec<&Arc<SourceFile>> {
        let mut files: Vec<&Arc<SourceFile>> = Vec::new();
        for key in self.values.keys().filter_map(Value::as_str) {
            if let Some(Origin::File { file, .. }) = self.origin(key)
                && !files.iter().any(|known| Arc::ptr_eq(known, file))
            {
                files.push(file);
            }
        }
        files
    }

    /// The origin of a key.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// The location of a value, given the steps from this mapping; if it is unknown, the location of the nearest
    /// enclosing value.
    pub fn locate(&self, steps: &[Step]) -> Option<Location> {
        let Some(Step::Key(first)) = steps.first() else { return None };
        let Some(Origin::File { file, prefix }) = self.origins.get(first) else { return None };
        let segments: Vec<Segment<'_>> = prefix.iter().chain(steps).map(Step::segment).collect();
        (0..segments.len()).rev().find_map(|last| {
            let mark = file.marks.find(&segments[..=last])?;
            let span = mark.key.unwrap_or(mark.value);
            let range = span.start.offset..mark.value.end.max(span.end);
            Some(file.location(range, span.start.line as usize + 1))
        })
    }
}
