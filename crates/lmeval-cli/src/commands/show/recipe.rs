//! Prints a recipe: tasks, settings, rows and published scores.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use lmeval_claims::document::Document;
use lmeval_claims::recipe::{self, ExpectedScore, Recipe, RecipeTask, Scored};
use lmeval_pycompat::{Value, yaml};
use lmeval_tasks::TaskManager;

use crate::cli::ShowArgs;
use crate::json_line;
use crate::printer::Printer;
use crate::run::recipe::installed;
use crate::table;

/// What a name begins with if a task has the name of a recipe.
const PREFIX: &str = "recipe:";

/// The recipe that a name of the command line means, if it is one.
pub(super) fn named(name: &str, manager: &TaskManager) -> Result<Option<Recipe>> {
    if let Some(name) = name.strip_prefix(PREFIX) {
        return Ok(Some(Recipe::open(name)?));
    }
    let is_built_in = recipe::names().any(|known| known == name) && manager.index().get(name).is_none();
    if is_built_in || is_file(name) {
        return Ok(Some(Recipe::open(name)?));
    }
    Ok(None)
}

/// A note for a task that has the name of a recipe.
pub(super) fn note(name: &str, printer: &mut Printer) {
    if recipe::names().any(|known| known == name) {
        printer.note(&format!("There is also a recipe of this name: `lm-eval show {PREFIX}{name}`"));
    }
}

fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
        && path.is_file()
        && Document::read(path)
            .is_ok_and(|file| file.value().as_dict().is_some_and(|keys| keys.contains_str("recipe")))
}

/// Prints a recipe.
pub(super) fn print(
    recipe: &Recipe,
    arguments: &ShowArgs,
    manager: &TaskManager,
    printer: &mut Printer,
) -> Result<()> {
    if arguments.json {
        let mut text = String::new();
        json_line::write(&mut text, &Value::from(recipe.written().clone()))?;
        return Ok(printer.exact(&text)?);
    }
    if arguments.yaml {
        return Ok(printer.exact(&yaml::emit(&Value::from(recipe.written().clone())))?);
    }
    let mut text = format!("# recipe {}, version {}\n{}\n", recipe.name, recipe.version, recipe.description);
    if let Some(source) = &recipe.source {
        let _ = writeln!(text, "Source: {source}");
    }
    for note in &recipe.notes {
        let _ = writeln!(text, "- {note}");
    }
    if !recipe.settings.is_empty() {
        let _ = write!(text, "\nSettings:\n{}", indented(&yaml::emit(&Value::from(recipe.settings.clone()))));
    }
    printer.result(&text)?;
    printer.result("\n")?;
    let rows: Vec<Vec<String>> = recipe.tasks.iter().map(|task| task_cells(task, manager)).collect();
    printer.table(&table::render(&["Task", "Score", "Pinned", "Installed"].map(str::to_owned), &rows, 4))?;
    let rows: Vec<Vec<String>> = recipe.rows.all().map(|row| vec![row.name.clone(), row.formula()]).collect();
    if !rows.is_empty() {
        printer.result("\n")?;
        printer.table(&table::render(&["Row", "Computed as"].map(str::to_owned), &rows, 2))?;
    }
    let rows: Vec<Vec<String>> = recipe
        .expected
        .iter()
        .flat_map(|expected| {
            expected.scores.iter().map(|score| {
                let mut cells = vec![expected.model.clone()];
                let [name, numbers @ ..] = score_cells(score);
                cells.extend([name, expected.grade.name().to_owned(), expected.source.clone()]);
                cells.extend(numbers);
                cells
            })
        })
        .collect();
    if !rows.is_empty() {
        printer.result("\n")?;
        let headers = ["Model", "Score", "Grade", "Source", "Published", "Stderr", "n"];
        printer.table(&table::render(&headers.map(str::to_owned), &rows, 4))?;
    }
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().flat_map(|line| ["  ", line, "\n"]).collect()
}

fn task_cells(task: &RecipeTask, manager: &TaskManager) -> Vec<String> {
    let score = match (&task.metric, &task.filter) {
        (Some(metric), Some(filter)) => format!("{metric},{filter}"),
        (Some(metric), None) => metric.clone(),
        _ => String::new(),
    };
    let found = installed(task, manager);
    let installed = match (&task.pin, found) {
        (_, None) => "not installed".to_owned(),
        (Some(pin), Some(found)) if *pin == found => "as pinned".to_owned(),
        (_, Some(found)) => found,
    };
    vec![task.word.clone(), score, task.pin.clone().unwrap_or_default(), installed]
}

/// A score with its value, standard error and number of documents.
fn score_cells(score: &ExpectedScore) -> [String; 4] {
    let name = match &score.of {
        Scored::Row(row) => row.clone(),
        Scored::Task(task) => {
            let metric = score.metric.as_deref().unwrap_or_default();
            let filter = score.filter.as_ref().map(|filter| format!(",{filter}")).unwrap_or_default();
            format!("{task} {metric}{filter}")
        }
    };
    let shown = |number: Option<String>| number.unwrap_or_default();
    [
        name,
        score.value.to_string(),
        shown(score.stderr.map(|stderr| stderr.to_string())),
        shown(score.documents.map(|count| count.to_string())),
    ]
}
