//! Selects the documents to evaluate.

use std::collections::BTreeSet;
use std::sync::Arc;

use lmeval_core::{DocId, Documents};
use lmeval_pycompat::Function;

use super::error::{PromptError, PromptErrorKind};
use super::options::{RequestOptions, RequestSources, Shard};
use crate::Task;
use crate::config::TaskConfig;

/// The documents of a split, after `process_docs`.
pub(crate) fn split_documents(
    split: &str,
    process: Option<&Function>,
    sources: &RequestSources,
) -> Result<Arc<dyn Documents>, PromptError> {
    let documents = sources.splits.split(split).map_err(|error| {
        let message = format!("Cannot get the split `{split}`: {error}");
        PromptError::new(PromptErrorKind::Documents, message).including_cause(error)
    })?;
    match process {
        None => Ok(documents),
        Some(function) => sources
            .host
            .process_documents(function, documents)
            .map_err(|error| PromptError::host(error).in_field("process_docs")),
    }
}

/// The documents of one of the task's splits, if it has it.
pub(crate) fn documents_of(
    config: &TaskConfig,
    split: Option<&str>,
    sources: &RequestSources,
) -> Result<Option<Arc<dyn Documents>>, PromptError> {
    split.map(|split| split_documents(split, config.process_docs.as_deref(), sources)).transpose()
}

/// The documents that a method of the task's class returns.
pub(crate) fn class_documents(
    function: &Function,
    sources: &RequestSources,
) -> Result<Arc<dyn Documents>, PromptError> {
    sources.host.documents(function).map_err(PromptError::host)
}

/// The documents to evaluate: those of the task's class, otherwise the test split, otherwise the validation split.
pub(crate) fn evaluated_documents(
    task: &Task,
    sources: &RequestSources,
) -> Result<Arc<dyn Documents>, PromptError> {
    let none = || {
        PromptError::new(PromptErrorKind::Documents, "There are no documents to evaluate")
            .hint("A task needs `test_split` or `validation_split`, and documents in that split")
    };
    if let Some(function) = task.class_task().and_then(|class| class.eval_docs.as_ref()) {
        let documents = class_documents(function, sources)?;
        return if documents.is_empty() { Err(none()) } else { Ok(documents) };
    }
    let config = &task.config;
    if let Some(test) = documents_of(config, config.test_split.as_deref(), sources)?
        && !test.is_empty()
    {
        return Ok(test);
    }
    let validation = documents_of(config, config.validation_split.as_deref(), sources)?;
    validation.filter(|documents| !documents.is_empty()).ok_or_else(none)
}

/// The selected documents, in evaluation order.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// Every `step`th document from `next` to `end`.
    Range { next: usize, end: usize, step: usize },
    /// Document ids, as requests show them, with their positions.
    Chosen(std::vec::IntoIter<(DocId, usize)>),
}

impl Selection {
    /// Selects from `length` documents.
    pub(crate) fn new(length: usize, options: &RequestOptions) -> Result<Self, PromptError> {
        let Shard { rank, world_size } = options.shard;
        let step = world_size.max(1);
        match options.samples.as_deref() {
            None | Some([]) => {
                let end = options.limit.map_or(Ok(length), |limit| count(limit, length))?;
                Ok(Self::Range { next: rank, end, step })
            }
            Some(_) if options.limit.is_some() => Err(PromptError::new(
                PromptErrorKind::Selection,
                "`limit` and `samples` cannot be used together",
            )),
            Some(samples) => {
                let keep_ids = options.true_ids || options.dialect.chosen_documents_keep_ids;
                let chosen = positions(samples, length)?;
                let number = |(ordinal, index)| (DocId(if keep_ids { index } else { ordinal }), index);
                let numbered: Vec<(DocId, usize)> =
                    chosen.into_iter().enumerate().map(number).skip(rank).step_by(step).collect();
                Ok(Self::Chosen(numbered.into_iter()))
            }
        }
    }

    /// The number of documents left.
    pub(crate) fn remaining(&self) -> usize {
        match self {
            Self::Range { next, end, step } => end.saturating_sub(*next).div_ceil(*step),
            Self::Chosen(chosen) => chosen.len(),
        }
    }
}

