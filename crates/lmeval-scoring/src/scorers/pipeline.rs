//! A pipeline that scores the answers of a task.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};
use rayon::prelude::*;

use super::answered::AnsweredDocument;
use super::bound_metrics::{Bound, BoundMetrics, KnownValue, bind};
use super::bounds::{Unfinished, unfinished};
use super::documents::{AnsweredDocuments, Filtered};
use super::error::ScoreError;
use super::input::ScoringInput;
use super::logged::{bools_to_floats, legacy_logged_value};
use super::metric::PipelineMetric;
use super::metric_key::parent_metric;
use super::needs::Needs;
use super::reduce::{reduce, unreduced};
use super::scored::{ReducedDoc, ScoredDoc, Scores};
use super::scorer::Scorer;
use super::task_code::TaskCode;
use crate::filters::FilterEnsemble;
use crate::groups::Directions;
use crate::judge::{JudgeCall, JudgeSpec, Judges, NoJudges};
use lmeval_core::Dialect;
use lmeval_core::OutputType;

/// One pipeline of a task: filters, metrics, the scorer that applies them, and the results so far.
#[derive(Debug)]
pub struct ScoringPipeline {
    pub(super) name: Arc<str>,
    pub(super) filters: FilterEnsemble,
    pub(super) metrics: Vec<PipelineMetric>,
    pub(super) scorer: Arc<dyn Scorer>,
    pub(super) context: Dict,
    pub(super) output_type: OutputType,
    pub(super) dialect: Dialect,
    filtered: Arc<Filtered>,
    /// The number of fallbacks in documents that were scored in earlier blocks.
    earlier_fallbacks: usize,
    /// Whether documents are scored in blocks; if so, `request_kwargs` come from the very first document.
    in_blocks: bool,
    request_kwargs: Option<Arc<Dict>>,
    /// The metrics of earlier blocks.
    bound: Option<Arc<[Bound]>>,
    raw_docs: Vec<ScoredDoc>,
    reduced_docs: Vec<ReducedDoc>,
    /// The documents with unfinished answers, in the order of the reduced ones.
    unfinished: Vec<Unfinished>,
    /// For each value name returned by a task function, the index of the metric it belongs to.
    owners: Vec<(Arc<str>, usize)>,
    /// Directions set by the scorer itself.
    directions: Option<Directions>,
    unreduced: Vec<Arc<str>>,
    /// The results of task functions for the document that was checked early.
    known: Vec<KnownValue>,
    judges: Arc<dyn Judges>,
}

impl ScoringPipeline {
    pub(super) fn new(
        filters: FilterEnsemble,
        metrics: Vec<PipelineMetric>,
        scorer: Arc<dyn Scorer>,
        output_type: OutputType,
        dialect: Dialect,
    ) -> Self {
        Self {
            name: filters.name().into(),
            filters,
            metrics,
            scorer,
            context: Dict::new(),
            output_type,
            dialect,
            filtered: Arc::default(),
            earlier_fallbacks: 0,
            in_blocks: false,
            request_kwargs: None,
            bound: None,
            raw_docs: Vec::new(),
            reduced_docs: Vec::new(),
            unfinished: Vec::new(),
            owners: Vec::new(),
            directions: None,
            unreduced: Vec::new(),
            known: Vec::new(),
            judges: Arc::new(NoJudges),
        }
    }

    /// The name, which is part of result keys.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The metrics in the order of results.
    pub fn metrics(&self) -> &[PipelineMetric] {
        &self.metrics
    }

    /// The scorer that applies the metrics.
    pub fn scorer(&self) -> &dyn Scorer {
        &*self.scorer
    }

    /// Sets keyword arguments passed to every metric, overriding its configuration.
    pub fn set_context(&mut self, context: Dict) {
        self.context = context;
    }

    /// Gives the scorer the judges of the run.
    pub(super) fn set_judges(&mut self, judges: &Arc<dyn Judges>) {
        self.judges = Arc::clone(judges);
    }

    /// How documents are judged, if the scorer needs judgements.
    pub fn judge(&self) -> Option<&Arc<JudgeSpec>> {
        self.scorer.judge()
    }

    /// Whether filters look at one request at a time.
    pub(super) fn filters_per_request(&self) -> bool {
        self.filters.is_per_request()
    }

