//! Tasks that are Python classes: what the object of the class says becomes the configuration.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use super::Task;
use crate::config::TaskConfig;
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::source::{Mapping, Origin};

/// What the object of a task's class does itself, beside giving values for documents.
#[derive(Clone, Debug)]
pub struct ClassTask {
    /// The object.
    pub(crate) object: Arc<Function>,
    /// What gives the evaluated documents.
    pub(crate) eval_docs: Option<Arc<Function>>,
    /// What gives the documents that examples are drawn from.
    pub(crate) fewshot_docs: Option<Arc<Function>>,
    /// Whether a document must not be among its own examples.
    pub(crate) excludes_evaluated: bool,
    /// Whether it makes the requests of a document.
    pub(crate) makes_requests: bool,
    /// Whether it makes the context of a document.
    pub(crate) makes_context: bool,
}

impl ClassTask {
    /// Whether all documents come from the object, so that no data set has to be loaded.
    pub fn loads_documents(&self) -> bool {
        self.eval_docs.is_some() && self.fewshot_docs.is_some()
    }

    /// Whether the object makes the requests, which may then be of any kind.
    pub fn makes_requests(&self) -> bool {
        self.makes_requests || self.makes_context
    }
}

/// The keys of the task file that count whatever the class makes of them.
const OF_THE_FILE: [&str; 2] = ["task", "_qualified_name"];

impl Task {
    /// What the object of the task's class does, once it is known.
    pub fn class_task(&self) -> Option<&Arc<ClassTask>> {
        self.class.as_ref()
    }

    /// Takes over what the object of the task's class says about itself: the answer of a host that made it.
    ///
    /// Methods of the class become functions of the configuration, so that all else goes as for any other task.
    pub fn set_class(&mut self, described: &Dict) -> Result<Vec<Diagnostic>, Error> {
        let described = Described(described);
        let Some(object) = described.function("object") else {
            return Err(Error::new(ErrorKind::Value, "The class of the task does not say what it is"));
        };
        let mut mapping = Mapping::from_dict(described.dict("config"), &Origin::Inline);
        for key in OF_THE_FILE {
            if let Some(value) = self.mapping.get(key) {
                let origin = self.mapping.origin(key).cloned().unwrap_or(Origin::Inline);
                mapping.insert(key, value.clone(), origin);
            }
        }
        let effective = described.effective(&self.mapping, &mapping);
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

/// What an object says about itself.
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

    /// The configuration with the methods of the object in their places.
    fn effective(&self, file: &Mapping, config: &Mapping) -> Mapping {
        let mut effective = config.clone();
        let mut set = |key: &str, value: Value| effective.insert(key, value, Origin::Inline);
        set("class", file.get("class").cloned().unwrap_or_default());
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
            // Reference: classes of the older kind write question and answer one behind the other.
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

    /// The metrics of the configuration, and those that the object aggregates.
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
