//! The scorer trait.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};
use rayon::prelude::*;

use super::aggregate::Aggregated;
use super::answered::AnsweredDocument;
use super::error::ScoreError;
use super::input::ScoringInput;
use super::needs::Needs;
use super::scored::{ReducedDoc, ScoredDoc, Scores};
use super::spec::MetricSpec;
use crate::filters::FilterSpec;
use crate::groups::Directions;
use crate::judge::{JudgeCall, JudgeSpec};
use lmeval_core::OutputType;
use lmeval_core::guarded;

/// Turns filtered answers into the values of metrics.
///
/// A scorer can be written at three levels, each with more control than the previous one.
///
/// Defaults only: the filters and metrics of tasks that do not name any. Everything else is inherited.
///
/// ```
/// use lmeval_scoring::filters::FilterSpec;
/// use lmeval_scoring::scorers::{MetricSpec, Scorer};
///
/// #[derive(Debug)]
/// struct LastNumber;
///
/// impl Scorer for LastNumber {
///     fn name(&self) -> &str {
///         "last_number"
///     }
///
///     fn default_filters(&self) -> Option<Vec<FilterSpec>> {
///         Some(vec![FilterSpec::named("regex").with("regex_pattern", r"-?\d+").with("group_select", -1_i64)])
///     }
///
///     fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
///         Some(vec![MetricSpec::named("exact_match")])
///     }
/// }
/// ```
///
/// Per document: values for one document at a time, one list per metric with one value per answer. Documents are
/// scored in parallel.
///
/// ```
/// use lmeval_scoring::scorers::{MetricSpec, ScoreError, Scorer, Scores, ScoringInput};
/// use lmeval_pycompat::Value;
///
/// #[derive(Debug)]
/// struct Length;
///
/// impl Scorer for Length {
///     fn name(&self) -> &str {
///         "length"
///     }
///
///     fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
///         let lengths = input.predictions()?.iter().map(|answer| {
///             Value::Int(answer.as_str().map_or(0, |text| text.chars().count() as i64))
///         });
///         Ok([("length", lengths.collect())].into_iter().collect())
///     }
/// }
/// ```
///
/// Batch: all documents at once, for judges that are queried in batches.
///
/// ```
/// use lmeval_scoring::scorers::{ScoreError, ScoredDoc, Scorer, ScoringInput};
/// use lmeval_pycompat::Value;
///
/// #[derive(Debug)]
/// struct Judge;
///
/// impl Scorer for Judge {
///     fn name(&self) -> &str {
///         "judge"
///     }
///
///     fn score_documents(&self, inputs: &[ScoringInput<'_>]) -> Result<Vec<ScoredDoc>, ScoreError> {
///         let verdicts = query_in_one_batch(inputs);
///         let scored = inputs.iter().zip(verdicts).map(|(input, verdict)| {
///             Ok(ScoredDoc {
///                 doc_id: input.doc_id(),
///                 reference: input.reference()?.clone(),
///                 scores: [("judge", vec![Value::Bool(verdict)])].into_iter().collect(),
///             })
///         });
///         scored.collect()
///     }
/// }
///
/// fn query_in_one_batch(inputs: &[ScoringInput<'_>]) -> Vec<bool> {
///     vec![true; inputs.len()]
/// }
/// ```
pub trait Scorer: Debug + Send + Sync {
    /// The name used in `scorer:`.
    fn name(&self) -> &str;

    /// The filters of a pipeline that does not name any; `None` leaves answers unchanged.
    fn default_filters(&self) -> Option<Vec<FilterSpec>> {
        None
    }

    /// The metrics of a pipeline that does not name any; `None` selects those of the output type.
    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        None
    }

    /// Whether every document's values come from the pipeline's metrics.
    fn scores_by_metrics(&self) -> bool {
        false
    }

    /// The parts of documents the scorer reads besides targets and answers. The default is everything, unless it
    /// scores by metrics alone.
    ///
    /// A scorer that declares less than it reads gets empty documents and prompts if samples are not logged. One that
    /// does not need documents together is called for a block at a time, and its [`Scorer::reduce`] and
    /// [`Scorer::higher_is_better`] are not called.
    fn needs(&self) -> Needs {
        if self.scores_by_metrics() { Needs { together: true, ..Needs::NOTHING } } else { Needs::EVERYTHING }
    }

    /// The values that the scorer computes besides those of metrics, and whether higher is better. The mean aggregates
    /// them.
    fn delivered(&self) -> Vec<(Arc<str>, bool)> {
        Vec::new()
    }

    /// How documents are judged, if the scorer needs judgements.
    fn judge(&self) -> Option<&Arc<JudgeSpec>> {
        None
    }

    /// The questions to judges about one document. A run asks them as soon as the document is answered; scoring finds the
    /// outcome in [`AnsweredDocument::judgements`]. `baseline` is the answer to compare with.
    fn judge_calls(
        &self,
        input: &ScoringInput<'_>,
        baseline: Option<&str>,
    ) -> Result<Vec<JudgeCall>, ScoreError> {
        let _ = (input, baseline);
        Ok(Vec::new())
    }

    /// Statistics about the judgements of all documents, for the results.
    fn diagnostics(&self, pipeline: &str, documents: &[AnsweredDocument]) -> Option<Dict> {
        let _ = (pipeline, documents);
        None
    }

    /// Replaces the pipeline's filters: returns one item per request of each document, either a list of answers or a
    /// single unwrapped one. `None` uses the pipeline's filters.
    fn apply_filter(
        &self,
        documents: &[AnsweredDocument],
        output_type: OutputType,
    ) -> Result<Option<Vec<Value>>, ScoreError> {
        let _ = (documents, output_type);
        Ok(None)
    }

    /// Scores one document. Defaults to the pipeline's metrics.
    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        input.metric_scores()
    }

    /// Scores all documents, in order. Defaults to [`Scorer::score`] for each.
    fn score_documents(&self, inputs: &[ScoringInput<'_>]) -> Result<Vec<ScoredDoc>, ScoreError> {
        score_each(self, inputs)
    }

    /// Reduces the repeats of each document, in order; `None` uses the metrics' reductions.
    fn reduce(&self, scored: &[ScoredDoc]) -> Result<Option<Vec<ReducedDoc>>, ScoreError> {
        let _ = scored;
        Ok(None)
    }

    /// Aggregates all documents into scores and standard errors; `None` uses the metrics' aggregations.
    fn aggregate(
        &self,
        reduced: &[ReducedDoc],
        bootstrap_iters: i64,
    ) -> Result<Option<Aggregated>, ScoreError> {
        let _ = (reduced, bootstrap_iters);
        Ok(None)
    }

    /// Whether higher is better, by metric; `None` uses the metrics' own directions.
    fn higher_is_better(&self, reduced: &[ReducedDoc]) -> Result<Option<Directions>, ScoreError> {
        let _ = reduced;
        Ok(None)
    }
}

/// Calls [`Scorer::score`] for each document in parallel.
pub(super) fn score_each<S: Scorer + ?Sized>(
    scorer: &S,
    inputs: &[ScoringInput<'_>],
) -> Result<Vec<ScoredDoc>, ScoreError> {
    let scored = inputs.par_iter().map(|input| {
        Ok(ScoredDoc {
            doc_id: input.doc_id(),
            reference: input.reference()?.clone(),
            scores: guarded(|| scorer.score(input))
                .unwrap_or_else(|message| Err(ScoreError::Panic { document: input.doc_id(), message }))?,
        })
    });
    scored.collect()
}
