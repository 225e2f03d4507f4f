//! Checking task definitions without data and without a model.

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

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The task cannot be run.
    Error,
    /// The task can be run, but perhaps not as it is meant.
    Warning,
}

/// Something that validation found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The task or group that was being checked, where there is one.
    pub name: Option<String>,
    /// How serious it is.
    pub severity: Severity,
    /// What, where, and what to try.
    pub diagnostic: Diagnostic,
}

impl TaskManager {
    /// Checks what the specs name: that it loads, that its templates compile, that the names of metrics, filters,
    /// scorers and samplers are known and fit. Nothing is executed and no data is read. A finding that several tasks
    /// share is reported once.
    pub fn validate(&self, specs: &[Spec]) -> Vec<Finding> {
        let checker = Checker { manager: self, loader: Loader::new(), templates: Templates::default() };
        let findings = specs.par_iter().map(|spec| checker.spec(spec)).collect::<Vec<_>>();
        without_repeats(findings.into_iter().flatten())
    }

    /// Checks what was loaded, as [`TaskManager::validate`] does.
    pub fn validate_loaded(&self, loaded: &TaskDict) -> Vec<Finding> {
        let checker = Checker { manager: self, loader: Loader::new(), templates: Templates::default() };
        let mut findings = Vec::new();
        checker.loaded(loaded, &mut findings);
        without_repeats(findings.into_iter())
    }

    /// Checks everything: the files that could not be indexed, and every name of the index.
    pub fn validate_all(&self) -> Vec<Finding> {
        let specs: Vec<Spec> = self.all_tasks().into_iter().map(Spec::from).collect();
        without_repeats(self.unreadable().into_iter().chain(self.validate(&specs)))
    }

    /// The files that could not be indexed, as findings. Files that only others include are no problem.
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

/// The problem with its place. The index keeps no places, so the file is read once more.
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

/// The findings without those that say the same about the same place, whatever the file is called.
fn without_repeats(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut seen = FxHashSet::default();
    let mut is_new = |diagnostic: &Diagnostic| {
        let place = diagnostic.location.as_ref();
        let place = place.map(|place| (identity(place.path()), place.range.clone()));
        seen.insert((place, diagnostic.message.clone()))
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
