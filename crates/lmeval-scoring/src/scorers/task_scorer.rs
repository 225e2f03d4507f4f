//! All pipelines of a task.

use std::sync::Arc;

use lmeval_metrics::AnyAggregation;
use lmeval_pycompat::Dict;

use super::aggregate::Aggregated;
use super::answered::AnsweredDocument;
use super::documents::AnsweredDocuments;
use super::error::ScoreError;
use super::metric::MetricAggregation;
use super::needs::Needs;
use super::pipeline::ScoringPipeline;
use super::reduce::merge_reduced;
use super::scored::ReducedDoc;
use super::task_code::TaskCode;
use crate::groups::Directions;
use crate::judge::{JudgeCall, JudgeSpec, Judges};
use crate::results::{Audit, SampleRecord, sample_records};
use lmeval_core::Dialect;
use lmeval_core::OutputType;

/// The reduced values of each document, by pipeline.
pub type Exported = Vec<(Arc<str>, Vec<ReducedDoc>)>;

/// The state of a pipeline: the values of its documents, and the metrics that value names belong to.
pub type Restored = (Vec<ReducedDoc>, Vec<(Arc<str>, usize)>);

/// The pipelines of a task, and the task code that replaces their metrics, if any.
#[derive(Debug)]
pub struct TaskScorer {
    pipelines: Vec<ScoringPipeline>,
    code: Option<Arc<dyn TaskCode>>,
    output_type: OutputType,
    dialect: Dialect,
    /// The counts of documents scored in earlier blocks, of which only the values are kept.
    earlier: Audit,
}

impl TaskScorer {
    /// Combines the pipelines of a task.
    pub fn new(pipelines: Vec<ScoringPipeline>, output_type: OutputType, dialect: Dialect) -> Self {
        Self { pipelines, code: None, output_type, dialect, earlier: Audit::default() }
    }

    /// Sets the task code.
    pub fn with_code(mut self, code: Option<Arc<dyn TaskCode>>) -> Self {
        self.code = code;
        self
    }

    /// Sets keyword arguments passed to every metric, overriding its configuration.
    pub fn with_context(mut self, context: &Dict) -> Self {
        for pipeline in &mut self.pipelines {
            pipeline.set_context(context.clone());
        }
        self
    }

    /// Gives scorers the judges of the run.
    pub fn set_judges(&mut self, judges: &Arc<dyn Judges>) {
        self.pipelines.iter_mut().for_each(|pipeline| pipeline.set_judges(judges));
    }

    /// How documents are judged, by pipeline; empty if no scorer needs judgements.
    pub fn judges(&self) -> impl Iterator<Item = &Arc<JudgeSpec>> {
        self.pipelines.iter().filter_map(ScoringPipeline::judge)
    }

    /// The first pipeline that needs judgements but has a filter for all documents together.
    pub fn filters_together(&self) -> Option<&Arc<str>> {
        let judged = self.pipelines.iter().filter(|pipeline| pipeline.judge().is_some());
        judged.filter(|pipeline| !pipeline.filters_per_request()).map(ScoringPipeline::name).next()
    }

