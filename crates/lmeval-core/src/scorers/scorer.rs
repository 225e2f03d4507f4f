//! The scorer trait.

use std::fmt::Debug;

use lmeval_pycompat::Value;
use rayon::prelude::*;

use super::aggregate::Aggregated;
use super::answered::AnsweredDocument;
use super::error::ScoreError;
use super::input::ScoringInput;
use super::needs::Needs;
use super::scored::{ReducedDoc, ScoredDoc, Scores};
use super::spec::MetricSpec;
use crate::OutputType;
use crate::filters::FilterSpec;
use crate::groups::Directions;

/// From filtered answers to the values of metrics.
///
/// There are three ways to write one, each with more to say than the one before.
///
/// Defaults only: which filters and metrics a task gets that names none. Everything else is inherited.
///
/// ```
/// use lmeval_core::filters::FilterSpec;
/// use lmeval_core::scorers::{MetricSpec, Scorer};
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
/// use lmeval_core::scorers::{MetricSpec, ScoreError, Scorer, Scores, ScoringInput};
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
/// Whole batch: all documents at once, for judges that are asked in batches.
///
/// ```
/// use lmeval_core::scorers::{ScoreError, ScoredDoc, Scorer, ScoringInput};
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
///         let verdicts = ask_in_one_batch(inputs);
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
/// fn ask_in_one_batch(inputs: &[ScoringInput<'_>]) -> Vec<bool> {
///     vec![true; inputs.len()]
/// }
/// ```
pub trait Scorer: Debug + Send + Sync {
    /// The name used in `scorer:`.
    fn name(&self) -> &str;

    /// The filters of a pipeline that names none; `None` leaves answers as they are.
    fn default_filters(&self) -> Option<Vec<FilterSpec>> {
        None
    }

    /// The metrics of a pipeline that names none; `None` means those of the output type.
    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        None
    }

    /// Whether the values of every document are those of the metrics; unless a scorer says otherwise, they may not be.
    fn scores_by_metrics(&self) -> bool {
        false
    }

    /// What the scorer looks at beside targets and answers; unless it scores by metrics alone, that may be everything.
    ///
    /// A scorer that says it needs less than it reads finds empty documents and prompts where samples are not logged. One
    /// that does not need documents together is called for some at a time, and its [`Scorer::reduce`] and
    /// [`Scorer::higher_is_better`] are not called.
    fn needs(&self) -> Needs {
        if self.scores_by_metrics() { Needs { together: true, ..Needs::NOTHING } } else { Needs::EVERYTHING }
    }

    /// What takes the place of the pipeline's filters: for each request of each document what becomes of its answers,
    /// a list or an answer that stands for itself. `None` leaves it to the filters.
    fn apply_filter(
        &self,
        documents: &[AnsweredDocument],
        output_type: OutputType,
    ) -> Result<Option<Vec<Value>>, ScoreError> {
        let _ = (documents, output_type);
        Ok(None)
    }

    /// The values of one document; the metrics of the pipeline, unless said otherwise.
    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        input.metric_scores()
    }

    /// The values of all documents, in their order; [`Scorer::score`] of each, unless said otherwise.
    fn score_documents(&self, inputs: &[ScoringInput<'_>]) -> Result<Vec<ScoredDoc>, ScoreError> {
        score_each(self, inputs)
    }

    /// The values of each document after reduction, in their order; `None` leaves that to the metrics' reductions.
    fn reduce(&self, scored: &[ScoredDoc]) -> Result<Option<Vec<ReducedDoc>>, ScoreError> {
        let _ = scored;
        Ok(None)
    }

    /// The scores and standard errors of all documents; `None` leaves them to the metrics' aggregations.
    fn aggregate(
        &self,
        reduced: &[ReducedDoc],
        bootstrap_iters: i64,
    ) -> Result<Option<Aggregated>, ScoreError> {
        let _ = (reduced, bootstrap_iters);
        Ok(None)
    }

    /// For each metric whether higher is better; `None` leaves that to the metrics.
    fn higher_is_better(&self, reduced: &[ReducedDoc]) -> Result<Option<Directions>, ScoreError> {
        let _ = reduced;
        Ok(None)
    }
}

/// [`Scorer::score`] of each document.
pub(super) fn score_each<S: Scorer + ?Sized>(
    scorer: &S,
    inputs: &[ScoringInput<'_>],
) -> Result<Vec<ScoredDoc>, ScoreError> {
    let scored = inputs.par_iter().map(|input| {
        Ok(ScoredDoc {
            doc_id: input.doc_id(),
            reference: input.reference()?.clone(),
            scores: scorer.score(input)?,
        })
    });
    scored.collect()
}
