//! Tasks implemented by Python classes: the instance describes itself, and the description becomes the configuration.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use super::Task;
use crate::config::TaskConfig;
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::source::{Mapping, Origin};

/// The parts of a task that the instance of its Python class implements, apart from per-document fields.
#[derive(Clone, Debug)]
pub struct ClassTask {
    /// The instance, in Python.
    pub(crate) object: Arc<Function>,
    /// Returns the evaluated documents.
    pub(crate) eval_docs: Option<Arc<Function>>,
    /// Returns the documents that examples are drawn from.
    pub(crate) fewshot_docs: Option<Arc<Function>>,
    /// Whether a document must not be its own example.
    pub(crate) excludes_evaluated: bool,
    /// Whether the instance builds the requests of a document.
    pub(crate) makes_requests: bool,
    /// Whether the instance builds the context of a document.
    pub(crate) makes_context: bool,
}

impl ClassTask {
    /// Whether all documents come from the instance, so that no dataset is loaded.
    pub fn loads_documents(&self) -> bool {
        self.eval_docs.is_some() && self.fewshot_docs.is_some()
    }

    /// Whether the instance builds the requests, which may then be of any type.
    pub fn makes_requests(&self) -> bool {
        self.makes_requests || self.makes_context
    }
}

/// The keys that the task file decides, whatever the class says.
const FILE_KEYS: [&str; 2] = ["task", "_qualified_name"];

impl Task {
    /// The instance's abilities, once [`Task::set_class`] has run.
    pub fn class_task(&self) -> Option<&Arc<ClassTask>> {
        self.class.as_ref()
    }

    /// Applies the description that a host returned for the instance of the task's class.
    ///
    /// Methods of the class become functions of the configuration, so the rest of the run treats it like any other
    /// task.
    pub fn set_class(&mut self, described: &Dict) -> Result<Vec<Diagnostic>, Error> {
        let described = Described(described);
        let Some(object) = described.function("object") else {
            return Err(Error::new(ErrorKind::Value, "The task's class did not describe itself"));
        };
        let mut mapping = Mapping::from_dict(described.dict("config"), &Origin::Inline);
        for key in FILE_KEYS {
            if let Some(value) = self.mapping.get(key) {
                let origin = self.mapping.origin(key).cloned().unwrap_or(Origin::Inline);
                mapping.insert(key, value.clone(), origin);
            }
        }
        let class = self.config.class.clone().map_or(Value::None, Value::Function);
        let effective = described.effective(class, &mapping);
        let mut warnings = Vec::new();
        self.config = TaskConfig::from_class_mapping(&effective, &self.registry, &mut warnings)?;
        self.config.class_version = described.present("version").cloned();
        self.mapping = mapping;
        self.class = Some(Arc::new(ClassTask {
            object,
            eval_docs: described.function("eval_docs"),
            fewshot_docs: described.function("fewshot_docs"),
            excludes_evaluated: described.truth("excludes_evaluated"),
            makes_requests: described.truth("makes_requests"),
            makes_context: described.truth("makes_context"),
        }));
        Ok(warnings)
    }
}

/// An instance's description of itself.
struct Described<'a>(&'a Dict);

impl Described<'_> {
    fn present(&self, key: &str) -> Option<&Value> {
        self.0.get_str(key).filter(|value| !value.is_none())
    }

    fn function(&self, key: &str) -> Option<Arc<Function>> {
        match self.present(key) {
            Some(Value::Function(function)) => Some(Arc::clone(function)),
            _ => None,
        }
    }

    fn dict(&self, key: &str) -> Dict {
        self.present(key).and_then(Value::as_dict).cloned().unwrap_or_default()
    }

    fn truth(&self, key: &str) -> bool {
        self.present(key).is_some_and(Value::is_truthy)
    }

    /// The configuration with the instance's methods filled in.
    fn effective(&self, class: Value, config: &Mapping) -> Mapping {
        let mut effective = config.clone();
        let mut set = |key: &str, value: Value| effective.insert(key, value, Origin::Inline);
        set("class", class);
        for key in ["dataset_path", "dataset_name", "output_type", "process_results"] {
            if let Some(value) = self.present(key) {
                set(key, value.clone());
            }
        }
        if self.truth("unsafe_code") {
            set("unsafe_code", Value::Bool(true));
        }
        for (key, method) in self.dict("fields").iter() {
            set(key.as_str().unwrap_or_default(), method.clone());
        }
        let mut fewshot = written_dict(config, "fewshot_config");
        fewshot.update(&self.dict("example_fields"));
        if !self.truth("is_configurable") {
            // Reference: older task classes write question and answer without a delimiter.
            set(
                "target_delimiter",
                config.get("target_delimiter").cloned().unwrap_or_else(|| Value::str("")),
            );
        }
        if !fewshot.is_empty() {
            set("fewshot_config", Value::from(fewshot));
        }
        let metrics = self.metrics(config);
        if !metrics.is_empty() {
            set("metric_list", Value::from(metrics));
        }
        effective
    }

    /// The metrics of the configuration, and those that the instance aggregates.
    fn metrics(&self, config: &Mapping) -> Vec<Value> {
        let mut metrics = config.get("metric_list").and_then(Value::as_list).unwrap_or_default().to_vec();
        let directions = self.dict("higher_is_better");
        for (name, aggregation) in self.dict("aggregation").iter() {
            let is_this = |metric: &Value| {
                metric.as_dict().is_some_and(|metric| metric.get_str("metric") == Some(name))
            };
            if metrics.iter().any(is_this) {
                continue;
            }
            let mut metric: Dict = [("metric", name.clone()), ("aggregation", aggregation.clone())]
                .into_iter()
                .map(|(key, value)| (Value::str(key), value))
                .collect();
            if let Some(direction @ Value::Bool(_)) = directions.get(name) {
                metric.insert("higher_is_better", direction.clone());
            }
            metrics.push(Value::from(metric));
        }
        metrics
    }
}

fn written_dict(mapping: &Mapping, key: &str) -> Dict {
    mapping.get(key).and_then(Value::as_dict).cloned().unwrap_or_default()
}