    /// The questions to judges about one document. `baseline` looks up the answer to compare with, by pipeline.
    pub fn judge_calls<'b>(
        &mut self,
        document: &AnsweredDocument,
        baseline: impl Fn(&str) -> Option<&'b str>,
    ) -> Result<Vec<JudgeCall>, ScoreError> {
        self.filter(std::slice::from_ref(document))?;
        let mut calls = Vec::new();
        for (index, pipeline) in self.pipelines.iter().enumerate() {
            // If two pipelines have the same name, both score the answers filtered by the later one.
            let is_last = !self.pipelines[index + 1..].iter().any(|later| later.name() == pipeline.name());
            if is_last && pipeline.judge().is_some() {
                calls.extend(pipeline.judge_calls(document, baseline(pipeline.name()))?);
            }
        }
        Ok(calls)
    }

    /// Statistics about the judgements of all documents, by pipeline.
    pub fn diagnostics(&self, documents: &[AnsweredDocument]) -> Vec<(Arc<str>, Dict)> {
        let of_pipeline = |pipeline: &ScoringPipeline| {
            let dict = pipeline.scorer().diagnostics(pipeline.name(), documents)?;
            Some((Arc::clone(pipeline.name()), dict))
        };
        self.pipelines.iter().filter_map(of_pipeline).collect()
    }

    /// The pipelines in the order of `filter_list`.
    pub fn pipelines(&self) -> &[ScoringPipeline] {
        &self.pipelines
    }

    /// The combined needs of scoring; other parts may be empty if no records ([`TaskScorer::samples`]) are built.
    ///
    /// A million documents retained for nothing can take a gigabyte.
    pub fn needs(&self) -> Needs {
        let by_code = Needs { together: true, ..Needs::NOTHING };
        let code = self.code.as_ref().map_or(Needs::NOTHING, |code| code.needs() | by_code);
        self.pipelines.iter().map(ScoringPipeline::needs).fold(code, |all, needs| all | needs)
    }

    /// The metrics of generations whose score exists only for the complete corpus, with their aggregations.
    pub fn corpus_aggregations(&self) -> Vec<(Arc<str>, Arc<dyn AnyAggregation>)> {
        // The values of task code need not come from targets.
        let pipelines = self.pipelines.iter().filter(|_| self.code.is_none());
        let metrics = pipelines.flat_map(ScoringPipeline::metrics).filter(|metric| metric.needs_corpus);
        metrics
            .filter_map(|metric| match &metric.aggregation {
                MetricAggregation::Registered(used) => Some((Arc::clone(&metric.name), Arc::clone(used))),
                MetricAggregation::Host(_) => None,
            })
            .collect()
    }

    /// Whether scoring calls Python functions of the task.
    pub fn calls_task_code(&self) -> bool {
        self.code.is_some() || self.pipelines.iter().any(ScoringPipeline::calls_task_code)
    }

    /// Copies the reduced values by pipeline, to be merged in another process; pipelines without documents are
    /// omitted.
    pub fn export_reduced(&self) -> Exported {
        let filled = self.pipelines.iter().filter(|pipeline| !pipeline.reduced_docs().is_empty());
        filled.map(|pipeline| (Arc::clone(pipeline.name()), pipeline.export_reduced())).collect()
    }

    /// Merges the values that several processes exported, in process order.
    pub fn import_reduced(&mut self, ranks: &[Exported]) {
        for pipeline in &mut self.pipelines {
            let of_pipeline = ranks.iter().flatten().filter(|(name, _)| name == pipeline.name());
            pipeline.import_reduced(merge_reduced(of_pipeline.map(|(_, documents)| documents.clone())));
        }
    }

    /// Restores the values of each pipeline and the owners of their names, so that they can be aggregated without
    /// scoring again.
    pub fn restore(&mut self, pipelines: impl IntoIterator<Item = Restored>) {
        for (pipeline, (documents, owners)) in self.pipelines.iter_mut().zip(pipelines) {
            pipeline.restore(documents, owners);
        }
    }

    /// Applies the filters of all pipelines to the answers of all documents, without scoring.
    pub fn apply_filters(&mut self, documents: &[AnsweredDocument]) -> Result<(), ScoreError> {
        let answered = AnsweredDocuments::new(documents);
        for pipeline in &mut self.pipelines {
            let filtered = pipeline.apply_filters(&answered)?;
            pipeline.set_filtered(filtered);
        }
        Ok(())
    }

    /// Filters, scores and reduces the answers of all documents.
    ///
    /// All filters run before any scoring. If two pipelines have the same name, both score the answers filtered by
    /// the later one.
    pub fn score(&mut self, documents: &[AnsweredDocument]) -> Result<(), ScoreError> {
        self.filter(documents)?;
        for pipeline in &mut self.pipelines {
            pipeline.score(documents, self.code.as_ref())?;
        }
        Ok(())
    }

    /// Scores the next block of a task's documents and keeps only their values.
    ///
    /// For tasks whose scoring does not need documents together ([`Needs::together`]). Counts for
    /// [`TaskScorer::audit`] are updated here; these documents have no sample records.
    pub fn score_next(&mut self, documents: &[AnsweredDocument]) -> Result<(), ScoreError> {
        self.earlier = self.earlier + Audit::of_answers(documents, self.output_type);
        self.filter(documents)?;
        self.pipelines.iter_mut().try_for_each(|pipeline| pipeline.score_next(documents))
    }

    /// Sets the filtered answers of each pipeline.
    fn filter(&mut self, documents: &[AnsweredDocument]) -> Result<(), ScoreError> {
        let answered = AnsweredDocuments::new(documents);
        let filtered = self
            .pipelines
            .iter()
            .map(|pipeline| pipeline.apply_filters(&answered))
            .collect::<Result<Vec<_>, _>>()?;
        let last_of = |name: &Arc<str>| self.pipelines.iter().rposition(|pipeline| pipeline.name() == name);
        let used: Vec<usize> = self
            .pipelines
            .iter()
            .enumerate()
            .map(|(index, own)| last_of(own.name()).unwrap_or(index))
            .collect();
        for (pipeline, used) in self.pipelines.iter_mut().zip(used) {
            pipeline.set_filtered(Arc::clone(&filtered[used]));
        }
        Ok(())
    }

    /// Calls metrics that are task functions for a single document, so that a run finds out early if they fail or
    /// return values that cannot be aggregated.
    ///
    /// [`TaskScorer::score`] reuses the values and does not call the functions for this document again.
    pub fn check_first(&mut self, document: &AnsweredDocument) -> Result<(), ScoreError> {
        if self.code.is_some() {
            return Ok(());
        }
        for index in 0..self.pipelines.len() {
            let (pipeline, later) = (&self.pipelines[index], &self.pipelines[index + 1..]);
            // If two pipelines have the same name, both score the answers filtered by the later one.
            let is_last = !later.iter().any(|later| later.name() == pipeline.name());
            if is_last && pipeline.may_produce_unsupported_values() {
                self.pipelines[index].check_first(document)?;
            }
        }
        Ok(())
    }

    /// Aggregates the scores of all pipelines.
    pub fn aggregate(&self, bootstrap_iters: i64) -> Result<Aggregated, ScoreError> {
        let mut aggregated = Aggregated::default();
        for pipeline in &self.pipelines {
            aggregated.merge(pipeline.aggregate(bootstrap_iters, self.code.as_ref())?);
        }
        Ok(aggregated)
    }

    /// Whether higher is better, for each metric of all pipelines; task code takes precedence.
    pub fn higher_is_better(&self) -> Directions {
        if let Some(directions) = self.code.as_ref().and_then(|code| code.higher_is_better()) {
            return directions;
        }
        let mut directions = Directions::new();
        for pipeline in &self.pipelines {
            for (metric, direction) in pipeline.higher_is_better().iter() {
                directions.insert(Arc::clone(metric), *direction);
            }
        }
        directions
    }

    /// Counts of suspicious answers by pipeline, over the given documents and all those passed to
    /// [`TaskScorer::score_next`].
    pub fn audit(&self, documents: &[AnsweredDocument]) -> Vec<(Arc<str>, Audit)> {
        let of_answers = self.earlier + Audit::of_answers(documents, self.output_type);
        let audits = self.pipelines.iter().map(|pipeline| {
            let extraction_failed = pipeline.extraction_failures();
            let judgements = || documents.iter().flat_map(|document| document.judgements_of(pipeline.name()));
            let unparsed = judgements().filter(|judgement| judgement.value.is_none()).count();
            let judgements = judgements().count();
            let unfinished = pipeline.unfinished().len();
            let audit = Audit { extraction_failed, unfinished, judgements, unparsed, ..of_answers };
            (Arc::clone(pipeline.name()), audit)
        });
        audits.collect()
    }

    /// One record per pipeline and document.
    pub fn samples(&self, documents: &[AnsweredDocument]) -> Result<Vec<SampleRecord>, ScoreError> {
        Ok(sample_records(documents, &self.pipelines, &self.dialect)?)
    }
}