impl Iterator for Selection {
    type Item = (DocId, usize);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Range { next, end, step } => {
                let index = *next;
                (index < *end).then(|| {
                    *next = index.saturating_add(*step);
                    (DocId(index), index)
                })
            }
            Self::Chosen(chosen) => chosen.next(),
        }
    }
}

/// The number of documents that a limit means.
fn count(limit: f64, length: usize) -> Result<usize, PromptError> {
    let wanted = if limit < 1.0 { (limit * length as f64).ceil() } else { limit.trunc() };
    if wanted >= 1.0 {
        // The cast saturates.
        return Ok((wanted as usize).min(length));
    }
    Err(PromptError::new(PromptErrorKind::Selection, format!("The limit {limit} selects no documents"))
        .hint("A limit is a number of documents, or a fraction between 0 and 1"))
}

/// The selected positions, sorted and without duplicates.
fn positions(samples: &[i64], length: usize) -> Result<Vec<usize>, PromptError> {
    if let Some(beyond) = samples.iter().find(|&&sample| sample >= length as i64) {
        let message = format!("There is no document {beyond}: there are {length}");
        return Err(PromptError::new(PromptErrorKind::Selection, message)
            .hint(format!("Document indices go from 0 to {}", length.saturating_sub(1))));
    }
    // Reference: negative indices match nothing.
    let distinct: BTreeSet<usize> =
        samples.iter().filter_map(|&sample| usize::try_from(sample).ok()).collect();
    Ok(distinct.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use lmeval_core::Dialect;

    use super::*;

    fn chosen(length: usize, options: &RequestOptions) -> Vec<(usize, usize)> {
        let selection = Selection::new(length, options).unwrap();
        let remaining = selection.remaining();
        let chosen: Vec<(usize, usize)> = selection.map(|(id, index)| (id.0, index)).collect();
        assert_eq!(chosen.len(), remaining);
        chosen
    }

    fn limited(length: usize, limit: f64) -> usize {
        chosen(length, &RequestOptions { limit: Some(limit), ..RequestOptions::default() }).len()
    }

    #[test]
    fn limits_are_counts_or_fractions() {
        assert_eq!(limited(10, 2.9), 2);
        assert_eq!(limited(10, 1.0), 1);
        assert_eq!(limited(10, 0.25), 3);
        assert_eq!(limited(10, 0.001), 1);
        assert_eq!(limited(10, 1e30), 10);
        for limit in [0.0, -1.0, f64::NAN] {
            let options = RequestOptions { limit: Some(limit), ..RequestOptions::default() };
            assert!(Selection::new(10, &options).is_err(), "{limit}");
        }
    }

    #[test]
    fn shards_share_the_limit() {
        let shard = |rank| RequestOptions {
            limit: Some(3.0),
            shard: Shard { rank, world_size: 2 },
            ..RequestOptions::default()
        };
        assert_eq!(chosen(10, &shard(0)), [(0, 0), (2, 2)]);
        assert_eq!(chosen(10, &shard(1)), [(1, 1)]);
        assert_eq!(chosen(1, &shard(1)), []);
    }

    #[test]
    fn samples_are_sorted_and_distinct() {
        let options =
            |samples: &[i64]| RequestOptions { samples: Some(samples.to_vec()), ..RequestOptions::default() };
        assert_eq!(chosen(5, &options(&[3, 1, -2, 3])), [(1, 1), (3, 3)]);
        assert_eq!(chosen(2, &options(&[])), [(0, 0), (1, 1)]);
        assert!(Selection::new(5, &options(&[5])).is_err());
        let old = RequestOptions { dialect: Dialect::V04, ..options(&[3, 1]) };
        assert_eq!(chosen(5, &old), [(0, 1), (1, 3)]);
        assert_eq!(chosen(5, &RequestOptions { true_ids: true, ..old }), [(1, 1), (3, 3)]);
        let both = RequestOptions { limit: Some(1.0), ..options(&[1]) };
        assert!(Selection::new(5, &both).is_err());
        let second = RequestOptions { shard: Shard { rank: 1, world_size: 2 }, ..options(&[4, 2, 0]) };
        assert_eq!(chosen(5, &second), [(2, 2)]);
    }
}
