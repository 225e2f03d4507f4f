//! Requests of workers to the engine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use lmeval_core::{DatasetRequest, Diagnose as _, Documents};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::judge::{JudgeQuestion, Judges, NoJudges};
use lmeval_scoring::registry::Registry;
use lmeval_scoring::{HostServices, NamedSplits};

use crate::protocol::{self, ProtocolError};

/// The reply to a request: a value as JSON, or an error message.
pub(crate) type Served = Result<String, String>;

/// Handles requests specific to one message; `None` leaves a request to [`Services`].
pub(crate) type Serve<'a> = dyn Fn(&str, &Dict) -> Option<Served> + 'a;

/// Serves requests during messages that do not belong to a run: only those that need nothing of one.
pub(crate) fn without_run(query: &Dict) -> Served {
    match query.get_str("kind").and_then(Value::as_str) {
        Some("aggregate") => aggregate(query),
        _ => Err("the engine serves no requests now".to_owned()),
    }
}

fn aggregate(query: &Dict) -> Served {
    let score = Registry::default().aggregate_for_python(query).map_err(|error| error.to_string())?;
    encoded(|out| protocol::encode(out, &score))
}

/// Serves the requests of all workers.
#[derive(Debug, Default)]
pub(crate) struct Services {
    engine: RwLock<Option<Arc<dyn HostServices>>>,
    judges: RwLock<Option<Arc<dyn Judges>>>,
    /// Definitions of task classes, as JSON.
    classes: Mutex<Vec<String>>,
    /// The datasets loaded so far.
    datasets: Mutex<Vec<(String, NamedSplits)>>,
    numbers: AtomicU64,
}

