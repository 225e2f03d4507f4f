//! The scoring of a run.

use std::path::PathBuf;

use anyhow::{Result, bail};
use lmeval_analysis::threshold::Threshold;
use lmeval_core::Diagnostic;
use lmeval_engine::EvaluateOptions;

use super::judges::{self, JudgeBinding};
use super::kinds::Budget;
use super::resolve::Resolver;

/// How answers are scored.
#[derive(Clone, Debug)]
pub(crate) struct ScoringGroup {
    pub bootstrap_iters: i64,
    pub confirm_run_unsafe_code: bool,
    pub predict_only: bool,
    pub check_integrity: bool,
    /// Token limits at which the answers are scored, too.
    pub budgets: Vec<Budget>,
    /// Thresholds that scores have to pass.
    pub fail_under: Vec<Threshold>,
    /// The models that grade answers.
    pub judges: Vec<JudgeBinding>,
    /// The stored run that pairwise judges compare with.
    pub baseline: Option<PathBuf>,
    /// The file with the prices of tokens.
    pub prices: Option<PathBuf>,
}

impl ScoringGroup {
    pub(super) fn resolve(resolver: &Resolver) -> Result<Self> {
        let options = &resolver.options;
        let draws = if resolver.is_command() { 100_000 } else { 0 };
        Ok(Self {
            bootstrap_iters: options.bootstrap_iters.map_or(draws, |draws| draws.0),
            confirm_run_unsafe_code: options.confirm_run_unsafe_code.unwrap_or_default(),
            predict_only: options.predict_only.unwrap_or_default(),
            budgets: budgets(resolver)?,
            check_integrity: options.check_integrity.unwrap_or_default(),
            fail_under: options.fail_under.iter().flatten().map(|given| given.0.clone()).collect(),
            judges: judges::resolve(options.judge.as_deref().unwrap_or_default())?,
            baseline: options.baseline.clone(),
            prices: options.prices.clone(),
        })
    }

    pub(super) fn apply(&self, options: &mut EvaluateOptions) {
        options.bootstrap_iters = self.bootstrap_iters;
        options.confirm_run_unsafe_code = self.confirm_run_unsafe_code;
        options.predict_only = self.predict_only;
    }
}

/// The budgets, for which answers have to be saved.
fn budgets(resolver: &Resolver) -> Result<Vec<Budget>> {
    let options = &resolver.options;
    let budgets = options.budgets.clone().unwrap_or_default();
    if budgets.is_empty() || !resolver.is_command() {
        return Ok(budgets);
    }
    if options.shard.is_some() {
        let diagnostic = Diagnostic::new("`--budgets` does not work with `--shard`");
        bail!(diagnostic.hint("Run `lm-eval budget` on the merged run"));
    }
    if options.output_path.as_ref().is_none_or(String::is_empty) {
        let diagnostic = Diagnostic::new("`--budgets` needs a folder for the answers");
        bail!(diagnostic.hint("Set it with `--output_path`"));
    }
    Ok(budgets)
}
