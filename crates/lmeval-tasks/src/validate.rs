//! Checking task definitions without data and without a model.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_pycompat::Value;
use lmeval_template::Environment;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::config::{Field, TaskConfig, check};
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::index::Problem;
use crate::manager::{Spec, Task, TaskDict, TaskManager};
use crate::source::{Loader, Step};

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

    /// The files that could not be indexed, as findings. Files that only others include are no problem.
    pub fn unreadable(&self) -> Vec<Finding> {
        let loader = Loader::new();
        let problems = self.index().problems().iter().filter(|problem| !problem.is_template());
        problems
            .map(|problem| Finding { name: None, severity: Severity::Error, diagnostic: explained(problem, &loader) })
            .collect()
    }
}

/// The problem with its place. The index keeps no places, so the file is read once more.
fn explained(problem: &Problem, loader: &Loader) -> Diagnostic {
    let mut diagnostic = match loader.load(&problem.path) {
        Err(error) => error.into_diagnostic(),
        Ok(mapping) => {
            let mut diagnostic = problem.error.diagnostic().clone();
            let key = ["task", "group", "tag", "class"].into_iter().find(|key| {
                mapping.contains(key) && diagnostic.message.contains(&format!("`{key}`"))
            });
            diagnostic.location = key.and_then(|key| mapping.locate(&[Step::from(key)]));
            diagnostic
        }
    };
    if diagnostic.location.is_none() {
        diagnostic.message = format!("{}: {}", problem.path.display(), diagnostic.message);
    }
    diagnostic
}

fn without_repeats(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut seen = FxHashSet::default();
    findings.filter(|finding| seen.insert(finding.diagnostic.to_string())).collect()
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
        for (name, task) in &loaded.tasks {
            let mut add = |severity, diagnostic| {
                findings.push(Finding { name: Some(name.clone()), severity, diagnostic });
            };
            if task.config.class.is_none() {
                let mut report = check::Report::default();
                check::names(&task.config, task.mapping(), &mut report);
                report.errors.into_iter().for_each(|diagnostic| add(Severity::Error, diagnostic));
                report.warnings.into_iter().for_each(|diagnostic| add(Severity::Warning, diagnostic));
            }
            for (severity, error) in self.template_problems(task) {
                add(severity, error.into_diagnostic());
            }
        }
    }

    fn template_problems(&self, task: &Task) -> Vec<(Severity, Error)> {
        let mut errors = Vec::new();
        for (steps, field) in templated_fields(&task.config) {
            for (extra, source) in sources(field) {
                let Some(problem) = self.templates.problem(source) else { continue };
                let mut place: Vec<Step> = steps.iter().map(|step| Step::from(*step)).collect();
                place.extend(extra.map(Step::from));
                let message = format!("The template of `{}` is wrong: {}", steps.join("."), problem.message);
                let error = Error::new(ErrorKind::Value, message).at(task.mapping().locate(&place));
                let error = problem.hints.iter().fold(error, |error, hint| error.hint(hint.clone()));
                errors.push((problem.severity, error));
            }
        }
        errors
    }
}

/// Each field that may hold a template, with the keys that lead to it. A few-shot field that only inherits the task's
/// is the same template.
fn templated_fields(config: &TaskConfig) -> Vec<(&'static [&'static str], &Field)> {
    let fewshot = &config.fewshot_config;
    let mut fields: Vec<(&'static [&'static str], &Option<Field>)> = vec![
        (&["description"], &config.description),
        (&["doc_to_text"], &config.doc_to_text),
        (&["doc_to_choice"], &config.doc_to_choice),
        (&["doc_to_target"], &config.doc_to_target),
        (&["gen_prefix"], &config.gen_prefix),
        (&["doc_to_image"], &config.doc_to_image),
        (&["doc_to_audio"], &config.doc_to_audio),
    ];
    if fewshot.doc_to_text != config.doc_to_text {
        fields.push((&["fewshot_config", "doc_to_text"], &fewshot.doc_to_text));
    }
    if fewshot.doc_to_choice != config.doc_to_choice {
        fields.push((&["fewshot_config", "doc_to_choice"], &fewshot.doc_to_choice));
    }
    if fewshot.doc_to_target != config.doc_to_target {
        fields.push((&["fewshot_config", "doc_to_target"], &fewshot.doc_to_target));
    }
    if fewshot.gen_prefix != config.gen_prefix {
        fields.push((&["fewshot_config", "gen_prefix"], &fewshot.gen_prefix));
    }
    fields.into_iter().filter_map(|(steps, field)| field.as_ref().map(|field| (steps, field))).collect()
}

/// The template sources of a field; those of a list with their position.
fn sources(field: &Field) -> Vec<(Option<usize>, &Arc<str>)> {
    match field {
        Field::Text(source) => vec![(None, source)],
        Field::List(items) => items
            .iter()
            .enumerate()
            .filter_map(|(position, item)| match item {
                Value::Str(source) => Some((Some(position), source)),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Compiles each distinct template once.
#[derive(Default)]
struct Templates {
    environment: Environment,
    known: Mutex<FxHashMap<Arc<str>, Option<Arc<TemplateProblem>>>>,
}

struct TemplateProblem {
    severity: Severity,
    message: String,
    hints: Vec<String>,
}

impl Templates {
    fn problem(&self, source: &Arc<str>) -> Option<Arc<TemplateProblem>> {
        if !source.contains(['{', '}']) {
            return None;
        }
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(source) {
            return known.clone();
        }
        let problem = self.compile(source).map(Arc::new);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(source), problem.clone());
        problem
    }

    fn compile(&self, source: &str) -> Option<TemplateProblem> {
        match self.environment.compile(source) {
            Err(error) => {
                let message = match error.line() {
                    Some(line) if source.contains('\n') => format!("line {line} of the template: {}", error.message()),
                    _ => error.message().to_owned(),
                };
                Some(TemplateProblem { severity: Severity::Error, message, hints: error.hints().to_vec() })
            }
            Ok(template) => {
                let missing: Vec<String> = template.unresolved_names().iter().map(|name| format!("`{name}`")).collect();
                (!missing.is_empty()).then(|| TemplateProblem {
                    severity: Severity::Warning,
                    message: format!("there is no filter or test named {}", missing.join(", ")),
                    hints: vec!["It stands inside a condition, so a run fails only when it gets there".to_owned()],
                })
            }
        }
    }
}
