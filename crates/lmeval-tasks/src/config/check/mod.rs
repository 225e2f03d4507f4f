//! Checks every name in a task: filters, metrics, aggregations, reductions, scorers and samplers.
//!
//! Mistakes that would fail a run after hours of inference are found before the first request.

mod definition;
mod filters;
mod metrics;

pub use definition::functions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_pycompat::re::{self, Flags, Regex};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::judge::SpecProblem;
use lmeval_scoring::registry::{OptionKind, OptionProblem, OptionTable, Registry, UnknownName};
use lmeval_scoring::scorers::ScoreError;

use super::path::{ConfigPath, Named};
use super::task::TaskConfig;
use super::words::{listed, shortened};
use crate::error::{Diagnostic, Error, ErrorKind, Location};
use crate::formats;
use crate::source::{Mapping, Step, folder_of};

/// The findings of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Problems that prevent a run.
    pub errors: Vec<Diagnostic>,
    /// Settings that work, but probably not as intended.
    pub warnings: Vec<Diagnostic>,
}

/// Looks up every name of a task in the built-in registry and checks its arguments.
///
/// `mapping` is the mapping that the configuration was read from; it provides the locations.
pub fn names(config: &TaskConfig, mapping: &Mapping, report: &mut Report) {
    names_with(config, mapping, &Registry::default(), report);
}

/// Looks up every name of a task in `registry` and checks its arguments.
pub fn names_with(config: &TaskConfig, mapping: &Mapping, registry: &Registry, report: &mut Report) {
    let mut checker = Checker { config, mapping, registry, report };
    checker.sampler();
    checker.scorer();
    checker.pipelines();
}

/// Runs every check that needs neither data nor a model: names, arguments and required keys.
///
/// A Python task class may omit most keys.
pub fn task(config: &TaskConfig, mapping: &Mapping, registry: &Registry, report: &mut Report) {
    functions(mapping, report);
    if config.class.is_some() {
        return;
    }
    let mut checker = Checker { config, mapping, registry, report };
    checker.data();
    checker.choices();
    checker.generation();
    names_with(config, mapping, registry, report);
}

/// Looks up the scorer of a task, which one of its prompt formats may set.
pub(crate) fn scorer(config: &TaskConfig, mapping: &Mapping, registry: &Registry, report: &mut Report) {
    Checker { config, mapping, registry, report }.scorer();
}

/// The first Python module in a folder that seems to register something; `utils.py` comes first.
fn registering_module(folder: &Path) -> Option<String> {
    let files = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let mut modules: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|file| file.extension().is_some_and(|end| end == "py"))
        .collect();
    modules.sort_by_key(|module| (!module.ends_with("utils.py"), module.clone()));
    let registers = |module: &PathBuf| {
        let text = fs_err::read(module).unwrap_or_default();
        text.windows(REGISTERS.len()).any(|part| part == REGISTERS)
    };
    let module = modules.into_iter().find(registers)?;
    module.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// The common prefix of registering decorators.
const REGISTERS: &[u8] = b"register_";

struct Checker<'a> {
    config: &'a TaskConfig,
    mapping: &'a Mapping,
    registry: &'a Registry,
    report: &'a mut Report,
}

