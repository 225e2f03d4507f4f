//! The stored scores of documents, for comparing them with new ones.

use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::read::{Fields, MetricNames, NOT_SCORES, lines, number, parse_blocks};

use super::line::{Problem, fields_of};

/// The stored scores of one filter pipeline, by document.
#[derive(Debug, Default)]
pub struct StoredScores {
    filter: String,
    /// The documents. Sorted and distinct once the file is read.
    documents: Vec<u32>,
    /// The offset of each document's line.
    offsets: Vec<u64>,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    metric: Arc<str>,
    /// A value per document, NaN where it has none; `None` if the metric has values other than numbers.
    values: Option<Vec<f64>>,
}

impl StoredScores {
    /// Reads the scores of all pipelines of a samples file.
    pub fn read(path: &Path) -> Result<Vec<Self>, Error> {
        let (mut all, mut line) = (Vec::new(), 0);
        let parse = |block: &[u8], start| {
            let (mut scores, mut names) = (Vec::new(), MetricNames::default());
            let mut count = 0;
            for (offset, bytes) in lines(block, start) {
                count += 1;
                match fields_of(bytes) {
                    Ok(Some(fields)) => Self::add(&mut scores, &fields, offset, &mut names),
                    Ok(None) => {}
                    Err(problem) => return (count, Err(problem)),
                }
            }
            (count, Ok(scores))
        };
        parse_blocks(path, parse, |(count, part): (usize, Result<Vec<Self>, Problem>)| {
            line += count;
            Self::append(&mut all, part.map_err(|problem| problem.diagnostic(path, line))?);
            Ok(())
        })?;
        all.iter_mut().for_each(Self::sort);
        Ok(all)
    }

    /// The name of the pipeline.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// The row of a document. `near` is where it would be if no document was missing before it.
    pub fn row(&self, document: usize, near: usize) -> Option<usize> {
        let document = u32::try_from(document).ok()?;
        if self.documents.get(near) == Some(&document) {
            return Some(near);
        }
        self.documents.binary_search(&document).ok()
    }

    /// The offset of the line that a row comes from.
    pub fn offset(&self, row: usize) -> u64 {
        self.offsets[row]
    }

    /// The values of a metric, one per row; `None` if they are not numbers.
    pub fn values(&self, metric: &str) -> Option<&[f64]> {
        self.columns.iter().find(|column| *column.metric == *metric)?.values.as_deref()
    }

    /// Adds the scores of a line to those of its pipeline. A line without `doc_id` cannot be compared.
    pub(super) fn add(all: &mut Vec<Self>, fields: &Fields<'_>, offset: u64, names: &mut MetricNames) {
        let Some(document) = fields.raw("doc_id").and_then(|raw| raw.parse().ok()) else { return };
        let filter = fields.text("filter").unwrap_or("none".into());
        let own = of_filter(all, &filter);
        let before = own.documents.len();
        own.documents.push(document);
        own.offsets.push(offset);
        match fields.raw("metrics").and_then(|raw| names.read(raw)) {
            Some(names) => {
                // A document can lack a metric that others have.
                let raw = |name: &Arc<str>| fields.raw(name).map_or(Some(f64::NAN), number);
                names.iter().for_each(|name| own.push(name, before, raw(name)));
            }
            None => {
                let scores = fields.iter().filter(|(name, _)| !NOT_SCORES.contains(name));
                scores.for_each(|(name, raw)| own.push(name, before, number(raw)));
            }
        }
        own.fill(before + 1);
    }

    /// Sets the value of a metric in the row after the first `before` ones.
    fn push(&mut self, metric: &str, before: usize, value: Option<f64>) {
        let column = self.column(metric, before);
        match value {
            Some(value) => {
                if let Some(values) = column.values.as_mut().filter(|values| values.len() == before) {
                    values.push(value);
                }
            }
            None => column.values = None,
        }
    }

    fn column(&mut self, metric: &str, rows: usize) -> &mut Column {
        let position = self.columns.iter().position(|column| *column.metric == *metric);
        let position = position.unwrap_or_else(|| {
            self.columns.push(Column { metric: metric.into(), values: Some(vec![f64::NAN; rows]) });
            self.columns.len() - 1
        });
        &mut self.columns[position]
    }

