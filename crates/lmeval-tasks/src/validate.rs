//! Validates task definitions without data and without a model.

mod formats;
mod templates;

use rayon::prelude::*;
use rustc_hash::FxHashSet;

use self::templates::Templates;
use crate::config::check;
use crate::error::Diagnostic;
use crate::index::Problem;
use crate::manager::{Spec, TaskDict, TaskManager};
use crate::source::{Loader, Step, identity};

/// Whether a finding prevents a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The task cannot be run.
    Error,
    /// The task can run, but probably not as intended.
    Warning,
}

/// One problem that validation found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The task or group being checked, if any.
    pub name: Option<String>,
    /// Whether it prevents a run.
    pub severity: Severity,
    /// Message, location and hints.
    pub diagnostic: Diagnostic,
}

impl TaskManager {
    /// Checks that the specs load, that their templates compile, and that the metrics, filters, scorers and samplers
    /// they name are known and fit. Runs nothing and reads no data. A finding shared by several tasks is reported once.
    pub fn validate(&self, specs: &[Spec]) -> Vec<Finding> {
        let checker = Checker { manager: self, loader: Loader::new(), templates: Templates::default() };
        let findings = specs.par_iter().map(|spec| checker.spec(spec)).collect::<Vec<_>>();
        without_repeats(findings.into_iter().flatten())
    }

    /// Checks loaded tasks and groups, as [`TaskManager::validate`] does.
    pub fn validate_loaded(&self, loaded: &TaskDict) -> Vec<Finding> {
        let checker = Checker { manager: self, loader: Loader::new(), templates: Templates::default() };
        let mut findings = Vec::new();
        checker.loaded(loaded, &mut findings);
        without_repeats(findings.into_iter())
    }

    /// Checks every file and every name of the index.
    pub fn validate_all(&self) -> Vec<Finding> {
        let specs: Vec<Spec> = self.all_tasks().into_iter().map(Spec::from).collect();
        without_repeats(self.unreadable().into_iter().chain(self.validate(&specs)))
    }

    /// The files that could not be indexed, as findings. Files that exist only to be included are not reported.
    pub fn unreadable(&self) -> Vec<Finding> {
        let loader = Loader::new();
        let problems = self.index().problems().iter().filter(|problem| !problem.is_template());
        without_repeats(problems.map(|problem| Finding {
            name: None,
            severity: Severity::Error,
            diagnostic: explained(problem, &loader),
        }))
    }
}

/// The problem with its location. The index stores no locations, so the file is read again.
fn explained(problem: &Problem, loader: &Loader) -> Diagnostic {
    let mut diagnostic = match loader.load(&problem.path) {
        Err(error) => error.into_diagnostic(),
        Ok(mapping) => {
            let mut diagnostic = problem.error.diagnostic().clone();
            let key = ["task", "group", "tag", "class"]
                .into_iter()
                .find(|key| mapping.contains(key) && diagnostic.message.contains(&format!("`{key}`")));
            diagnostic.location = key.and_then(|key| mapping.locate(&[Step::from(key)]));
            diagnostic
        }
    };
    if diagnostic.location.is_none() {
        diagnostic.message = format!("{}: {}", problem.path.display(), diagnostic.message);
    }
    diagnostic
}

/// Drops findings that repeat a message at the same location, even if the file has another name.
fn without_repeats(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut seen = FxHashSet::default();
    let mut is_new = |diagnostic: &Diagnostic| {
        let location = diagnostic.location.as_ref();
        let location = location.map(|location| (identity(location.path()), location.range.clone()));
        seen.insert((location, diagnostic.message.clone()))
    };
    findings.filter(|finding| is_new(&finding.diagnostic)).collect()
}

struct Checker<'a> {
    manager: &'a TaskManager,
    loader: Loader,
    templates: Templates,
}

impl Checker<'_> {
    fn spec(&self, spec: &Spec) -> Vec<Finding> {
        let name = match spec {
            Spec::Name(name) => Some(name.clone()),
            Spec::File(path) => Some(path.display().to_string()),
            Spec::Inline(_) => None,
        };
        let finding = |severity, diagnostic| Finding { name: name.clone(), severity, diagnostic };
        match self.manager.load_with(&self.loader, spec) {
            Err(error) => vec![finding(Severity::Error, error.into_diagnostic())],
            Ok(loaded) => {
                let mut findings: Vec<Finding> = loaded
                    .warnings
                    .iter()
                    .map(|warning| finding(Severity::Warning, warning.clone()))
                    .collect();
                self.loaded(&loaded, &mut findings);
                findings
            }
        }
    }

    fn loaded(&self, loaded: &TaskDict, findings: &mut Vec<Finding>) {
        for (name, group) in &loaded.groups {
            let mut report = check::Report::default();
            check::functions(group.mapping(), &mut report);
            add(findings, name, report);
        }
        for (name, task) in &loaded.tasks {
            let mut report = check::Report::default();
            check::task(&task.config, task.mapping(), self.manager.registry(), &mut report);
            add(findings, name, report);
            self.prompts(task, findings);
        }
    }
}

fn add(findings: &mut Vec<Finding>, name: &str, report: check::Report) {
    let finding = |severity| move |diagnostic| Finding { name: Some(name.to_owned()), severity, diagnostic };
    findings.extend(report.errors.into_iter().map(finding(Severity::Error)));
    findings.extend(report.warnings.into_iter().map(finding(Severity::Warning)));
}
