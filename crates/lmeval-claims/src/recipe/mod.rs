//! Recipes: how published scores are made.
//!
//! A recipe is a YAML file with the tasks and settings of a run, the rows that are computed from its scores, and the scores that
//! others got. It only names tasks of the installed library, and pins their content.

mod built_in;
mod read;
mod rows;

use std::path::Path;

use lmeval_core::{Diagnostic, nearest};
use lmeval_pycompat::Dict;
use lmeval_scoring::results::value_checksum;
use lmeval_tasks::TaskOptions;

pub use self::built_in::{FOLDER, built_in, names};
pub use self::rows::{RECIPE, Row, Rows, Term, add_rows, definition};
use crate::Error;
use crate::document::{Document, Step};

/// The settings of a run that a recipe may give: those that decide the scores. Models, folders and permissions are the user's.
pub const SETTINGS: [&str; 11] = [
    "compat",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "system_instruction",
    "gen_kwargs",
    "seed",
    "choices",
    "repeats",
    "reductions",
    "bootstrap_iters",
    "limit",
];

/// How published scores are made, and which they are.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Its name, which is also the name of its group of rows.
    pub name: String,
    /// Incremented whenever a change makes new scores incomparable with earlier ones.
    pub version: i64,
    /// What it is, in a sentence.
    pub description: String,
    /// Where the protocol is described.
    pub source: Option<String>,
    /// What to know before scores are compared.
    pub notes: Vec<String>,
    /// Whether a task that differs from its pin stops the run.
    pub is_strict: bool,
    /// Settings of the run, as a settings file has them.
    pub settings: Dict,
    /// What is evaluated.
    pub tasks: Vec<RecipeTask>,
    /// What is computed from the scores.
    pub rows: Rows,
    /// The scores of others.
    pub expected: Vec<Expected>,
    document: Document,
}

/// One entry of the list of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeTask {
    /// The task as `--tasks` takes it, such as `arc_challenge:25`.
    pub word: String,
    /// The metric that counts.
    pub metric: Option<String>,
    /// The filter pipeline that counts.
    pub filter: Option<String>,
    /// The content of its definition, as [`crate::content`] computes it.
    pub pin: Option<String>,
}

impl RecipeTask {
    /// The name without options.
    pub fn name(&self) -> &str {
        TaskOptions::split(&self.word).map_or(self.word.as_str(), |(name, _)| name)
    }
}

/// The scores of one model.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The model, as its source names it.
    pub model: String,
    /// Other names of the same model.
    pub also: Vec<String>,
    /// Where the scores are published.
    pub source: String,
    /// How exact a reproduction can be.
    pub grade: Grade,
    /// What to know about them.
    pub note: Option<String>,
    /// The scores.
    pub scores: Vec<ExpectedScore>,
}

impl Expected {
    /// Whether the scores are those of a model: its name, with or without its owner, or the last part of a path.
    pub fn is_of(&self, model: &str) -> bool {
        let last = |name: &str| name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_lowercase();
        let names = || std::iter::once(&self.model).chain(&self.also);
        names().any(|name| name.eq_ignore_ascii_case(model)) || names().any(|name| last(name) == last(model))
    }
}

/// How exact a reproduction can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// A results file with configuration and standard errors.
    A,
    /// A printed table with the command or the version.
    B,
    /// The expected value of a CI.
    C,
    /// A model card or a leaderboard.
    D,
    /// Another harness with other prompts.
    E,
}

impl Grade {
    /// The letter.
    pub fn name(self) -> &'static str {
        ["A", "B", "C", "D", "E"][self as usize]
    }

    /// What the letter stands for.
    pub fn meaning(self) -> &'static str {
        [
            "results file with configuration and standard errors",
            "printed table with its command or version",
            "expected value of a CI",
            "model card or leaderboard",
            "another harness with other prompts",
        ][self as usize]
    }
}

/// One published score.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedScore {
    /// The task of the recipe, with its options, or the name of a row.
    pub of: Scored,
    /// The metric; `None` for a row.
    pub metric: Option<String>,
    /// The filter pipeline; `None` for the only one.
    pub filter: Option<String>,
    /// The score.
    pub value: f64,
    /// Its standard error.
    pub stderr: Option<f64>,
    /// The number of documents.
    pub documents: Option<usize>,
}

/// What a published score is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scored {
    /// A task, as the recipe lists it.
    Task(String),
    /// A row, by its name.
    Row(String),
}

impl Recipe {
    /// Opens a recipe by its name, or by the path of its file.
    pub fn open(name_or_path: &str) -> Result<Self, Error> {
        if let Some(document) = built_in(name_or_path)? {
            return Self::from_document(&document);
        }
        let path = Path::new(name_or_path);
        if path.is_file() {
            return Self::from_document(&Document::read(path)?);
        }
        let diagnostic = Diagnostic::new(format!("There is no recipe `{name_or_path}`"));
        Err(diagnostic
            .did_you_mean(&nearest(name_or_path, names()))
            .hint("`lm-eval ls recipes` lists them; a recipe of yours is named by the path of its file")
            .into())
    }

    /// The file as a mapping.
    pub fn written(&self) -> &Dict {
        static NOTHING: std::sync::LazyLock<Dict> = std::sync::LazyLock::new(Dict::new);
        self.document.value().as_dict().unwrap_or(&NOTHING)
    }

    /// Identifies the content of the file, without its comments.
    pub fn digest(&self) -> String {
        value_checksum(self.document.value())
    }

    /// The location of a setting in the file, for errors about its value.
    pub fn locate_setting(&self, name: &str) -> Option<lmeval_core::Location> {
        self.document.locate(&[Step::Key("settings".to_owned()), Step::Key(name.to_owned())])
    }

    /// The tasks that a user selects from it: all without a selection.
    pub fn select(&self, words: &[String]) -> Result<Vec<&RecipeTask>, Error> {
        if words.is_empty() {
            return Ok(self.tasks.iter().collect());
        }
        let is_named = |task: &RecipeTask, word: &str| {
            task.word == *word
                || task.name() == word
                || lmeval_pycompat::fnmatch::Pattern::new(word).matches(task.name())
        };
        for word in words {
            if !self.tasks.iter().any(|task| is_named(task, word)) {
                let known: Vec<&str> = self.tasks.iter().map(|task| task.word.as_str()).collect();
                return Err(Diagnostic::new(format!("The recipe `{}` has no task `{word}`", self.name))
                    .did_you_mean(&nearest(word, known.iter().copied()))
                    .hint(format!("Its tasks are `{}`", known.join("`, `")))
                    .into());
            }
        }
        Ok(self.tasks.iter().filter(|task| words.iter().any(|word| is_named(task, word))).collect())
    }

    /// The scores of a model that others published.
    pub fn expected_of(&self, model: &str) -> impl Iterator<Item = &Expected> + use<'_> {
        let model = model.to_owned();
        self.expected.iter().filter(move |expected| expected.is_of(&model))
    }
}