impl Services {
    /// Sets the loader of datasets and templates.
    pub(crate) fn set_engine(&self, engine: Arc<dyn HostServices>) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(engine);
    }

    /// Sets the judges that scorers may ask.
    pub(crate) fn set_judges(&self, judges: Option<Arc<dyn Judges>>) {
        *self.judges.write().unwrap_or_else(PoisonError::into_inner) = judges;
    }

    /// Adds the definition of a task class and returns its index.
    pub(crate) fn add_class(&self, definition: String) -> usize {
        let mut classes = lock(&self.classes);
        classes.push(definition);
        classes.len() - 1
    }

    /// An id that is unique in this pool.
    pub(crate) fn next_id(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Serves a request.
    pub(crate) fn serve(&self, kind: &str, query: &Dict) -> Served {
        match kind {
            "class" => {
                let classes = lock(&self.classes);
                let class = index(query).and_then(|index| classes.get(index));
                class.cloned().ok_or_else(|| "unknown class".to_owned())
            }
            "dataset" => self.dataset(query),
            "split" => self.split(query),
            "render" => self.render(query),
            "judge" => self.judge(query),
            "aggregate" => aggregate(query),
            other => Err(format!("the engine does not serve requests of kind `{other}`")),
        }
    }

    fn engine(&self) -> Result<Arc<dyn HostServices>, String> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        engine.clone().ok_or_else(|| "datasets and templates are not available here".to_owned())
    }

    fn dataset(&self, query: &Dict) -> Served {
        let text = |name: &str| match query.get_str(name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text.to_string())),
            Some(other) => {
                let found = other.type_name();
                Err(format!("`{name}` of a dataset must be a string, found a value of type `{found}`"))
            }
        };
        let kwargs = query.get_str("kwargs").and_then(Value::as_dict).cloned().unwrap_or_default();
        let request = DatasetRequest {
            path: text("path")?.ok_or("a dataset needs a path")?,
            name: text("name")?,
            splits: text("split")?.into_iter().collect(),
            kwargs,
            base: text("folder")?.map(Into::into),
            ..DatasetRequest::default()
        };
        let key = lmeval_pycompat::repr::repr(&Value::from(query.clone()));
        let known = lock(&self.datasets).iter().position(|(known, _)| *known == key);
        let number = match known {
            Some(number) => number,
            None => {
                let loaded = self.engine()?.dataset(&request).map_err(|error| full_message(&*error))?;
                let mut datasets = lock(&self.datasets);
                datasets.push((key, loaded));
                datasets.len() - 1
            }
        };
        let names = lock(&self.datasets)[number].1.names.clone();
        let answer = Value::dict([
            ("number", Value::Int(number as i64)),
            ("names", Value::list(names.into_iter().map(Value::from))),
        ]);
        encoded(|text| protocol::encode(text, &answer))
    }

    fn split(&self, query: &Dict) -> Served {
        let name = query.get_str("name").and_then(Value::as_str).unwrap_or_default();
        let splits = {
            let datasets = lock(&self.datasets);
            let known = index(query).and_then(|index| datasets.get(index));
            Arc::clone(&known.ok_or("unknown dataset")?.1.splits)
        };
        let documents = splits.split(name).map_err(|error| full_message(&*error))?;
        encode_documents(&*documents)
    }

    fn render(&self, query: &Dict) -> Served {
        let (Some(Value::Str(template)), Some(Value::Dict(document))) =
            (query.get_str("template"), query.get_str("document"))
        else {
            return Err("a template and a document are required".to_owned());
        };
        let text = self.engine()?.render(template, document).map_err(|error| full_message(&*error))?;
        encoded(|out| protocol::encode(out, &Value::from(text)))
    }

    /// Asks a judge: one answer per prompt and sample.
    fn judge(&self, query: &Dict) -> Served {
        let text = |name: &str| match query.get_str(name) {
            Some(Value::Str(text)) => Some(Arc::clone(text)),
            _ => None,
        };
        let role = text("role").ok_or("the role of a judge must be a string")?;
        let prompts = query.get_str("prompts").and_then(Value::as_list).ok_or("prompts must be a list")?;
        let samples = query.get_str("samples").and_then(Value::as_i64).unwrap_or(1);
        let generation = query.get_str("generation").and_then(Value::as_dict).cloned().unwrap_or_default();
        let generation = Arc::new(generation);
        let mut questions = Vec::new();
        for prompt in prompts {
            let Value::Str(prompt) = prompt else {
                return Err(format!(
                    "a prompt must be a string, found a value of type `{}`",
                    prompt.type_name()
                ));
            };
            questions.extend((0..samples.max(1)).map(|repeat| JudgeQuestion {
                role: Arc::clone(&role),
                system: text("system"),
                prompt: Arc::clone(prompt),
                generation: Arc::clone(&generation),
                repeat: usize::try_from(repeat).unwrap_or(0),
                from_caller: query.get_str("from_caller").is_some_and(Value::is_truthy),
            }));
        }
        let judges = self.judges.read().unwrap_or_else(PoisonError::into_inner).clone();
        let answers = judges.unwrap_or_else(|| Arc::new(NoJudges)).ask(questions);
        let answers = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(text) => Ok(Value::Str(text)),
                Err(error) => Err(error
                    .hints()
                    .into_iter()
                    .fold(error.to_string(), |all, hint| format!("{all}. {hint}"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        encoded(|out| protocol::encode(out, &Value::list(answers)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn index(query: &Dict) -> Option<usize> {
    query.get_str("number").and_then(Value::as_i64).and_then(|number| usize::try_from(number).ok())
}

/// Collects the output of a function that writes JSON.
pub(crate) fn encoded(write: impl FnOnce(&mut String) -> Result<(), ProtocolError>) -> Served {
    let mut text = String::new();
    write(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Documents with their columns and, if known, the types of the columns.
pub(crate) fn encode_documents(documents: &dyn Documents) -> Served {
    let mut text = String::from("{\"columns\":");
    let columns = Value::list(documents.columns().iter().map(|name| Value::str(name.as_str())));
    let write = |text: &mut String| -> Result<(), ProtocolError> {
        protocol::encode(text, &columns)?;
        text.push_str(",\"features\":");
        protocol::encode(text, &Value::from(documents.features()))
    };
    write(&mut text).map_err(|error| error.to_string())?;
    text.push_str(",\"documents\":[");
    for index in 0..documents.len() {
        if index > 0 {
            text.push(',');
        }
        let document = documents.get(index).map_err(|error| full_message(&*error))?;
        protocol::encode_dict(&mut text, &document).map_err(|error| error.to_string())?;
    }
    text.push_str("]}");
    Ok(text)
}

/// The message of an error followed by those of its causes.
fn full_message(error: &(dyn std::error::Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = next.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_data_set_names_that_are_not_strings() {
        for (name, given) in [("path", Value::Int(1)), ("name", Value::Int(2024)), ("split", Value::list([]))]
        {
            let mut query: Dict = [(Value::str("path"), Value::str("data"))].into_iter().collect();
            query.insert(name, given.clone());
            let message = Services::default().serve("dataset", &query).unwrap_err();
            let found = given.type_name();
            let expected = format!("`{name}` of a dataset must be a string, found a value of type `{found}`");
            assert_eq!(message, expected);
        }
    }
}
