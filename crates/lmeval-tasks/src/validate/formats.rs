//! Checks the templates of a task, and those that its prompt formats generate.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::templates::{TemplateProblem, sources, templated_fields};
use super::{Checker, Finding, add};
use crate::config::{ConfigPath, TaskConfig, check, value_text};
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::formats::{locate, resolve};
use crate::manager::Task;
use crate::source::{Mapping, Origin};

/// The fields that every format generates.
const FORMAT_FIELDS: [&str; 3] = ["doc_to_text", "doc_to_target", "doc_to_choice"];

impl Checker<'_> {
    /// Checks the templates of a task, and every entry of its `formats` table.
    pub(super) fn prompts(&self, task: &Task, findings: &mut Vec<Finding>) {
        let name = match &task.config.format {
            Some(format) => task.name().strip_suffix(&format!("@{format}")).unwrap_or(task.name()),
            None => task.name(),
        };
        self.templates_of(name, &task.config, task.mapping(), findings);
        let table = match task.mapping().get("formats") {
            Some(Value::Dict(table)) if !table.contains_str("type") => table,
            _ => return,
        };
        for key in table.keys() {
            if task.config.format.as_deref() != key.as_str() || key.as_str().is_none() {
                self.entry(name, key, task, findings);
            }
        }
    }

    /// Checks a format of the task other than the loaded one.
    fn entry(&self, name: &str, key: &Value, task: &Task, findings: &mut Vec<Finding>) {
        let mut report = check::Report::default();
        let full_name = format!("{name}@{}", value_text(key));
        let path = ConfigPath::key("formats");
        let Some(key) = key.as_str() else {
            let message = format!("The name of a format must be a str, not {}", key.type_name());
            let error = Error::new(ErrorKind::Type, message)
                .at(locate(task.mapping(), path.then(value_text(key).as_str()).steps()))
                .hint("Put the name in quotes");
            report.errors.push(error.into_diagnostic());
            return add(findings, &full_name, report);
        };
        let mut mapping = task.mapping().clone();
        mapping.insert("_formats_selection", key, Origin::Override);
        let formats = self.manager.registry();
        // Warnings about the task itself were already reported.
        let mut warnings: Vec<Diagnostic> = Vec::new();
        let typed = if task.config.class.is_some() {
            TaskConfig::from_class_mapping(&mapping, formats, &mut warnings)
        } else {
            TaskConfig::from_mapping_with(&mapping, formats, &mut warnings)
        };
        match typed {
            Err(error) => report.errors.push(error.into_diagnostic()),
            Ok(config) => {
                check::scorer(&config, &mapping, self.manager.registry(), &mut report);
                self.templates_of(name, &config, &mapping, findings);
            }
        }
        add(findings, &full_name, report);
    }

    fn templates_of(&self, name: &str, config: &TaskConfig, mapping: &Mapping, findings: &mut Vec<Finding>) {
        let format = config
            .format
            .as_deref()
            .and_then(|format| resolve(&config.formats, Some(format), self.manager.registry(), mapping).ok());
        for (steps, field) in templated_fields(config) {
            let made_by = format.as_ref().filter(|format| match steps {
                [key] => {
                    FORMAT_FIELDS.contains(key)
                        || (*key == "gen_prefix" && format.format.gen_prefix.is_some())
                }
                _ => false,
            });
            for (position, source) in sources(field) {
                let Some(problem) = self.templates.problem(source) else { continue };
                let finding = match made_by {
                    Some(format) => {
                        let (path, problem) = self
                            .culprit(&format.name, mapping)
                            .unwrap_or_else(|| (ConfigPath::key("formats").then(&*format.name), problem));
                        finding(&format!("{name}@{}", format.name), &path, &problem, mapping)
                    }
                    None => {
                        let path = steps.iter().fold(ConfigPath::default(), |path, step| path.then(*step));
                        let item = position.map_or_else(|| path.clone(), |position| path.then(position));
                        let mut finding = finding(name, &path, &problem, mapping);
                        finding.diagnostic.location = item.locate(mapping);
                        finding
                    }
                };
                findings.push(finding);
            }
        }
    }

    /// The invalid part of an invalid template: a field of the task or of the format.
    fn culprit(&self, format: &str, mapping: &Mapping) -> Option<(ConfigPath, Arc<TemplateProblem>)> {
        let own = FORMAT_FIELDS.into_iter().filter_map(|key| {
            let source = mapping.get(key)?.as_str()?;
            let is_template = source.contains("{{") || source.contains("{%");
            let template = if is_template { source.to_owned() } else { format!("{{{{{source}}}}}") };
            Some((ConfigPath::key(key), Arc::from(template)))
        });
        let formats = ConfigPath::key("formats");
        let (path, entry) = match mapping.get("formats").and_then(Value::as_dict) {
            Some(single) if single.contains_str("type") => (formats, Some(single)),
            Some(table) => (formats.then(format), table.get_str(format).and_then(Value::as_dict)),
            None => (formats, None),
        };
        let texts = entry.into_iter().flat_map(Dict::iter).filter_map(|(option, value)| match value {
            Value::Str(text) => Some((path.then(option.as_str()?), Arc::clone(text))),
            _ => None,
        });
        own.chain(texts).find_map(|(path, source)| Some((path, self.templates.problem(&source)?)))
    }
}

fn finding(name: &str, path: &ConfigPath, problem: &TemplateProblem, mapping: &Mapping) -> Finding {
    let message = format!("The template of `{path}` is invalid: {}", problem.message);
    let error = Error::new(ErrorKind::Value, message).at(locate(mapping, path.steps()));
    let error = problem.hints.iter().fold(error, |error, hint| error.hint(hint.clone()));
    Finding { name: Some(name.to_owned()), severity: problem.severity, diagnostic: error.into_diagnostic() }
}