    /// The questions to judges about the document whose answers were filtered last.
    pub(super) fn judge_calls(
        &self,
        document: &AnsweredDocument,
        baseline: Option<&str>,
    ) -> Result<Vec<JudgeCall>, ScoreError> {
        let no_context = Dict::new();
        let metrics = BoundMetrics::new(&[], &no_context, None, Arc::default(), Vec::new());
        let input = ScoringInput {
            document,
            filtered: self.filtered.of_document(0),
            metrics: &metrics,
            output_type: self.output_type,
            dialect: &self.dialect,
            pipeline: &self.name,
            judges: &*self.judges,
        };
        self.scorer.judge_calls(&input, baseline)
    }

    /// The combined needs of filters, scorer and metrics.
    pub fn needs(&self) -> Needs {
        let documents = self.filters.needs_documents();
        let prompts = self.metrics.iter().any(|metric| metric.needs_prompts(self.output_type));
        let together =
            !self.filters.is_per_request() || self.metrics.iter().any(PipelineMetric::calls_task_code);
        self.scorer.needs() | Needs { documents, prompts, together }
    }

    /// Applies the filters, or the scorer's replacement of them, to the answers of all documents.
    pub(super) fn apply_filters(
        &self,
        documents: &AnsweredDocuments<'_>,
    ) -> Result<Arc<Filtered>, ScoreError> {
        let own = self.scorer.apply_filter(documents.all(), self.output_type)?;
        Ok(Arc::new(match own {
            Some(filtered) => documents.filtered(filtered),
            None => documents.filter(&self.filters)?,
        }))
    }

    pub(super) fn set_filtered(&mut self, filtered: Arc<Filtered>) {
        self.filtered = filtered;
    }

    /// Scores the filtered answers and reduces repeats.
    pub(super) fn score(
        &mut self,
        documents: &[AnsweredDocument],
        code: Option<&Arc<dyn TaskCode>>,
    ) -> Result<(), ScoreError> {
        let delivered = match code {
            Some(code) => self.process_results(documents, &**code)?,
            None => None,
        };
        let scored = match delivered {
            Some(scored) => scored,
            None => self.score_by_metrics(documents, false)?,
        };
        self.note_unreduced(&scored);
        let has_several = |scored: &ScoredDoc| scored.scores.iter().any(|(_, values)| values.len() > 1);
        let metrics = &self.metrics;
        self.unfinished.clear();
        if let Some(reduced) = self.scorer.reduce(&scored)? {
            self.check_count(scored.len(), reduced.len())?;
            self.reduced_docs = reduced;
            self.raw_docs = scored;
            self.directions = self.scorer.higher_is_better(&self.reduced_docs)?;
            return Ok(());
        }
        self.unfinished = unfinished(documents, &self.filtered, &scored, metrics, 0);
        if scored.par_iter().any(has_several) {
            let reduced = scored.par_iter().cloned().map(|scored| reduce(scored, metrics));
            self.reduced_docs = reduced.collect::<Result<_, _>>()?;
            self.raw_docs = scored;
        } else {
            let reduced = scored.into_par_iter().map(|scored| reduce(scored, metrics));
            self.reduced_docs = reduced.collect::<Result<_, _>>()?;
            self.raw_docs = Vec::new();
        }
        self.directions = self.scorer.higher_is_better(&self.reduced_docs)?;
        Ok(())
    }

    /// Scores the next block of documents, whose answers are already filtered.
    ///
    /// Filtered answers and values per repeat are dropped afterwards.
    pub(super) fn score_next(&mut self, documents: &[AnsweredDocument]) -> Result<(), ScoreError> {
        if !std::mem::replace(&mut self.in_blocks, true) {
            self.request_kwargs = kwargs_of_first(documents);
        }
        let scored = self.score_by_metrics(documents, false)?;
        self.note_unreduced(&scored);
        let metrics = &self.metrics;
        let first = self.reduced_docs.len();
        self.unfinished.extend(unfinished(documents, &self.filtered, &scored, metrics, first));
        let reduced: Result<Vec<ReducedDoc>, _> =
            scored.into_par_iter().map(|scored| reduce(scored, metrics)).collect();
        self.reduced_docs.extend(reduced?);
        self.earlier_fallbacks += std::mem::take(&mut self.filtered).fallbacks();
        Ok(())
    }

