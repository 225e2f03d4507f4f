//! The locations of the parts of a value.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A position in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The line, from 0.
    pub line: u32,
    /// The column in characters, from 0.
    pub column: u32,
    /// The offset in bytes of UTF-8; in the decoded string if the file was UTF-16.
    pub offset: usize,
}

impl fmt::Display for Position {
    /// `line 3, column 5`, both from 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", u64::from(self.line) + 1, u64::from(self.column) + 1)
    }
}

/// A range of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where it starts.
    pub start: Position,
    /// The offset in bytes where it ends.
    pub end: usize,
}

impl Span {
    /// The range of byte offsets.
    pub fn range(self) -> Range<usize> {
        self.start.offset..self.end
    }
}

/// The location of an entry or an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The key of a mapping entry; `None` for items of sequences and for the document.
    pub key: Option<Span>,
    /// The value. For an alias, this is the value that the anchor names.
    pub value: Span,
}

/// One step on a path into a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Into the value of a string key, or of another scalar key that Python prints this way.
    Key(&'a str),
    /// Into an item of a list, from 0.
    Index(usize),
}

impl<'a> From<&'a str> for Segment<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Segment<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The locations of a document's entries and items.
///
/// ```
/// use lmeval_pycompat::yaml::{self, Segment};
///
/// let text = "task: demo\nlist:\n- a: 1\n- a: 2\n";
/// let loaded = yaml::load(text)?;
/// let mark = loaded.marks.find(&["list".into(), 1.into(), "a".into()]).unwrap();
/// assert_eq!(mark.key.unwrap().start.to_string(), "line 4, column 3");
/// assert_eq!(&text[mark.value.range()], "2");
/// # Ok::<(), yaml::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Marks {
    nodes: Vec<Node>,
    root: Option<u32>,
}

/// The children of a node; shared because merged entries appear in several mappings.
#[derive(Clone, Debug)]
pub(super) enum Below {
    Nothing,
    Items(Vec<u32>),
    /// Keys that are scalars, in source order, with the nodes of key and value. Later ones win.
    Entries(Vec<(KeyName, u32, u32)>),
}

/// The form in which a key is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyName {
    /// A string key.
    Text(Arc<str>),
    /// Another scalar, as Python prints it.
    Other(Arc<str>),
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) below: Below,
}

impl Marks {
    pub(super) fn new(nodes: Vec<Node>, root: u32) -> Self {
        Self { nodes, root: Some(root) }
    }

    /// The location of the value at a path; `None` if there is none. The empty path is the document.
    pub fn find(&self, path: &[Segment<'_>]) -> Option<Mark> {
        let mut node = self.root?;
        let mut key = None;
        for segment in path {
            (key, node) = match (segment, &self.node(node)?.below) {
                (Segment::Index(index), Below::Items(items)) => (None, *items.get(*index)?),
                (Segment::Key(name), Below::Entries(entries)) => {
                    let text = |entry: &&(KeyName, u32, u32)| matches!(&entry.0, KeyName::Text(key) if **key == **name);
                    let other = |entry: &&(KeyName, u32, u32)| matches!(&entry.0, KeyName::Other(key) if **key == **name);
                    let entries = || entries.iter().rev();
                    let (_, key, value) = entries().find(text).or_else(|| entries().find(other))?;
                    (Some(*key), *value)
                }
                _ => return None,
            };
        }
        let key = match key {
            Some(key) => Some(self.node(key)?.span),
            None => None,
        };
        Some(Mark { key, value: self.node(node)?.span })
    }

    /// The keys that a mapping of the source has more than once, in source order, with their later locations. Entries
    /// merged by `<<` do not count: the mapping's own replace them on purpose.
    ///
    /// ```
    /// let loaded = lmeval_pycompat::yaml::load("a: 1\nb: {c: 2, c: 3}\na: 4\n")?;
    /// let repeated: Vec<_> = loaded.marks.repeated_keys().into_iter().map(|(key, span)| (key, span.start.line)).collect();
    /// assert_eq!(repeated, [("c".into(), 1), ("a".into(), 2)]);
    /// # Ok::<(), lmeval_pycompat::yaml::Error>(())
    /// ```
    pub fn repeated_keys(&self) -> Vec<(Arc<str>, Span)> {
        let mut repeated: Vec<(Arc<str>, Span)> = Vec::new();
        for node in &self.nodes {
            let Below::Entries(entries) = &node.below else { continue };
            let mut seen: Vec<&KeyName> = Vec::with_capacity(entries.len());
            for (name, key, _) in entries {
                let Some(key) =
                    self.node(*key).filter(|key| node.span.range().contains(&key.span.start.offset))
                else {
                    continue;
                };
                if seen.contains(&name) {
                    let (KeyName::Text(text) | KeyName::Other(text)) = name;
                    repeated.push((Arc::clone(text), key.span));
                }
                seen.push(name);
            }
        }
        repeated.sort_by_key(|(_, span)| span.start.offset);
        repeated.dedup();
        repeated
    }

    fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(id as usize)
    }
}
