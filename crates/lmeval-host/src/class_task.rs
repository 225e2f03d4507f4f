//! Host functions for tasks that are Python classes.

use lmeval_core::{ChatMessage, ChatTemplate, Context};
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::{ClassCall, HostError};

use crate::host::PythonHost;
use crate::message::{Message, failed, wrong_type};
use crate::pool::Pool;
use crate::protocol::{encode, encode_dict};
use crate::services::{Served, encoded};

impl PythonHost {
    /// Instantiates a task's class and describes it: a dictionary with its configuration and with references to
    /// the methods that it overrides.
    ///
    /// `config` is the content of the task file; `settings` has the run settings `num_fewshot`, `repeats`,
    /// `gen_kwargs`, `fewshot_seed` and `compat`. Each worker creates its own instance on first use.
    pub fn describe_class(
        &self,
        class: &Function,
        config: &Dict,
        settings: &Dict,
    ) -> Result<Dict, HostError> {
        let definition = encoded(|text| {
            text.push_str("{\"class\":");
            encode(text, &Value::Function(class.clone().into()))?;
            text.push_str(",\"config\":");
            encode_dict(text, config)?;
            text.push_str(",\"settings\":");
            encode_dict(text, settings)?;
            text.push('}');
            Ok(())
        });
        let definition = definition.map_err(|message| failed(class, message))?;
        let number = self.pool.services.add_class(definition);
        let reference = format!("class:{number}:{}", class.reference);
        let object = Function { directory: class.directory.clone(), reference };
        match Message::new("describe_class", &object).ask_once(&self.pool)? {
            Value::Dict(told) => Ok(Dict::clone(&told)),
            other => Err(wrong_type(class, "a description of a task", &other)),
        }
    }
}

/// Has the instance of a task build the requests of a document.
pub(crate) fn requests(pool: &Pool, object: &Function, call: &ClassCall<'_>) -> Result<Value, HostError> {
    let number = Value::Int(i64::try_from(call.doc_id.0).unwrap_or(i64::MAX));
    let message = Message::new("class_requests", object)
        .with_dict("document", call.document)
        .with("doc_id", &number)
        .with("context", call.context.unwrap_or(&Value::None))
        .with("makes_context", &Value::Bool(call.context.is_none()))
        .with("system_instruction", &call.system_instruction.map(Value::str).unwrap_or_default())
        .with("apply_chat_template", &Value::Bool(call.chat_template.is_some()))
        .with("fewshot_as_multiturn", &Value::Bool(call.fewshot_as_multiturn))
        .with_list("examples", call.examples, |text, example| encode_dict(text, example));
    let own = |kind: &str, question: &Dict| {
        let template = call.chat_template.filter(|_| kind == "chat_template")?;
        Some(apply_template(template, question))
    };
    let answers = message.ask_serving(pool, 1, |_| Some(call.document), &own)?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

/// Applies the model's chat template to a conversation sent by a worker.
fn apply_template(template: &dyn ChatTemplate, question: &Dict) -> Served {
    let given = question.get_str("messages").and_then(Value::as_list).unwrap_or_default();
    let messages = given.iter().map(ChatMessage::from_value).collect::<Option<Vec<_>>>();
    let messages = messages.ok_or("a conversation is a list of dictionaries with `role` and `content`")?;
    let open = question.get_str("add_generation_prompt").is_none_or(Value::is_truthy);
    let context = template.apply(messages, open).map_err(|error| error.to_string())?;
    let value = match &context {
        // A tuple of one field, as in the reference.
        Context::Json(text) => Value::tuple([Value::Str(text.clone())]),
        Context::Text(_) | Context::Messages(_) => context.to_value(),
    };
    encoded(|out| encode(out, &value))
}