    /// Gives every column this many rows.
    fn fill(&mut self, rows: usize) {
        for values in self.columns.iter_mut().filter_map(|column| column.values.as_mut()) {
            values.resize(rows, f64::NAN);
        }
    }

    /// Appends the scores of a later part of a file.
    pub(super) fn append(all: &mut Vec<Self>, part: Vec<Self>) {
        for mut later in part {
            let own = of_filter(all, &later.filter);
            let before = own.documents.len();
            own.documents.append(&mut later.documents);
            own.offsets.append(&mut later.offsets);
            for Column { metric, values } in later.columns {
                let column = own.column(&metric, before);
                match (&mut column.values, values) {
                    (Some(all), Some(mut values)) => all.append(&mut values),
                    (all, _) => *all = None,
                }
            }
            own.fill(own.documents.len());
        }
    }

    /// Sorts rows by document; of several rows of one document, the last one stays.
    pub(super) fn sort(&mut self) {
        if self.documents.is_sorted_by(|one, next| one < next) {
            return;
        }
        let mut order: Vec<usize> = (0..self.documents.len()).rev().collect();
        order.sort_by_key(|row| self.documents[*row]);
        order.dedup_by_key(|row| self.documents[*row]);
        self.documents = order.iter().map(|row| self.documents[*row]).collect();
        self.offsets = order.iter().map(|row| self.offsets[*row]).collect();
        for values in self.columns.iter_mut().filter_map(|column| column.values.as_mut()) {
            *values = order.iter().map(|row| values[*row]).collect();
        }
    }
}

fn of_filter<'a>(all: &'a mut Vec<StoredScores>, filter: &str) -> &'a mut StoredScores {
    // Samples of a pipeline follow each other, so the last one is nearly always right.
    let position = all.iter().rposition(|scores| scores.filter == filter).unwrap_or_else(|| {
        all.push(StoredScores { filter: filter.to_owned(), ..StoredScores::default() });
        all.len() - 1
    });
    &mut all[position]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(lines: &[&str]) -> Vec<StoredScores> {
        let mut all = Vec::new();
        let mut names = MetricNames::default();
        for (index, line) in lines.iter().enumerate() {
            let fields = Fields::parse(line).expect("an object");
            let mut part = Vec::new();
            StoredScores::add(&mut part, &fields, index as u64, &mut names);
            StoredScores::append(&mut all, part);
        }
        all.iter_mut().for_each(StoredScores::sort);
        all
    }

    #[test]
    fn sorts_documents_and_keeps_the_last_of_duplicates() {
        let all = scores(&[
            r#"{"doc_id": 4, "filter": "a", "metrics": ["acc"], "acc": 1}"#,
            r#"{"doc_id": 2, "filter": "b", "metrics": ["acc", "bleu"], "acc": 0.5, "bleu": ["x", "y"]}"#,
            r#"{"doc_id": 1, "filter": "a", "metrics": ["acc", "late"], "acc": 0, "late": 3}"#,
            r#"{"doc_id": 4, "filter": "a", "metrics": ["late"], "late": 7}"#,
            r#"{"doc_hash": "without an id", "filter": "a", "acc": 0}"#,
        ]);
        let [a, b] = all.as_slice() else { panic!("two pipelines: {all:?}") };
        assert_eq!((a.filter(), &a.documents[..], &a.offsets[..]), ("a", &[1, 4][..], &[2, 3][..]));
        assert_eq!((a.row(4, 1), a.row(4, 9), a.row(1, 1), a.row(2, 0)), (Some(1), Some(1), Some(0), None));
        let acc = a.values("acc").expect("numbers");
        assert!(acc[0] == 0.0 && acc[1].is_nan());
        assert_eq!(a.values("late"), Some(&[3.0, 7.0][..]));
        assert_eq!((b.values("acc"), b.values("bleu")), (Some(&[0.5][..]), None));
    }

    #[test]
    fn fields_are_scores_where_no_metrics_are_named() {
        let all = scores(&[r#"{"doc_id": 0, "target": 3, "acc": true, "note": "x"}"#]);
        assert_eq!((all[0].filter(), all[0].values("acc")), ("none", Some(&[1.0][..])));
        assert_eq!((all[0].values("target"), all[0].values("note")), (None, None));
    }
}
