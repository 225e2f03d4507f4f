//! Reads the file of a recipe.

use lmeval_core::{Diagnostic, nearest};
use lmeval_pycompat::Dict;
use lmeval_tasks::TaskOptions;

use super::rows::{Rows, Term};
use super::{Expected, ExpectedScore, Grade, Recipe, RecipeTask, SETTINGS, Scored};
use crate::Error;
use crate::document::{Document, Node};

const KEYS: [&str; 11] = [
    "recipe",
    "version",
    "description",
    "source",
    "notes",
    "strict",
    "settings",
    "tasks",
    "rows",
    "total",
    "expected",
];

impl Recipe {
    /// Reads a recipe.
    pub fn from_document(document: &Document) -> Result<Self, Error> {
        let root = document.root();
        if root.value().as_dict().is_none_or(|keys| !keys.contains_str("recipe")) {
            return Err(Diagnostic::new("This file is not a recipe")
                .at(root.location())
                .hint("A recipe begins with its name, as in `recipe: my-suite`")
                .into());
        }
        root.check_keys(&KEYS)?;
        let tasks = tasks(&root)?;
        let rows = Rows::read(&root)?;
        check_rows(&root, &rows, &tasks)?;
        let text = |key: &str| root.get(key)?.map(|node| node.text()).transpose();
        let notes = root.get("notes")?.map(|notes| notes.items_or_one()).transpose()?.unwrap_or_default();
        let settings = match root.get("settings")? {
            Some(settings) => {
                settings.check_keys(&SETTINGS)?;
                settings.value().as_dict().cloned().unwrap_or_default()
            }
            None => Dict::new(),
        };
        let expected = root.get("expected")?.map(|list| list.items()).transpose()?.unwrap_or_default();
        let expected =
            expected.iter().map(|node| read_expected(node, &tasks, &rows)).collect::<Result<_, _>>()?;
        Ok(Self {
            name: root.need("recipe")?.text()?,
            version: root.get("version")?.map_or(Ok(1), |version| version.count(1))?,
            description: text("description")?.unwrap_or_default(),
            source: text("source")?,
            notes: notes.iter().map(Node::text).collect::<Result<_, _>>()?,
            is_strict: root.get("strict")?.is_some_and(|strict| strict.truth().unwrap_or_default()),
            settings,
            tasks,
            rows,
            expected,
            document: document.clone(),
        })
    }
}

fn tasks(root: &Node<'_>) -> Result<Vec<RecipeTask>, Error> {
    let mut tasks: Vec<RecipeTask> = Vec::new();
    for node in root.need("tasks")?.items()? {
        let task = task(&node)?;
        if tasks.iter().any(|other| other.word == task.word) {
            return Err(node.error(format!("`{}` is listed twice", task.word)));
        }
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(root.need("tasks")?.error("A recipe needs at least one task"));
    }
    Ok(tasks)
}

/// A name with options behind it, or a mapping.
fn task(node: &Node<'_>) -> Result<RecipeTask, Error> {
    let at = |error: lmeval_tasks::Error| -> Error { error.into_diagnostic().at(node.location()).into() };
    if node.value().as_dict().is_none() {
        let word = node.text()?;
        check_name(node, TaskOptions::split(&word).map_err(at)?.0)?;
        return Ok(RecipeTask { word, metric: None, filter: None, pin: None });
    }
    node.check_keys(&[
        "task",
        "num_fewshot",
        "repeats",
        "reductions",
        "limit",
        "format",
        "metric",
        "filter",
        "pin",
    ])?;
    let mut word = node.need("task")?.text()?;
    if let Some(format) = node.get("format")? {
        word = format!("{word}@{}", format.text()?);
    }
    if let Some(shots) = node.get("num_fewshot")? {
        word = format!("{word}:{}", shots.count(0)?);
    }
    for key in ["repeats", "limit"] {
        if let Some(count) = node.get(key)? {
            word = format!("{word}:{key}={}", count.count(1)?);
        }
    }
    if let Some(reductions) = node.get("reductions")? {
        let names: Vec<String> =
            reductions.items_or_one()?.iter().map(Node::text).collect::<Result<_, _>>()?;
        word = format!("{word}:reductions={}", names.join("+"));
    }
    let (name, options) = TaskOptions::split(&word).map_err(at)?;
    check_name(node, name)?;
    let word = format!("{name}{options}");
    let text = |key: &str| node.get(key)?.map(|node| node.text()).transpose();
    Ok(RecipeTask { word, metric: text("metric")?, filter: text("filter")?, pin: text("pin")? })
}

