//! The documents of a run.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_engine::EvaluateOptions;
use lmeval_pycompat::{Dict, Value};

use super::kinds::{Number, Reductions, TaskNames};
use super::resolve::{Resolver, count};
use super::samples;
use super::shard::ShardNumber;

/// The tasks evaluated by default.
const DEFAULT_TASKS: &str = "demo_tour";

/// The tasks, and which of their documents are evaluated.
#[derive(Clone, Debug)]
pub(crate) struct DocumentGroup {
    pub tasks: Vec<String>,
    /// Whether nobody chose tasks or a model, so that the run is a demonstration.
    pub is_demonstration: bool,
    pub limit: Value,
    pub samples: Option<Dict>,
    /// The part of the documents to evaluate.
    pub shard: Option<ShardNumber>,
    pub repeats: Option<usize>,
    /// How the answers to each document become one value.
    pub reductions: Vec<Arc<str>>,
}

impl DocumentGroup {
    pub(super) fn resolve(resolver: &mut Resolver) -> Result<Self> {
        let options = &resolver.options;
        let is_demonstration = resolver.is_command() && options.tasks.is_none() && options.model.is_none();
        let tasks = tasks(resolver)?;
        let limit = limit(resolver)?;
        let chosen = resolver.options.samples.clone().unwrap_or_default();
        if chosen.is_truthy() && !limit.is_none() {
            bail!("`--samples` and `--limit` are mutually exclusive");
        }
        Ok(Self {
            tasks,
            is_demonstration,
            limit,
            samples: samples::resolve(&chosen)?,
            shard: resolver.options.shard,
            repeats: count("repeats", resolver.options.repeats)?,
            reductions: resolver.options.reductions.iter().flatten().flat_map(Reductions::split).collect(),
        })
    }

    pub(super) fn apply(&self, options: &mut EvaluateOptions) {
        options.limit = self.limit.to_f64();
        options.samples.clone_from(&self.samples);
        options.part = self.shard.and_then(ShardNumber::part);
        options.repeats = self.repeats;
        options.reductions.clone_from(&self.reductions);
    }
}

fn tasks(resolver: &mut Resolver) -> Result<Vec<String>> {
    let given = resolver.options.tasks.as_ref();
    let given: Option<Vec<String>> = given.map(|words| words.iter().flat_map(TaskNames::split).collect());
    if !resolver.is_command() {
        return Ok(given.unwrap_or_default());
    }
    let tasks = given.unwrap_or_else(|| {
        resolver.notes.push(format!("No `--tasks` given: using `{DEFAULT_TASKS}`, the built-in demo"));
        vec![DEFAULT_TASKS.to_owned()]
    });
    if tasks.is_empty() {
        let diagnostic = Diagnostic::new("No tasks to evaluate");
        bail!(diagnostic.hint("Choose tasks with `--tasks`; `lm-eval ls tasks` lists them"));
    }
    Ok(tasks)
}

fn limit(resolver: &mut Resolver) -> Result<Value> {
    let Some(Number(limit)) = resolver.options.limit.clone() else { return Ok(Value::None) };
    if limit.to_f64().is_none_or(|number| number <= 0.0 || number.is_nan()) {
        let name = if resolver.is_command() { "--limit" } else { "limit" };
        let diagnostic = Diagnostic::new(format!("`{name}` must be greater than 0"));
        bail!(diagnostic.hint("Give a number of documents, or a fraction below 1"));
    }
    resolver
        .notes
        .push("`--limit` is for testing. Scores on a subset are not comparable with full runs.".to_owned());
    Ok(limit)
}
