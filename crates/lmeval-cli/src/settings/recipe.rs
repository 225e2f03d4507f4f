//! The recipe of a run as a layer of settings, below all others.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_claims::recipe::Recipe;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value};

use super::kinds::TaskNames;
use super::layer::Layer as _;
use super::options::Options;

/// Fills settings that are not given from the recipe, and selects its tasks.
pub(super) fn below(options: Options) -> Result<(Options, Option<Arc<Recipe>>)> {
    let Some(name) = options.recipe.as_deref().filter(|name| !name.is_empty()) else {
        return Ok((options, None));
    };
    let recipe = Recipe::open(name)?;
    let mut settings = recipe.settings.clone();
    let chosen: Vec<String> = options.tasks.iter().flatten().flat_map(TaskNames::split).collect();
    let tasks = recipe.select(&chosen)?;
    settings.insert("tasks", Value::list(tasks.iter().map(|task| Value::str(task.word.as_str()))));
    let layer = read(&recipe, &settings)?;
    let options = Options { tasks: layer.tasks.clone(), ..options.combine(layer) };
    Ok((options, Some(Arc::new(recipe))))
}

fn read(recipe: &Recipe, settings: &Dict) -> Result<Options> {
    Options::read("", settings).or_else(|(name, wrong)| {
        let message = wrong.message(name, settings.get_str(name).unwrap_or(&Value::None));
        bail!(Diagnostic::new(message).at(recipe.locate_setting(name)))
    })
}