/// Recipes name tasks of the library: a path would be another file on every machine.
fn check_name(node: &Node<'_>, name: &str) -> Result<(), Error> {
    let is_path = std::path::Path::new(name).extension().is_some_and(|end| end == "yaml" || end == "yml");
    if !is_path && !name.contains(['/', '\\', '*', '?', '[', ',', ' ']) {
        return Ok(());
    }
    Err(Diagnostic::new(format!("`{name}` is not the name of a task or group"))
        .at(node.location())
        .hint("A recipe names tasks of the library, or of the folders given with `--include_path`")
        .into())
}

/// Every score that a row is made of must come from the run.
fn check_rows(root: &Node<'_>, rows: &Rows, tasks: &[RecipeTask]) -> Result<(), Error> {
    let all: Vec<&str> = rows.all().map(|row| row.name.as_str()).collect();
    for (index, row) in rows.all().enumerate() {
        let place =
            || root.get("rows").ok().flatten().and_then(|rows| rows.items().ok()?.into_iter().nth(index));
        let wrong = |message: String| match place() {
            Some(node) => node.error(message),
            None => root.error(message),
        };
        if all[..index].contains(&row.name.as_str()) {
            return Err(wrong(format!("There are two rows `{}`", row.name)));
        }
        for term in &row.of {
            let Term::Row(name) = term else { continue };
            if !all[..index].contains(&name.as_str()) {
                return Err(wrong(format!(
                    "The row `{}` uses `{name}`, which is not a row above it",
                    row.name
                )));
            }
        }
        let suffixed =
            |name: &str| name.split_once(':').is_some_and(|(_, options)| !options.starts_with(':'));
        for (task, _) in row.tasks().filter(|(task, _)| suffixed(task)) {
            if !tasks.iter().any(|known| known.word == *task) {
                return Err(wrong(format!(
                    "The row `{}` uses `{task}`, which the recipe does not evaluate",
                    row.name
                )));
            }
        }
    }
    Ok(())
}

fn read_expected(node: &Node<'_>, tasks: &[RecipeTask], rows: &Rows) -> Result<Expected, Error> {
    node.check_keys(&["model", "also", "source", "grade", "note", "scores"])?;
    let grade = node.need("grade")?;
    let grades = [Grade::A, Grade::B, Grade::C, Grade::D, Grade::E];
    let letter = grade.text()?;
    let found = grades.into_iter().find(|grade| grade.name() == letter);
    let also = node.get("also")?.map(|also| also.items_or_one()).transpose()?.unwrap_or_default();
    let scores = node.need("scores")?.items()?;
    Ok(Expected {
        model: node.need("model")?.text()?,
        also: also.iter().map(Node::text).collect::<Result<_, _>>()?,
        source: node.need("source")?.text()?,
        grade: found
            .ok_or_else(|| grade.error(format!("`grade` must be one of A, B, C, D and E, not {letter}")))?,
        note: node.get("note")?.map(|note| note.text()).transpose()?,
        scores: scores.iter().map(|node| score(node, tasks, rows)).collect::<Result<_, _>>()?,
    })
}

fn score(node: &Node<'_>, tasks: &[RecipeTask], rows: &Rows) -> Result<ExpectedScore, Error> {
    node.check_keys(&["task", "row", "metric", "filter", "value", "stderr", "n"])?;
    let of = match (node.get("task")?, node.get("row")?) {
        (Some(task), None) => {
            let word = task.text()?;
            let base = word.split_once("::").map_or(word.as_str(), |(group, _)| group);
            if !tasks.iter().any(|known| known.word == word || known.name() == base || known.name() == word) {
                let known = tasks.iter().map(|task| task.word.as_str());
                return Err(Diagnostic::new(format!("The recipe does not evaluate `{word}`"))
                    .at(task.location())
                    .did_you_mean(&nearest(&word, known))
                    .into());
            }
            Scored::Task(word)
        }
        (None, Some(row)) => {
            let name = row.text()?;
            if !rows.all().any(|known| known.name == name) {
                return Err(row.error(format!("The recipe has no row `{name}`")));
            }
            Scored::Row(name)
        }
        _ => return Err(node.error("A score needs either `task` or `row`")),
    };
    let metric = node.get("metric")?.map(|metric| metric.text()).transpose()?;
    if metric.is_none() && matches!(of, Scored::Task(_)) {
        return Err(node.error("The score of a task needs `metric`"));
    }
    let stderr = node.get("stderr")?.map(|stderr| stderr.number()).transpose()?;
    if stderr.is_some_and(|stderr| stderr < 0.0) {
        return Err(node.error("`stderr` must not be negative"));
    }
    let documents = node.get("n")?.map(|count| count.count(1)).transpose()?;
    Ok(ExpectedScore {
        of,
        metric,
        filter: node.get("filter")?.map(|filter| filter.text()).transpose()?,
        value: node.need("value")?.number()?,
        stderr,
        documents: documents.and_then(|count| usize::try_from(count).ok()),
    })
}
