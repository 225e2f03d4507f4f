//! Splits, and the dataset that maps names to them.

use std::ops::Range;
use std::sync::Arc;

use lmeval_pycompat::Dict;

use crate::cell::{leave_stored, media_columns};
use crate::error::Error;
use crate::source::Source;
use crate::types::Schema;

/// The rows of a split, read on demand. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Split {
    shared: Arc<SplitFiles>,
}

#[derive(Debug)]
struct SplitFiles {
    schema: Arc<Schema>,
    columns: Vec<String>,
    /// The columns with images or sounds.
    media: Vec<Arc<Schema>>,
    parts: Vec<FileRows>,
    /// The end row of each part (exclusive).
    ends: Vec<u64>,
}

/// Rows of one file.
#[derive(Clone, Debug)]
struct FileRows {
    source: Arc<dyn Source>,
    start: u64,
    length: u64,
}

impl Split {
    pub(crate) fn new(schema: Arc<Schema>, sources: Vec<Arc<dyn Source>>) -> Self {
        let part = |source: Arc<dyn Source>| FileRows { start: 0, length: source.len(), source };
        Self::from_parts(schema, sources.into_iter().map(part).collect())
    }

    fn from_parts(schema: Arc<Schema>, parts: Vec<FileRows>) -> Self {
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.length;
            end
        });
        let ends = ends.collect();
        let columns = schema.columns.iter().map(|(name, _)| name.to_string()).collect();
        let media = media_columns(&schema);
        Self { shared: Arc::new(SplitFiles { schema, columns, media, parts, ends }) }
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.shared.ends.last().copied().unwrap_or(0)
    }

    /// Whether the split has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column names, in the order of every row.
    pub fn columns(&self) -> &[String] {
        &self.shared.columns
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.shared.schema
    }

    /// The row at an index, or `None` if the index is not below [`Split::len`]. Its images and sounds are read from the file
    /// when they are needed.
    pub fn get(&self, index: u64) -> Option<Result<Dict, Error>> {
        let SplitFiles { schema, media, parts, ends, .. } = &*self.shared;
        let part_index = ends.partition_point(|end| *end <= index);
        let part = parts.get(part_index)?;
        let before = ends[part_index] - part.length;
        let index = part.start + index - before;
        Some(part.source.row(index, schema).map(|mut row| {
            leave_stored(&mut row, media, &part.source, index);
            row
        }))
    }

    /// Iterates over all rows in order.
    pub fn iter(&self) -> Rows {
        self.range(0..self.len())
    }

    /// Iterates over a range of rows.
    pub fn range(&self, range: Range<u64>) -> Rows {
        Rows { split: self.clone(), next: range.start, end: range.end.min(self.len()) }
    }

    /// A split of a range of rows.
    pub fn slice(&self, range: Range<u64>) -> Self {
        let mut parts = Vec::new();
        let mut before = 0;
        for part in &self.shared.parts {
            let from = range.start.clamp(before, before + part.length) - before;
            let to = range.end.clamp(before, before + part.length) - before;
            if from < to {
                parts.push(FileRows {
                    source: part.source.clone(),
                    start: part.start + from,
                    length: to - from,
                });
            }
            before += part.length;
        }
        Self::from_parts(self.shared.schema.clone(), parts)
    }

    /// Concatenates splits of one dataset.
    pub(crate) fn concatenate(splits: &[Self]) -> Option<Self> {
        let schema = splits.first()?.shared.schema.clone();
        let parts = splits.iter().flat_map(|split| split.shared.parts.iter().cloned()).collect();
        Some(Self::from_parts(schema, parts))
    }
}

impl IntoIterator for &Split {
    type Item = Result<Dict, Error>;
    type IntoIter = Rows;

    fn into_iter(self) -> Rows {
        self.iter()
    }
}

/// An iterator that reads one row at a time.
#[derive(Clone, Debug)]
pub struct Rows {
    split: Split,
    next: u64,
    end: u64,
}

impl Iterator for Rows {
    type Item = Result<Dict, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let row = self.split.get(self.next)?;
        self.next += 1;
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.end.saturating_sub(self.next)).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Rows {}

/// The splits of a dataset by name, in order.
#[derive(Clone, Debug, Default)]
pub struct DatasetDict {
    splits: Vec<(String, Split)>,
}

impl DatasetDict {
    pub(crate) fn new(splits: Vec<(String, Split)>) -> Self {
        Self { splits }
    }

    /// The split with a name, spelled as in the request.
    pub fn get(&self, name: &str) -> Option<&Split> {
        self.splits.iter().find(|(known, _)| known == name).map(|(_, split)| split)
    }

    /// The names in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.splits.iter().map(|(name, _)| name.as_str())
    }

    /// Iterates over names and splits in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Split)> {
        self.splits.iter().map(|(name, split)| (name.as_str(), split))
    }

    /// The number of splits.
    pub fn len(&self) -> usize {
        self.splits.len()
    }

    /// Whether the dataset has no splits.
    pub fn is_empty(&self) -> bool {
        self.splits.is_empty()
    }
}
