//! Requests built by the class of a task.

use std::sync::Arc;

use lmeval_core::{Arguments, Context, DocId, Instance, InstanceMetadata, MAX_REPEATS, RequestType};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::ClassCall;

use super::error::{PromptError, PromptErrorKind};
use super::example::not_a;
use super::media;
use super::plan::{Plan, PlannedClass};
use super::request::{Built, Skipped};

impl Plan {
    /// Builds the requests of a document with the instance of the task's class.
    pub(super) fn class_requests(
        &self,
        planned: &PlannedClass,
        doc_id: DocId,
        document: &Arc<Dict>,
        examples: &[usize],
    ) -> Result<Built, PromptError> {
        let context = if planned.class.makes_context {
            None
        } else {
            Some(self.single_context(doc_id, document, examples)?.to_exact_value())
        };
        let drawn = match &self.pool {
            Some(pool) => {
                examples.iter().map(|index| pool.document(*index)).collect::<Result<Vec<_>, _>>()?
            }
            None => Vec::new(),
        };
        let call = ClassCall {
            document,
            doc_id,
            context: context.as_ref(),
            examples: &drawn,
            system_instruction: self.system_instruction.as_deref(),
            chat_template: self.chat_template.as_deref(),
            fewshot_as_multiturn: self.fewshot_as_multiturn,
        };
        let made = planned.host.class_requests(&planned.class.object, &call).map_err(PromptError::host)?;
        let part = |name: &str| made.as_dict().and_then(|made| made.get_str(name));
        let target = part("target").cloned().unwrap_or_default();
        let instances = part("instances").and_then(Value::as_list).unwrap_or_default();
        if instances.is_empty() {
            return Ok(Err(Skipped::NoRequests));
        }
        let instance = |made: &Value| -> Result<Instance, PromptError> {
            let instance = self.class_instance(doc_id, made, &target)?;
            if let Some(given) = &instance.additional_args {
                media::check(&Value::Dict(Arc::clone(given)), document)?;
            }
            Ok(instance)
        };
        let instances = instances.iter().map(instance).collect::<Result<Vec<_>, _>>();
        let instances = instances.map_err(|error| error.in_field("construct_requests"))?;
        Ok(Ok((instances, None)))
    }

    fn class_instance(&self, doc_id: DocId, made: &Value, target: &Value) -> Result<Instance, PromptError> {
        let Value::Dict(made) = made else {
            return Err(not_a("a request", made));
        };
        let number = |name: &str, least: usize| {
            let given = made.get_str(name).and_then(Value::as_i64);
            given.and_then(|number| usize::try_from(number).ok()).unwrap_or(least).max(least)
        };
        let repeats = number("repeats", 1);
        if repeats > MAX_REPEATS {
            let message = format!("`repeats` of a request must be at most {MAX_REPEATS}, not {repeats}");
            return Err(PromptError::new(PromptErrorKind::Value, message));
        }
        let kind = made.get_str("request_type").and_then(Value::as_str).unwrap_or_default();
        let arguments = made.get_str("arguments").and_then(Value::as_list).unwrap_or_default();
        let (request_type, arguments, found) = read_arguments(kind, arguments)?;
        let additional_args = match made.get_str("additional_args") {
            Some(Value::Dict(given)) => Some(Arc::clone(given)),
            _ => found,
        };
        Ok(Instance {
            request_type,
            task_name: Arc::clone(&self.name),
            doc_id,
            idx: number("idx", 0),
            repeats,
            arguments,
            target: target.clone(),
            gold: target.clone(),
            metadata: InstanceMetadata::default(),
            additional_args,
        })
    }
}

/// The type of a request, its arguments, and its images and audio.
type Read = (RequestType, Arguments, Option<Arc<Dict>>);

/// Parses the arguments that Python code gives a request; the third one contains images and audio.
pub fn read_arguments(kind: &str, arguments: &[Value]) -> Result<Read, PromptError> {
    let media = match arguments.get(2) {
        Some(Value::Dict(media)) => Some(Arc::clone(media)),
        _ => None,
    };
    let read = match (kind, arguments) {
        ("generate_until", [context, Value::Dict(kwargs), ..]) => {
            let arguments =
                Arguments::Generate { context: read_context(context)?, kwargs: Arc::clone(kwargs) };
            (RequestType::GenerateUntil, arguments, media)
        }
        ("loglikelihood" | "multiple_choice", [context, Value::Str(continuation), ..]) => {
            let continuation = Arc::clone(continuation);
            let arguments = Arguments::Loglikelihood { context: read_context(context)?, continuation };
            (RequestType::Loglikelihood, arguments, media)
        }
        ("loglikelihood_rolling", [Value::Str(text)] | [_, Value::Str(text), ..]) => {
            (RequestType::LoglikelihoodRolling, Arguments::Rolling { text: Arc::clone(text) }, None)
        }
        (
            kind @ ("generate_until" | "loglikelihood" | "multiple_choice" | "loglikelihood_rolling"),
            given,
        ) => {
            let types: Vec<&str> = given.iter().map(Value::type_name).collect();
            let message =
                format!("A request of type `{kind}` cannot have arguments of ({})", types.join(", "));
            let hint = match kind {
                "generate_until" => "Expected the context and a dictionary of settings",
                "loglikelihood_rolling" => "Expected the string to score",
                _ => "Expected the context and its continuation",
            };
            return Err(PromptError::new(PromptErrorKind::Type, message).hint(hint));
        }
        (other, _) => {
            let message = format!("`{other}` is not a request type");
            return Err(PromptError::new(PromptErrorKind::Value, message)
                .hint("The types are `generate_until`, `loglikelihood` and `loglikelihood_rolling`"));
        }
    };
    Ok(read)
}

/// Parses a context in the form that classes return.
fn read_context(value: &Value) -> Result<Context, PromptError> {
    Context::from_exact_value(value).ok_or_else(|| match value {
        Value::List(_) => not_a("a context", value)
            .hint("A conversation is a list of dictionaries with `role` and `content`"),
        _ => not_a("a context", value),
    })
}
