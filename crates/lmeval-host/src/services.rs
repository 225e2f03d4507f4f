//! What workers ask the engine while they work on a message.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use lmeval_core::{DatasetRequest, Documents, HostServices, NamedSplits};
use lmeval_pycompat::{Dict, Value};

use crate::protocol::{self, ProtocolError};

/// What is sent back for a question: a value in terms of JSON, or why there is none.
pub(crate) type Served = Result<String, String>;

/// Answers questions of one message that only it can answer; `None` leaves a question to [`Services`].
pub(crate) type Serve<'a> = dyn Fn(&str, &Dict) -> Option<Served> + 'a;

/// Answers the questions of all workers.
#[derive(Debug, Default)]
pub(crate) struct Services {
    engine: RwLock<Option<Arc<dyn HostServices>>>,
    /// Classes of tasks with what their objects are made of, in terms of JSON.
    classes: Mutex<Vec<String>>,
    /// Data sets that were asked for.
    datasets: Mutex<Vec<(String, NamedSplits)>>,
    numbers: AtomicU64,
}

impl Services {
    /// Lets the engine load data sets and render templates.
    pub(crate) fn set_engine(&self, engine: Arc<dyn HostServices>) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(engine);
    }

    /// Adds a class of a task and returns its number.
    pub(crate) fn add_class(&self, definition: String) -> usize {
        let mut classes = lock(&self.classes);
        classes.push(definition);
        classes.len() - 1
    }

    /// A number that no other call gives.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Answers a question.
    pub(crate) fn serve(&self, kind: &str, question: &Dict) -> Served {
        match kind {
            "class" => {
                let classes = lock(&self.classes);
                let class = place(question).and_then(|place| classes.get(place));
                class.cloned().ok_or_else(|| "there is no such class".to_owned())
            }
            "dataset" => self.dataset(question),
            "split" => self.split(question),
            "render" => self.render(question),
            other => Err(format!("the engine does not know what `{other}` asks for")),
        }
    }

    fn engine(&self) -> Result<Arc<dyn HostServices>, String> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        engine.clone().ok_or_else(|| "nothing loads data sets or renders templates here".to_owned())
    }

    fn dataset(&self, question: &Dict) -> Served {
        let text = |name: &str| match question.get_str(name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text.to_string())),
            Some(other) => {
                let found = other.type_name();
                Err(format!("`{name}` of a data set must be text, found a value of type `{found}`"))
            }
        };
        let kwargs = question.get_str("kwargs").and_then(Value::as_dict).cloned().unwrap_or_default();
        let request = DatasetRequest {
            path: text("path")?.ok_or("a data set needs a path")?,
            name: text("name")?,
            splits: text("split")?.into_iter().collect(),
            kwargs,
            base: text("folder")?.map(Into::into),
            ..DatasetRequest::default()
        };
        let key = lmeval_pycompat::repr::repr(&Value::from(question.clone()));
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

    fn split(&self, question: &Dict) -> Served {
        let name = question.get_str("name").and_then(Value::as_str).unwrap_or_default();
        let splits = {
            let datasets = lock(&self.datasets);
            let known = place(question).and_then(|place| datasets.get(place));
            Arc::clone(&known.ok_or("there is no such data set")?.1.splits)
        };
        let documents = splits.split(name).map_err(|error| full_message(&*error))?;
        encode_documents(&*documents)
    }

    fn render(&self, question: &Dict) -> Served {
        let (Some(Value::Str(template)), Some(Value::Dict(document))) =
            (question.get_str("template"), question.get_str("document"))
        else {
            return Err("a template and a document are needed".to_owned());
        };
        let text = self.engine()?.render(template, document).map_err(|error| full_message(&*error))?;
        encoded(|out| protocol::encode(out, &Value::from(text)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn place(question: &Dict) -> Option<usize> {
    question.get_str("number").and_then(Value::as_i64).and_then(|number| usize::try_from(number).ok())
}

/// What a function writes.
pub(crate) fn encoded(write: impl FnOnce(&mut String) -> Result<(), ProtocolError>) -> Served {
    let mut text = String::new();
    write(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Documents with their columns and, where they are known, the types of those.
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

/// The message of an error with those of its causes.
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
    fn what_is_no_text_names_no_data_set() {
        for (name, given) in [("path", Value::Int(1)), ("name", Value::Int(2024)), ("split", Value::list([]))]
        {
            let mut question: Dict = [(Value::str("path"), Value::str("data"))].into_iter().collect();
            question.insert(name, given.clone());
            let message = Services::default().serve("dataset", &question).unwrap_err();
            let found = given.type_name();
            let expected = format!("`{name}` of a data set must be text, found a value of type `{found}`");
            assert_eq!(message, expected);
        }
    }
}
