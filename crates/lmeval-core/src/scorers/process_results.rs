//! Values that the task itself gives.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::answered::AnsweredDocument;
use super::error::ScoreError;
use super::metric::{PipelineMetric, text_keys};
use super::pipeline::ScoringPipeline;
use super::scored::{ScoredDoc, Scores};
use super::task_code::TaskCode;
use crate::instance::RequestType;

impl ScoringPipeline {
    /// The values that `process_results` gives, or `None` where it leaves scoring to the metrics.
    pub(super) fn process_results(
        &self,
        documents: &[AnsweredDocument],
        code: &dyn TaskCode,
    ) -> Result<Option<Vec<ScoredDoc>>, ScoreError> {
        let calls: Vec<(Arc<Dict>, Vec<Value>)> = documents
            .iter()
            .enumerate()
            .map(|(place, document)| (Arc::clone(&document.document), self.results(place, document)))
            .collect();
        let Some((first, others)) = calls.split_first() else { return Ok(Some(Vec::new())) };
        let Some(of_first) = code.process_results(&first.0, &first.1)? else { return Ok(None) };
        let mut scored = Vec::with_capacity(documents.len());
        let mut given = std::iter::once(Some(of_first)).chain(code.process_many(others)?);
        for (place, document) in documents.iter().enumerate() {
            let values = given.next().flatten().ok_or(ScoreError::NoValues { document: document.doc_id })?;
            let answers = calls[place].1.len();
            let repeats = self.filtered(place).first().map_or(1, Vec::len);
            scored.push(self.delivered(document, &values, answers, repeats)?);
        }
        Ok(Some(scored))
    }

    /// The filtered answers to all requests of a document, as `process_results` gets them.
    fn results(&self, place: usize, document: &AnsweredDocument) -> Vec<Value> {
        let mut results = Vec::new();
        for (answer, filtered) in document.answers.iter().zip(self.filtered(place)) {
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

    /// The values of one document: a list with a value for each repeat, or for all of them, is that, all else is one value.
    fn delivered(
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
