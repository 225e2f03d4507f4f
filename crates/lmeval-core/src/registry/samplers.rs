//! Samplers: which documents become few-shot examples.

use std::borrow::Cow;

use super::table::Entry;

/// Knowledge about one sampler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerEntry {
    /// The name used in `fewshot_config.sampler`.
    pub name: Cow<'static, str>,
    /// One line for listings.
    pub summary: Cow<'static, str>,
}

impl SamplerEntry {
    /// An entry.
    pub const fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), summary: Cow::Borrowed(summary) }
    }
}

impl Entry for SamplerEntry {
    const KIND: &'static str = "sampler";

    fn name(&self) -> &str {
        &self.name
    }
}

/// The built-in samplers.
pub static SAMPLERS: &[SamplerEntry] = &[
    SamplerEntry::new("default", "Random examples, drawn with the few-shot seed"),
    SamplerEntry::new("first_n", "The first examples of the pool, in order"),
];
