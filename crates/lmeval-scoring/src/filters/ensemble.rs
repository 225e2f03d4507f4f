//! Chains of filters.

use super::error::FilterError;
use super::{Filter, FilterDocs, Filtered, Responses};

/// A named chain of filters, each applied to the output of the previous one.
#[derive(Debug)]
pub struct FilterEnsemble {
    name: String,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    name: String,
    filter: Box<dyn Filter>,
}

/// The output of a chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The filtered answers, in request order.
    pub responses: Responses,
    /// Whether every list holds a single unwrapped answer, see [`Filtered::bare`].
    pub bare: bool,
    /// The number of failed extractions by step.
    pub audits: Vec<StepAudit>,
}

/// The number of failed extractions in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAudit {
    /// The index of the step.
    pub step: usize,
    /// The name of the filter.
    pub filter: String,
    /// The indices of the answers replaced by the fallback, by request.
    pub fallbacks: Vec<Vec<u32>>,
}

impl StepAudit {
    /// The total number of replaced answers.
    pub fn total(&self) -> usize {
        self.fallbacks.iter().map(Vec::len).sum()
    }
}

/// The error of a step.
#[derive(Debug, thiserror::Error)]
#[error("Step {} of the filter pipeline `{pipeline}`, `{filter}`, failed", step + 1)]
pub struct EnsembleError {
    /// The name of the chain.
    pub pipeline: String,
    /// The index of the step.
    pub step: usize,
    /// The name of the filter.
    pub filter: String,
    /// The error of the filter.
    #[source]
    pub source: Box<FilterError>,
}

impl FilterEnsemble {
    /// A chain without steps, which leaves answers unchanged.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), steps: Vec::new() }
    }

    /// Appends a step.
    pub fn push(&mut self, name: impl Into<String>, filter: Box<dyn Filter>) {
        self.steps.push(Step { name: name.into(), filter });
    }

    /// The name of the chain, which is part of result keys.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether any step reads documents.
    pub fn needs_documents(&self) -> bool {
        self.steps.iter().any(|step| step.filter.needs_documents())
    }

    /// Whether every step filters requests independently of each other.
    pub(crate) fn is_per_request(&self) -> bool {
        self.steps.iter().all(|step| step.filter.is_per_request())
    }

    /// Whether any step calls task code.
    pub(crate) fn calls_task_code(&self) -> bool {
        self.steps.iter().any(|step| step.filter.calls_task_code())
    }

    /// Applies all steps in order to the answers to all requests of a task.
    pub fn apply(&self, responses: Responses, docs: &FilterDocs<'_>) -> Result<Outcome, EnsembleError> {
        let given = responses.len();
        let mut outcome = Outcome { responses, ..Outcome::default() };
        if given == 0 {
            return Ok(outcome);
        }
        for (index, step) in self.steps.iter().enumerate() {
            let responses = std::mem::take(&mut outcome.responses);
            let filtered = if docs.len() == given {
                step.apply(responses, outcome.bare, docs)
            } else {
                Err(FilterError::Length { given: docs.len(), returned: given })
            };
            let filtered = filtered.map_err(|source| self.failure(index, &step.name, source))?;
            if !filtered.fallbacks.is_empty() {
                let filter = step.name.clone();
                outcome.audits.push(StepAudit { step: index, filter, fallbacks: filtered.fallbacks });
            }
            outcome.responses = filtered.responses;
            outcome.bare = filtered.bare;
        }
        Ok(outcome)
    }

    /// Adds the context of a step to an error.
    pub(super) fn failure(&self, step: usize, filter: &str, source: FilterError) -> EnsembleError {
        EnsembleError {
            pipeline: self.name.clone(),
            step,
            filter: filter.to_owned(),
            source: Box::new(source),
        }
    }
}

impl Step {
    fn apply(
        &self,
        responses: Responses,
        bare: bool,
        docs: &FilterDocs<'_>,
    ) -> Result<Filtered, FilterError> {
        let given = responses.len();
        let filtered = if bare {
            self.filter.apply_bare(responses.into_iter().flatten().collect(), docs)?
        } else {
            self.filter.apply(responses, docs)?
        };
        let returned = filtered.responses.len();
        if returned == given { Ok(filtered) } else { Err(FilterError::Length { given, returned }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{texts, with_docs};
    use crate::filters::{FilterContext, FilterSpec};
    use crate::registry::Registry;
    use lmeval_core::Dialect;
    use lmeval_pycompat::{Dict, Value};

    #[derive(Debug)]
    struct Swallow;

    impl Filter for Swallow {
        fn apply(&self, mut responses: Responses, _: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
            responses.pop();
            Ok(responses.into())
        }
    }

    fn chain(name: &str, steps: &[FilterSpec], dialect: Dialect) -> FilterEnsemble {
        let context = FilterContext { dialect, ..FilterContext::default() };
        Registry::default().filter_ensemble(name, steps, &context).unwrap()
    }

    #[test]
    fn rejects_a_changed_number_of_requests() {
        let mut ensemble = FilterEnsemble::new("x");
        ensemble.push("swallow", Box::new(Swallow));
        let error = with_docs(2, |docs| ensemble.apply(texts(&[&["a"], &["b"]]), docs)).unwrap_err();
        assert_eq!(error.to_string(), "Step 1 of the filter pipeline `x`, `swallow`, failed");
        assert_eq!(error.source.to_string(), "The filter returned results for 1 requests instead of 2");
        assert!(with_docs(3, |docs| ensemble.apply(texts(&[&["a"]]), docs)).is_err());
        assert_eq!(with_docs(0, |docs| ensemble.apply(Vec::new(), docs)).unwrap(), Outcome::default());
    }

    #[test]
    fn dialect_0_4_splits_a_bare_answer_into_characters() {
        let mapping: Dict = [(Value::str("A"), Value::Int(0))].into_iter().collect();
        let steps = [
            FilterSpec::named("take_first"),
            FilterSpec::named("map").with("mapping_dict", mapping).with("default_value", -1_i64),
        ];
        let ensemble = chain("x", &steps, Dialect::V04);
        let outcome = with_docs(2, |docs| ensemble.apply(texts(&[&["A"], &["bA"]]), docs)).unwrap();
        assert_eq!(outcome.responses, [vec![Value::Int(0)], vec![Value::Int(-1), Value::Int(0)]]);
        assert!(!outcome.bare);
        let steps = [FilterSpec::named("take_first"), FilterSpec::named("noop")];
        let outcome = with_docs(1, |docs| chain("x", &steps, Dialect::V04).apply(texts(&[&["A"]]), docs));
        assert!(outcome.unwrap().bare);
    }
}
