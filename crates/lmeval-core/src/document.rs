//! Documents and the splits that contain them.

use std::fmt::{self, Debug};
use std::sync::Arc;

use lmeval_pycompat::Dict;

/// The error of a document or split that could not be loaded.
pub type DocumentError = Box<dyn std::error::Error + Send + Sync>;

/// The index of a document in its split, which identifies it in requests and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocId(pub usize);

impl fmt::Display for DocId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The documents of one split, loaded on demand.
pub trait Documents: Debug + Send + Sync {
    /// The number of documents.
    fn len(&self) -> usize;

    /// Whether there are no documents.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column names, in the key order of the documents.
    fn columns(&self) -> &[String];

    /// The document at an index below [`Documents::len`].
    fn get(&self, index: usize) -> Result<Arc<Dict>, DocumentError>;

    /// The column types in the notation of the `datasets` library, if known, as in
    /// `{"_type": "ClassLabel", "names": ["no", "yes"]}`.
    fn features(&self) -> Option<Dict> {
        None
    }
}

/// The splits of a dataset.
pub trait Splits: Debug + Send + Sync {
    /// The documents of one split.
    fn split(&self, name: &str) -> Result<Arc<dyn Documents>, DocumentError>;
}

/// The error of a document index past the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no document {index}: the split has {length}")]
pub struct NoSuchDocument {
    /// The requested index.
    pub index: usize,
    /// The number of documents.
    pub length: usize,
}

/// The error of a split that the dataset does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("There is no split `{name}`; available splits: {}", quoted(available))]
pub struct NoSuchSplit {
    /// The requested split.
    pub name: String,
    /// The splits of the dataset.
    pub available: Vec<String>,
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Documents held in memory.
///
/// ```
/// use lmeval_core::{Documents, MemoryDocuments};
/// use lmeval_pycompat::{Dict, Value};
///
/// let document: Dict = [(Value::str("q"), Value::str("Why?"))].into_iter().collect();
/// let documents = MemoryDocuments::new(vec![document]);
/// assert_eq!(documents.columns(), ["q"]);
/// assert_eq!(documents.get(0).unwrap().get_str("q"), Some(&Value::str("Why?")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryDocuments {
    columns: Vec<String>,
    documents: Vec<Arc<Dict>>,
}

impl MemoryDocuments {
    /// Takes the column names from the keys of the first document, as for a list of Python dictionaries.
    pub fn new(documents: Vec<Dict>) -> Self {
        let columns = documents.first().map_or_else(Vec::new, |first| {
            first.keys().filter_map(|key| key.as_str()).map(str::to_owned).collect()
        });
        Self { columns, documents: documents.into_iter().map(Arc::new).collect() }
    }

    /// Documents with the given column names.
    pub fn with_columns(columns: Vec<String>, documents: Vec<Arc<Dict>>) -> Self {
        Self { columns, documents }
    }
}

impl Documents for MemoryDocuments {
    fn len(&self) -> usize {
        self.documents.len()
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn get(&self, index: usize) -> Result<Arc<Dict>, DocumentError> {
        let missing = NoSuchDocument { index, length: self.documents.len() };
        self.documents.get(index).cloned().ok_or_else(|| missing.into())
    }
}

/// Splits held in memory.
#[derive(Clone, Debug, Default)]
pub struct MemorySplits {
    splits: Vec<(String, Arc<dyn Documents>)>,
}

impl MemorySplits {
    /// A dataset without splits; add them using [`MemorySplits::with`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a split, replacing one of the same name.
    pub fn with(mut self, name: impl Into<String>, documents: impl Documents + 'static) -> Self {
        let name = name.into();
        self.splits.retain(|(known, _)| *known != name);
        self.splits.push((name, Arc::new(documents)));
        self
    }
}

impl Splits for MemorySplits {
    fn split(&self, name: &str) -> Result<Arc<dyn Documents>, DocumentError> {
        let found = self.splits.iter().find(|(known, _)| known == name);
        found.map(|(_, documents)| Arc::clone(documents)).ok_or_else(|| {
            let available = self.splits.iter().map(|(known, _)| known.clone()).collect();
            NoSuchSplit { name: name.to_owned(), available }.into()
        })
    }
}
