//! The scorer `judge`.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::call::JudgeCall;
use super::spec::JudgeSpec;
use crate::registry::{OptionEntry, OptionKind, OptionTable, ScorerEntry};
use crate::scorers::{
    AnsweredDocument, MetricSpec, Needs, ScoreError, ScoredDoc, Scorer, Scores, ScoringInput,
};
use lmeval_core::OutputType;

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("role", OptionKind::Any, ""),
    OptionEntry::optional("judges", OptionKind::Any, ""),
    OptionEntry::optional("prompt", OptionKind::Any, ""),
    OptionEntry::optional("template", OptionKind::Any, ""),
    OptionEntry::optional("system", OptionKind::Any, ""),
    OptionEntry::optional("question", OptionKind::Any, ""),
    OptionEntry::optional("reference", OptionKind::Any, ""),
    OptionEntry::optional("rubric", OptionKind::Any, ""),
    OptionEntry::optional("verdicts", OptionKind::Any, ""),
    OptionEntry::optional("range", OptionKind::Any, ""),
    OptionEntry::optional("pairwise", OptionKind::Any, ""),
    OptionEntry::optional("extract", OptionKind::Any, ""),
    OptionEntry::optional("samples", OptionKind::Any, "1"),
    OptionEntry::optional("reduce", OptionKind::Any, ""),
    OptionEntry::optional("swap", OptionKind::Any, ""),
    OptionEntry::optional("on_unparsed", OptionKind::Any, "'unscored'"),
    OptionEntry::optional("generation_kwargs", OptionKind::Any, ""),
    OptionEntry::optional("delimiters", OptionKind::Any, ""),
    OptionEntry::optional("higher_is_better", OptionKind::Any, "True"),
];

/// The entry in the registry.
pub(crate) fn entry() -> ScorerEntry {
    ScorerEntry::new("judge", |options| {
        let spec = JudgeSpec::read(options).map_err(|problem| ScoreError::ScorerSetting {
            scorer: "judge".to_owned(),
            problem: Box::new(problem),
        })?;
        Ok(Arc::new(JudgeScorer { spec: Arc::new(spec) }))
    })
    .options(OptionTable::strict(OPTIONS))
    .output_types(vec![OutputType::GenerateUntil])
    .summary("Grades answers with a model that `--judge` binds to a role")
}

/// Grades answers with one or several models.
///
/// The votes on an answer are reduced to one value, and the values of a document's repeats to their mean. A document
/// without a verdict has no value. Metrics of the pipeline are computed as well.
#[derive(Clone, Debug)]
pub(crate) struct JudgeScorer {
    pub(super) spec: Arc<JudgeSpec>,
}

impl Scorer for JudgeScorer {
    fn name(&self) -> &'static str {
        "judge"
    }

    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        Some(Vec::new())
    }

    fn scores_by_metrics(&self) -> bool {
        // Metrics of the pipeline are computed besides the verdict.
        true
    }

    fn needs(&self) -> Needs {
        Needs { documents: true, prompts: self.spec.needs_input, together: true }
    }

    fn delivered(&self) -> Vec<(Arc<str>, bool)> {
        vec![(self.spec.metric().into(), self.spec.higher_is_better)]
    }

    fn judge(&self) -> Option<&Arc<JudgeSpec>> {
        Some(&self.spec)
    }

    fn judge_calls(
        &self,
        input: &ScoringInput<'_>,
        baseline: Option<&str>,
    ) -> Result<Vec<JudgeCall>, ScoreError> {
        self.spec.calls(input, baseline)
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        let mut scores =
            if input.metrics.metrics().is_empty() { Scores::new() } else { input.generation_scores()? };
        if let Some(value) = self.spec.outcome(input.document, input.pipeline).value {
            scores.insert(self.spec.metric(), vec![Value::Float(value)]);
        }
        Ok(scores)
    }

    fn diagnostics(&self, pipeline: &str, documents: &[AnsweredDocument]) -> Option<Dict> {
        Some(self.spec.diagnostics(pipeline, documents))
    }

    fn score_documents(&self, inputs: &[ScoringInput<'_>]) -> Result<Vec<ScoredDoc>, ScoreError> {
        inputs
            .iter()
            .map(|input| {
                let (doc_id, reference) = (input.doc_id(), input.reference()?.clone());
                Ok(ScoredDoc { doc_id, reference, scores: self.score(input)? })
            })
            .collect()
    }
}