    /// Scores one document early and caches the results of task functions.
    ///
    /// Fails only if a task function fails. All other errors are reported when every document is scored.
    pub(super) fn check_first(&mut self, document: &AnsweredDocument) -> Result<(), ScoreError> {
        let documents = std::slice::from_ref(document);
        let Ok(filtered) = self.apply_filters(&AnsweredDocuments::new(documents)) else { return Ok(()) };
        self.filtered = filtered;
        let scored = match self.score_by_metrics(documents, true) {
            Ok(scored) => scored,
            Err(error @ ScoreError::HostOnDocument { .. }) => return Err(error),
            Err(_) => return Ok(()),
        };
        let reduced: Result<Vec<_>, _> =
            scored.into_iter().map(|scored| reduce(scored, &self.metrics)).collect();
        self.reduced_docs = reduced.unwrap_or_default();
        let checked = self.check_values();
        self.reduced_docs.clear();
        checked
    }

    /// Remembers names whose repeats no metric reduces, for a warning with the scores.
    fn note_unreduced(&mut self, scored: &[ScoredDoc]) {
        for name in unreduced(scored, &self.metrics) {
            if !self.unreduced.contains(&name) {
                self.unreduced.push(name);
            }
        }
    }

    /// The names of which only the first repeat counts, because no metric reduces them.
    pub(super) fn unreduced(&self) -> &[Arc<str>] {
        &self.unreduced
    }

    /// Checks that the scorer returned as many documents as it was given.
    fn check_count(&self, expected: usize, found: usize) -> Result<(), ScoreError> {
        if expected == found {
            return Ok(());
        }
        Err(ScoreError::DocumentCount { scorer: self.scorer.name().to_owned(), expected, found })
    }

    fn score_by_metrics(
        &mut self,
        documents: &[AnsweredDocument],
        keep_known: bool,
    ) -> Result<Vec<ScoredDoc>, ScoreError> {
        let request_kwargs =
            if self.in_blocks { self.request_kwargs.clone() } else { kwargs_of_first(documents) };
        let bound = match &self.bound {
            Some(bound) => Arc::clone(bound),
            None => bind(&self.metrics, &self.context, request_kwargs.as_ref())?,
        };
        self.bound = self.in_blocks.then(|| Arc::clone(&bound));
        let known = std::mem::take(&mut self.known);
        let metrics = BoundMetrics::new(&self.metrics, &self.context, request_kwargs, bound, known);
        let inputs: Vec<ScoringInput<'_>> = documents
            .iter()
            .enumerate()
            .map(|(index, document)| ScoringInput {
                document,
                filtered: self.filtered.of_document(index),
                metrics: &metrics,
                output_type: self.output_type,
                dialect: &self.dialect,
                pipeline: &self.name,
                judges: &*self.judges,
            })
            .collect();
        if self.scorer.scores_by_metrics() {
            metrics.prepare(&inputs)?;
        }
        let known = if keep_known { metrics.known_values(&inputs) } else { Vec::new() };
        let mut scored = self.scorer.score_documents(&inputs)?;
        self.check_count(inputs.len(), scored.len())?;
        drop(inputs);
        self.owners = metrics.into_owners();
        self.known = known;
        if self.dialect.scoring.legacy_values {
            scored.par_iter_mut().for_each(|scored| bools_to_floats(scored, self.output_type));
        }
        Ok(scored)
    }

    /// The values of each document before reduction, one per repeat for each metric.
    ///
    /// Empty if no metric has several values per document, since they equal the reduced ones, and after
    /// [`ScoringPipeline::import_reduced`].
    pub fn raw_docs(&self) -> &[ScoredDoc] {
        &self.raw_docs
    }

    /// The reduced values of each document.
    pub fn reduced_docs(&self) -> &[ReducedDoc] {
        &self.reduced_docs
    }

    /// The documents with unfinished answers.
    pub(super) fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// Copies the reduced values, to be merged in another process.
    pub fn export_reduced(&self) -> Vec<ReducedDoc> {
        self.reduced_docs.clone()
    }

    /// Replaces the reduced values by those merged from several processes, and drops the unreduced ones.
    pub fn import_reduced(&mut self, documents: Vec<ReducedDoc>) {
        self.raw_docs.clear();
        self.unfinished.clear();
        self.reduced_docs = documents;
    }

