//! Arguments of the commands that score stored answers again.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::settings::{
    Choices, Compat, LibraryArgs, Options, PythonArgs, Reductions, RunSettings, TaskNames,
};

/// The answers of a stored run, and the tasks that score them.
#[derive(Args, Debug)]
pub(crate) struct StoredArgs {
    /// A results file, a samples file, a journal, or a folder with the results of one model.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,

    /// Score these tasks instead of those of the run: names, patterns, `task@format`, `group::task` or YAML files.
    #[arg(short, long, alias = "task", value_name = "TASKS", num_args = 1..)]
    pub tasks: Option<Vec<TaskNames>>,

    /// How the answers to each document become one value: `avg@16,pass@1,maj@16`. [default: as in the run]
    #[arg(long, value_name = "NAMES", num_args = 1..)]
    pub reductions: Option<Vec<Reductions>>,

    /// Score the other documents if some have no stored answer.
    #[arg(long)]
    pub partial: bool,

    /// Take the answers of the model whose identity contains this string, if a journal has several.
    #[arg(long, value_name = "TEXT")]
    pub model: Option<String>,

    /// Follow the rules of this lm-eval release line: `0.5` or `0.4`. [default: that of the run]
    #[arg(long, value_name = "VERSION")]
    pub compat: Option<Compat>,

    /// How multiple-choice options were compared: `letters` or `generate`. [default: as in the run]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub choices: Option<Choices>,

    /// A YAML settings file as for `run`, for a run without a results file.
    #[arg(short = 'C', long, value_name = "FILE")]
    pub config: Option<String>,

    /// Allow tasks that run code written by the model.
    #[arg(long = "confirm_run_unsafe_code", alias = "confirm-run-unsafe-code")]
    pub confirm_run_unsafe_code: bool,

    /// Where to look for tasks.
    #[command(flatten)]
    pub library: LibraryArgs,

    /// The Python that runs task functions.
    #[command(flatten)]
    pub python: PythonArgs,
}

impl StoredArgs {
    /// The answers of a run, scored as the run was, as far as there are any.
    pub(crate) fn of(results: &Path) -> Self {
        Self {
            run: results.to_owned(),
            tasks: None,
            reductions: None,
            // Documents whose requests failed have no answer.
            partial: true,
            model: None,
            compat: None,
            choices: None,
            config: None,
            confirm_run_unsafe_code: false,
            library: LibraryArgs::default(),
            python: PythonArgs::default(),
        }
    }

    /// The answers of a run that has just ended, by its own settings.
    pub(crate) fn of_run(results: &Path, settings: &RunSettings) -> Self {
        Self {
            tasks: Some(settings.documents.tasks.iter().cloned().map(TaskNames::from).collect()),
            confirm_run_unsafe_code: settings.scoring.confirm_run_unsafe_code,
            library: settings.library.clone(),
            python: settings.python.clone(),
            ..Self::of(results)
        }
    }

    /// The arguments as those of `run`.
    pub(crate) fn options(&self) -> Options {
        Options {
            config: self.config.clone(),
            tasks: self.tasks.clone(),
            reductions: self.reductions.clone(),
            compat: self.compat.clone(),
            choices: self.choices,
            confirm_run_unsafe_code: self.confirm_run_unsafe_code.then_some(true),
            library: self.library.clone(),
            python: self.python.clone(),
            ..Options::default()
        }
    }
}
