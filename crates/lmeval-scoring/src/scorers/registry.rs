//! Lookup of scorers by name.

use std::sync::Arc;

use super::error::ScoreError;
use super::scorer::Scorer;
use super::spec::ScorerSpec;
use super::{choice_match, first_token, regex_extraction};
use crate::judge::SpecProblem;
use crate::registry::{OptionProblem, OptionTable, Registry, ScorerEntry};
use lmeval_core::OutputType;

/// The built-in scorers, one line each.
pub(crate) fn built_in() -> Vec<ScorerEntry> {
    let entries = [first_token::entry(), regex_extraction::entry(), choice_match::entry()];
    // Reference: the built-in scorers take no arguments; patterns are arguments of filters.
    let entry = |entry: ScorerEntry| {
        entry.options(OptionTable::REJECT_ALL).output_types(vec![OutputType::GenerateUntil]).built_in()
    };
    let judge = crate::judge::entry().built_in();
    entries.into_iter().map(entry).chain([judge]).collect()
}

impl Registry {
    /// Creates the scorer that a task names, unless it is Python.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lmeval_scoring::registry::{Registry, ScorerEntry};
    /// use lmeval_scoring::scorers::{GenScorer, ScorerSpec};
    ///
    /// let mut registry = Registry::default();
    /// let entry = |name| ScorerEntry::new(name, |_| Ok(Arc::new(GenScorer)));
    /// registry.register(entry("plain")).unwrap();
    /// assert!(registry.register(entry("regex")).is_err());
    /// let spec = ScorerSpec { kind: "plain".to_owned(), kwargs: Default::default() };
    /// assert_eq!(registry.scorer(&spec).unwrap().name(), GenScorer.name());
    /// # use lmeval_scoring::scorers::Scorer;
    /// ```
    pub fn scorer(&self, spec: &ScorerSpec) -> Result<Arc<dyn Scorer>, ScoreError> {
        let entry = self.scorers.get_rust(&spec.kind).ok_or_else(|| self.scorers.unknown(&spec.kind))?;
        let Some(make) = entry.code.rust() else {
            return Err(self.scorers.unknown(&spec.kind).into());
        };
        match entry.options.check(&spec.kwargs).into_iter().find(OptionProblem::is_fatal) {
            None => make(&spec.kwargs),
            Some(problem) if !entry.options.known.is_empty() => {
                let known = entry.options.known.iter().map(|option| &*option.name);
                let (scorer, problem) = (spec.kind.clone(), SpecProblem::unknown(problem.option(), known));
                Err(ScoreError::ScorerSetting { scorer, problem: Box::new(problem) })
            }
            Some(problem) => Err(ScoreError::ScorerArgument {
                scorer: spec.kind.clone(),
                argument: problem.option().to_owned(),
            }),
        }
    }
}
