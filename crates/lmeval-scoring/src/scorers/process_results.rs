//! Values computed by `process_results`.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::answered::AnsweredDocument;
use super::error::ScoreError;
use super::metric::{PipelineMetric, text_keys};
use super::pipeline::ScoringPipeline;
use super::scored::{ScoredDoc, Scores};
use super::task_code::TaskCode;
use lmeval_core::RequestType;

impl ScoringPipeline {
    /// Calls `process_results` for all documents; `None` leaves scoring to the metrics.
    pub(super) fn process_results(
        &self,
        documents: &[AnsweredDocument],
        code: &dyn TaskCode,
    ) -> Result<Option<Vec<ScoredDoc>>, ScoreError> {
        let calls: Vec<(Arc<Dict>, Vec<Value>)> = documents
            .iter()
            .enumerate()
            .map(|(index, document)| (Arc::clone(&document.document), self.results(index, document)))
            .collect();
        let Some((first, others)) = calls.split_first() else { return Ok(Some(Vec::new())) };
        let Some(of_first) = code.process_results(&first.0, &first.1)? else { return Ok(None) };
        let mut scored = Vec::with_capacity(documents.len());
        let mut given = std::iter::once(Some(of_first)).chain(code.process_many(others)?);
        for (index, document) in documents.iter().enumerate() {
            let values = given.next().flatten().ok_or(ScoreError::NoValues { document: document.doc_id })?;
            let answers = calls[index].1.len();
            let repeats = self.filtered(index).first().map_or(1, Vec::len);
            scored.push(self.split_result(document, &values, answers, repeats)?);
        }
        Ok(Some(scored))
    }

    /// The filtered answers to all requests of a document, as `process_results` receives them.
    fn results(&self, index: usize, document: &AnsweredDocument) -> Vec<Value> {
        let mut results = Vec::new();
        for (answer, filtered) in document.answers.iter().zip(self.filtered(index)) {
            let rolling = answer.instance.request_type == RequestType::LoglikelihoodRolling;
            let item = |response: &Value| match response {
                Value::Tuple(pair) if rolling && self.dialect.scoring.rolling_answers_are_numbers => {
                    pair.first().cloned().unwrap_or_default()
                }
                other => other.clone(),
            };
            let items = filtered.iter().map(item);
            if self.dialect.scoring.results_per_request && !self.takes_first() {
                results.push(Value::list(items));
            } else {
                results.extend(items);
            }
        }
        results
    }

    /// Splits the result for one document: a list with one item per repeat, or with exactly one item, holds values
    /// per repeat; anything else is a single value.
    fn split_result(
        &self,
        document: &AnsweredDocument,
        values: &Dict,
        answers: usize,
        repeats: usize,
    ) -> Result<ScoredDoc, ScoreError> {
        let first = document.answers.first();
        let mut scores = Scores::new();
        for (name, value) in text_keys(values, document.doc_id)? {
            let by_task = answers <= document.answers.len()
                && self.metric_of(&name).is_some_and(PipelineMetric::is_aggregated_by_task);
            let values = match value {
                Value::List(items) if [1, repeats].contains(&items.len()) && !by_task => items.to_vec(),
                value => vec![value],
            };
            scores.insert(name, values);
        }
        Ok(ScoredDoc {
            doc_id: document.doc_id,
            reference: first.map(|first| first.instance.gold.clone()).unwrap_or_default(),
            scores,
        })
    }
}
