//! The recipe of a run: whether the installed tasks are those that it pins.

use anyhow::{Result, bail};
use lmeval_claims::content;
use lmeval_claims::recipe::{Recipe, RecipeTask};
use lmeval_core::Diagnostic;
use lmeval_tasks::{Overrides, TaskManager, TaskOptions};

use crate::printer::Printer;
use crate::words::counted;

/// The digest of what a task of the recipe stands for in the installed library; `None` if it cannot be loaded.
pub(crate) fn installed(task: &RecipeTask, manager: &TaskManager) -> Option<String> {
    let specs = manager.select(&[task.name()]).ok()?;
    let loaded = manager.load(&specs, Overrides::default()).ok()?;
    Some(content::digest(&loaded))
}

/// Warns of tasks that differ from those that the recipe pins, or fails if the recipe wants that. The manager must not add metadata
/// of the run.
pub(crate) fn check_pins(
    recipe: &Recipe,
    words: &[String],
    manager: &TaskManager,
    printer: &mut Printer,
) -> Result<()> {
    let is_used = |task: &RecipeTask| {
        words.iter().any(|word| {
            *word == task.word || TaskOptions::split(word).is_ok_and(|(name, _)| name == task.name())
        })
    };
    let differing: Vec<String> = recipe
        .tasks
        .iter()
        .filter(|task| is_used(task))
        .filter(|task| {
            task.pin.as_ref().is_some_and(|pin| installed(task, manager).is_some_and(|found| found != *pin))
        })
        .map(|task| format!("`{}`", task.word))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} of the recipe `{}` {} not as it pins {}: {}",
        counted(differing.len(), "task"),
        recipe.name,
        if differing.len() == 1 { "is" } else { "are" },
        if differing.len() == 1 { "it" } else { "them" },
        differing.join(", ")
    );
    let hint = "Another version of the library, or a folder of yours, defines them differently, so scores may differ; `lm-eval tasks list` and `lm-eval show NAME` say which";
    if recipe.is_strict {
        let diagnostic = Diagnostic::new(message).hint(hint);
        bail!(diagnostic.hint("The recipe has `strict: true`; a copy without it only warns"));
    }
    printer.warn(&format!("{message}. {hint}"));
    Ok(())
}