impl Checker<'_> {
    fn sampler(&mut self) {
        let Named::Name(name) = &self.config.fewshot_config.sampler else {
            return;
        };
        if let Err(unknown) = self.registry.samplers.find(name) {
            let path = ConfigPath::key("fewshot_config").then("sampler");
            self.unknown(ErrorKind::UnknownName, &path, &unknown);
        }
    }

    fn scorer(&mut self) {
        let Some(scorer) = &self.config.scorer else { return };
        match self.registry.scorers.find(&scorer.kind) {
            Err(unknown) => self.unknown(ErrorKind::UnknownName, &scorer.path, &unknown),
            Ok(entry) => {
                let subject = format!("The scorer `{}`", scorer.kind);
                let output_type = self.config.output_type;
                if !self.config.scores_itself() && !entry.output_types.contains(&output_type) {
                    let types: Vec<&str> = entry.output_types.iter().map(|kind| kind.name()).collect();
                    let message = format!(
                        "{subject} is for {}, but the task's output type is {output_type}",
                        types.join(" and ")
                    );
                    self.error(&scorer.path, Error::new(ErrorKind::Value, message));
                }
                let before = self.report.errors.len();
                let make = entry.code.rust().filter(|_| entry.is_built_in()).cloned();
                self.options(&subject, &scorer.path, &entry.options, &scorer.kwargs);
                if let Some(make) = make.filter(|_| self.report.errors.len() == before)
                    && let Err(ScoreError::ScorerSetting { problem, .. }) = make(&scorer.kwargs)
                {
                    self.setting(&subject, &scorer.path, &problem);
                }
            }
        }
    }

    /// Reports an option that a scorer cannot work with, at the innermost key that is in the file.
    fn setting(&mut self, subject: &str, scorer: &ConfigPath, problem: &SpecProblem) {
        let mut path = match problem.path.first() {
            Some(option) => self.option_path(scorer, option),
            None => scorer.clone(),
        };
        for step in problem.path.iter().skip(1) {
            let inner = path.then(step.as_str());
            if self.locate(&inner).is_none() {
                break;
            }
            path = inner;
        }
        let message = format!("{subject}: {}", problem.message);
        let error = Error::new(ErrorKind::Value, message);
        let error = problem.hints.iter().fold(error, |error, hint| error.hint(hint.as_str()));
        let path = if self.locate(&path).is_some() { path } else { scorer.clone() };
        self.error(&path, error);
    }

    fn pipelines(&mut self) {
        let config = self.config;
        let mut names: Vec<&str> = Vec::new();
        let mut checked: Vec<&ConfigPath> = Vec::new();
        for pipeline in &config.filter_list {
            if names.contains(&pipeline.name.as_str()) {
                let message = format!("Two pipelines are named `{}`; the last one wins", pipeline.name);
                self.warn(&pipeline.path.then("name"), message);
            }
            names.push(&pipeline.name);
            for step in &pipeline.filter {
                self.filter(step);
            }
            for metric in &pipeline.metric_list {
                // Pipelines that inherit the task's metrics share their paths.
                if !checked.contains(&&metric.path) {
                    checked.push(&metric.path);
                    self.metric(metric);
                }
            }
        }
    }

    /// The location of a value; for a value set by a format, the location that selected the format.
    fn locate(&self, path: &ConfigPath) -> Option<Location> {
        path.locate(self.mapping).or_else(|| {
            let format = self.config.format.as_ref()?;
            formats::locate(self.mapping, &["formats".into(), Step::Key(Arc::clone(format))])
        })
    }

    fn error(&mut self, path: &ConfigPath, error: Error) {
        let error = error.at(self.locate(path));
        self.report.errors.push(error.into_diagnostic());
    }

    fn warn(&mut self, path: &ConfigPath, message: impl Into<String>) {
        let location = self.locate(path);
        self.report.warnings.push(Diagnostic::new(message).at(location));
    }

    fn unknown(&mut self, kind: ErrorKind, path: &ConfigPath, unknown: &UnknownName) {
        if self.may_be_registered(path, unknown) {
            return;
        }
        let near: Vec<&str> = unknown.nearest.iter().map(String::as_str).collect();
        let message = format!("`{path}`: `{}` is not a known {}", shortened(&unknown.name), unknown.kind);
        let error =
            Error::new(kind, message).did_you_mean(&near).hint(format!("Known: {}", listed(&unknown.known)));
        self.error(path, error);
    }

    /// Warns about a name that Python code next to the task file may register; only running it would show.
    fn may_be_registered(&mut self, path: &ConfigPath, unknown: &UnknownName) -> bool {
        let locations = [self.locate(path), self.locate(&ConfigPath::key("task"))];
        let mut folders = locations.iter().flatten().filter_map(|location| folder_of(location.path()));
        let Some(module) = folders.find_map(registering_module) else { return false };
        let (name, kind) = (shortened(&unknown.name), unknown.kind);
        let message = format!(
            "`{path}`: the {kind} `{name}` is not built in; `{module}` may register it when Python imports it"
        );
        self.warn(path, message);
        if let (Some(last), false) = (self.report.warnings.last_mut(), unknown.nearest.is_empty()) {
            last.hints.push(format!("If it does not: did you mean `{}`?", unknown.nearest.join("` or `")));
        }
        true
    }

    /// Reports invalid keyword arguments. They are given next to the name or under `kwargs`.
    fn options(&mut self, subject: &str, path: &ConfigPath, table: &OptionTable, given: &Dict) {
        self.patterns(path, table, given);
        for problem in table.check(given) {
            let option_path = self.option_path(path, problem.option());
            let fatal = problem.is_fatal();
            let (kind, message, near) = match problem {
                OptionProblem::Unknown { name, nearest, fatal: true } => {
                    (ErrorKind::Type, format!("{subject} has no option `{name}`"), nearest)
                }
                OptionProblem::Unknown { name, nearest, .. } => {
                    let message = format!("{subject} has no option `{name}`, so it has no effect");
                    (ErrorKind::Type, message, nearest)
                }
                OptionProblem::Missing { name } => {
                    (ErrorKind::Type, format!("{subject} needs the option `{name}`"), Vec::new())
                }
                OptionProblem::WrongType { name, expected, found, .. } => {
                    let message = format!("{subject}: the option `{name}` must be {expected}, not {found}");
                    (ErrorKind::Type, message, Vec::new())
                }
            };
            let near: Vec<&str> = near.iter().map(String::as_str).collect();
            if fatal {
                let mut error = Error::new(kind, message).did_you_mean(&near);
                if !table.known.is_empty() {
                    let names: Vec<&str> = table.known.iter().map(|option| &*option.name).collect();
                    error = error.hint(format!("The options are {}", listed(&names)));
                }
                self.error(&option_path, error);
            } else if !near.is_empty() {
                // A near miss is probably a typo. Other unknown options are common and harmless.
                self.warn(&option_path, message);
                if let Some(last) = self.report.warnings.last_mut() {
                    last.hints.push(format!("Did you mean `{}`?", near.join("` or `")));
                }
            }
        }
    }

    /// Compiles the regular expressions in keyword arguments.
    fn patterns(&mut self, path: &ConfigPath, table: &OptionTable, given: &Dict) {
        for option in table.known.iter() {
            let Some(value) = given.get_str(&option.name) else {
                continue;
            };
            let path = || self.option_path(path, &option.name);
            match (option.kind, value) {
                (OptionKind::Pattern, Value::Str(pattern)) => self.pattern(&path(), pattern),
                (OptionKind::Patterns, Value::List(patterns)) => {
                    let path = path();
                    for (index, pattern) in patterns.iter().enumerate() {
                        if let Some(pattern) = pattern.as_str() {
                            self.pattern(&path.then(index), pattern);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn pattern(&mut self, path: &ConfigPath, pattern: &str) {
        let Err(problem) = Regex::new(pattern, Flags::default()) else {
            return;
        };
        let what = match problem.kind() {
            re::ErrorKind::NotSupported => "is an unsupported regular expression",
            _ => "is not a regular expression",
        };
        let position = problem.position().map(|position| format!(" at position {position}"));
        let message = format!("`{path}` {what}: {}{}", problem.message(), position.unwrap_or_default());
        self.error(path, Error::new(ErrorKind::Value, message));
    }

    fn option_path(&self, path: &ConfigPath, option: &str) -> ConfigPath {
        let mut around = Some(self.mapping.values());
        let mut list: Option<&[Value]> = None;
        for step in path.steps() {
            let value = match step {
                Step::Key(key) => around.and_then(|dict| dict.get_str(key)),
                Step::Index(index) => list.and_then(|list| list.get(*index)),
            };
            around = value.and_then(Value::as_dict);
            list = value.and_then(Value::as_list);
        }
        let flat = around.is_some_and(|dict| dict.contains_str(option) || !dict.contains_str("kwargs"));
        if flat { path.then(option) } else { path.then("kwargs").then(option) }
    }
}