    /// For each value name returned by a task function, the index of the metric it belongs to.
    pub fn owners(&self) -> &[(Arc<str>, usize)] {
        &self.owners
    }

    /// Restores the results of [`ScoringPipeline::reduced_docs`] and [`ScoringPipeline::owners`].
    pub(super) fn restore(&mut self, documents: Vec<ReducedDoc>, owners: Vec<(Arc<str>, usize)>) {
        self.import_reduced(documents);
        self.owners = owners;
    }

    /// The filtered answers of the document at an index, one list per request.
    pub fn filtered(&self, index: usize) -> &[Vec<Value>] {
        self.filtered.of_document(index)
    }

    /// Whether each list of filtered answers is a single unwrapped answer.
    pub(crate) fn takes_first(&self) -> bool {
        self.filtered.is_bare()
    }

    /// The number of answers replaced by a fallback because a filter found no match.
    pub fn extraction_failures(&self) -> usize {
        self.earlier_fallbacks + self.filtered.fallbacks()
    }

    /// Whether higher is better: for all configured metrics, and for composites of them that the first document has.
    pub fn higher_is_better(&self) -> Directions {
        if let Some(directions) = &self.directions {
            return directions.clone();
        }
        let mut configured: Vec<&PipelineMetric> = self.metrics.iter().collect();
        configured.sort_by_key(|metric| metric.position);
        let mut directions: Directions = configured
            .into_iter()
            .map(|metric| (Arc::clone(&metric.name), metric.higher_is_better))
            .collect();
        for (name, direction) in self.scorer.delivered() {
            directions.insert(name, Some(direction));
        }
        for (name, owner) in &self.owners {
            directions.insert(Arc::clone(name), self.metrics[*owner].higher_is_better);
        }
        if let Some(first) = self.reduced_docs.first() {
            for (name, _) in first.values.iter() {
                let parent = parent_metric(name).and_then(|parent| self.metric(parent));
                if let Some(parent) = parent.filter(|_| directions.get(name).is_none()) {
                    directions.insert(Arc::clone(name), parent.higher_is_better);
                }
            }
        }
        directions
    }

    /// The metric of a name. If two have the same name, the later one, whose values are stored.
    fn metric(&self, name: &str) -> Option<&PipelineMetric> {
        self.metrics.iter().rev().find(|metric| *metric.name == *name)
    }

    /// The metric that a value belongs to: by its name, as the parent of a composite, or as the function that
    /// returned it.
    pub(super) fn metric_of(&self, name: &str) -> Option<&PipelineMetric> {
        let by_owner = || {
            let owner = self.owners.iter().find(|(known, _)| **known == *name);
            owner.and_then(|(_, metric)| self.metrics.get(*metric))
        };
        self.metric(name)
            .or_else(|| parent_metric(name).and_then(|parent| self.metric(parent)))
            .or_else(by_owner)
    }

    /// The values of a document as shown in records.
    pub(crate) fn logged_values(&self, index: usize, document: &AnsweredDocument) -> Scores<Value> {
        let Some(reduced) = self.reduced_docs.get(index) else { return Scores::new() };
        if !self.dialect.scoring.legacy_values {
            return reduced.values.clone();
        }
        let logged = reduced.values.iter().map(|(metric, value)| {
            let filtered = self.filtered(index);
            (Arc::clone(metric), legacy_logged_value(metric, value, self.output_type, document, filtered))
        });
        logged.collect()
    }

    /// The values of a document per repeat, if a metric has several.
    pub(crate) fn scores_per_repeat(&self, index: usize) -> Option<Dict> {
        let scores = &self.raw_docs.get(index)?.scores;
        let has_several =
            !self.dialect.scoring.taken_answers_are_bare && scores.iter().any(|(_, values)| values.len() > 1);
        has_several.then(|| {
            let lists = scores.iter();
            lists
                .map(|(metric, values)| (Value::Str(Arc::clone(metric)), Value::list(values.clone())))
                .collect()
        })
    }
}

/// The keyword arguments for metrics from the first request of the first document.
fn kwargs_of_first(documents: &[AnsweredDocument]) -> Option<Arc<Dict>> {
    let first = documents.first().and_then(|document| document.answers.first());
    first.and_then(|first| first.instance.metadata.metric_kwargs.clone())
}
