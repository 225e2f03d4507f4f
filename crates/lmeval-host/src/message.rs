//! Messages to a worker.

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::{HostError, display_reference};

use crate::error::WorkerError;
use crate::pool::{Pin, Pool};
use crate::protocol::{self, ProtocolError};
use crate::services::Serve;

/// A message under construction. If a part cannot be encoded, sending the message fails.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    function: &'a Function,
    text: String,
    failure: Option<ProtocolError>,
    pin: Option<&'a Pin>,
}

impl<'a> Message<'a> {
    /// A message that operates on a function, which the worker imports.
    pub(crate) fn new(operation: &str, function: &'a Function) -> Self {
        let mut message = Self::about(operation, function);
        message.add(|text| {
            text.push_str(",\"function\":");
            let parts = [&function.directory, &function.reference].map(|part| Value::str(part.as_str()));
            protocol::encode(text, &Value::list(parts))
        });
        message
    }

    /// A message that does not import the function; errors name it.
    pub(crate) fn about(operation: &str, function: &'a Function) -> Self {
        Self { function, text: format!("{{\"op\":\"{operation}\""), failure: None, pin: None }
    }

    /// Restricts the message to the worker of a pin.
    pub(crate) fn pinned(mut self, pin: Option<&'a Pin>) -> Self {
        self.pin = pin;
        self
    }

    pub(crate) fn with(self, name: &str, value: &Value) -> Self {
        self.with_written(name, |text| protocol::encode(text, value))
    }

    pub(crate) fn with_dict(self, name: &str, dict: &Dict) -> Self {
        self.with_written(name, |text| protocol::encode_dict(text, dict))
    }

    /// Adds a list whose items are written by a function.
    pub(crate) fn with_list<T>(
        self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut String, T) -> Result<(), ProtocolError>,
    ) -> Self {
        self.with_written(name, |text| {
            text.push('[');
            for (index, item) in items.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(text, item)?;
            }
            text.push(']');
            Ok(())
        })
    }

    fn with_written(
        mut self,
        name: &str,
        write: impl FnOnce(&mut String) -> Result<(), ProtocolError>,
    ) -> Self {
        self.add(|text| {
            text.push_str(",\"");
            text.push_str(name);
            text.push_str("\":");
            write(text)
        });
        self
    }

    fn add(&mut self, write: impl FnOnce(&mut String) -> Result<(), ProtocolError>) {
        if self.failure.is_none() {
            self.failure = write(&mut self.text).err();
        }
    }

    /// Sends the message to a free worker and waits for its answers. On failure, the error names the document that
    /// `document` returns for the first missing answer.
    pub(crate) fn ask<'d>(
        self,
        pool: &Pool,
        answers: usize,
        document: impl FnOnce(usize) -> Option<&'d Dict>,
    ) -> Result<Vec<Value>, HostError> {
        self.ask_serving(pool, answers, document, &|_, _| None)
    }

    /// Like [`Message::ask`], with `own` handling requests that the worker sends about this message.
    pub(crate) fn ask_serving<'d>(
        mut self,
        pool: &Pool,
        answers: usize,
        document: impl FnOnce(usize) -> Option<&'d Dict>,
        own: &Serve<'_>,
    ) -> Result<Vec<Value>, HostError> {
        self.text.push('}');
        let serve = |question: &Dict| {
            let kind = question.get_str("kind").and_then(Value::as_str).unwrap_or_default();
            own(kind, question).unwrap_or_else(|| pool.services.serve(kind, question))
        };
        let asked = match (self.failure, pool.caller_of(self.function)) {
            (Some(failure), _) => Err((0, WorkerError::from(failure))),
            (None, Some(caller)) => caller.ask(&self.text, answers, &serve),
            (None, None) => match self.pin.map_or_else(|| pool.worker(), |pin| pool.pinned(pin)) {
                Ok(worker) => worker.calls(&shown(self.function)).ask(&self.text, answers, &serve),
                Err(error) => return Err(error.of(&shown(self.function), None)),
            },
        };
        asked.map_err(|(index, error)| error.of(&shown(self.function), document(index)))
    }

    /// Like [`Message::ask`], for a message with one answer and no document.
    pub(crate) fn ask_once(self, pool: &Pool) -> Result<Value, HostError> {
        let answers = self.ask(pool, 1, |_| None)?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }
}

/// The error of a function that returned a value of the wrong type.
pub(crate) fn wrong_type(function: &Function, expected: &str, found: &Value) -> HostError {
    failed(function, format!("Expected {expected}, found a value of type `{}`", found.type_name()))
}

pub(crate) fn failed(function: &Function, message: String) -> HostError {
    HostError::Failed {
        function: display_reference(&function.reference),
        message,
        traceback: None,
        hint: None,
    }
}

/// The function as displayed in messages.
fn shown(function: &Function) -> Function {
    Function { directory: function.directory.clone(), reference: display_reference(&function.reference) }
}
