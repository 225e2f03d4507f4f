//! The saved answers of a run.

use anyhow::Result;

use super::resolve::{Resolver, count};

/// Which saved answers are used, and how many requests may fail.
#[derive(Clone, Debug)]
pub(crate) struct AnswerGroup {
    /// A file shared between runs.
    pub use_cache: Option<String>,
    /// Whether saved answers are discarded.
    pub fresh: bool,
    pub max_failures: Option<usize>,
}

impl AnswerGroup {
    pub(super) fn resolve(resolver: &Resolver) -> Result<Self> {
        let options = &resolver.options;
        Ok(Self {
            use_cache: options.use_cache.clone(),
            fresh: options.fresh.unwrap_or_default(),
            max_failures: count("max_failures", options.max_failures)?,
        })
    }
}
