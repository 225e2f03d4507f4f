//! Finds and compiles the templates of tasks.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_pycompat::Value;
use lmeval_template::Environment;
use rustc_hash::FxHashMap;

use super::Severity;
use crate::config::{Field, TaskConfig};

/// Each field that may contain a template, with its keys. Few-shot fields that are inherited from the task are skipped.
pub(super) fn templated_fields(config: &TaskConfig) -> Vec<(&'static [&'static str], &Field)> {
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

/// The template sources of a field; list items with their index.
pub(super) fn sources(field: &Field) -> Vec<(Option<usize>, &Arc<str>)> {
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
pub(super) struct Templates {
    environment: Environment,
    known: Mutex<FxHashMap<Arc<str>, Option<Arc<TemplateProblem>>>>,
}

/// Why a template is invalid.
pub(super) struct TemplateProblem {
    pub(super) severity: Severity,
    pub(super) message: String,
    pub(super) hints: Vec<String>,
}

impl Templates {
    /// Why a template is invalid; `None` if it compiles.
    pub(super) fn problem(&self, source: &Arc<str>) -> Option<Arc<TemplateProblem>> {
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
                    Some(line) if source.contains('\n') => {
                        format!("line {line} of the template: {}", error.message())
                    }
                    _ => error.message().to_owned(),
                };
                Some(TemplateProblem { severity: Severity::Error, message, hints: error.hints().to_vec() })
            }
            Ok(template) => {
                let missing: Vec<String> =
                    template.unresolved_names().iter().map(|name| format!("`{name}`")).collect();
                (!missing.is_empty()).then(|| TemplateProblem {
                    severity: Severity::Warning,
                    message: format!("unknown filter or test {}", missing.join(", ")),
                    hints: vec![
                        "It is inside a condition, so a run only fails when it is reached".to_owned(),
                    ],
                })
            }
        }
    }
}
