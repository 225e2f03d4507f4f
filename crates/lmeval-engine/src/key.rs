//! What makes two requests the same.

use std::sync::Arc;

use lmeval_core::{Arguments, Dialect, ModelRequest};
use lmeval_journal::{Fingerprint, Key, request_hash};
use lmeval_pycompat::{Dict, Value, repr};

/// How the keys of a run are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// The model.
    pub(crate) model: Fingerprint,
    /// Whether each document has answers of its own.
    pub(crate) per_document: bool,
    /// How arguments are written.
    pub(crate) dialect: Dialect,
}

impl Keys {
    /// The key of a request: the same for requests of which one answer serves all.
    ///
    /// Repeats are requests of their own, and so are sampled generations of different documents.
    pub(crate) fn of(&self, request: &ModelRequest) -> Key {
        let method = request.request_type().name();
        let arguments = self.arguments(request);
        // What JSON cannot hold, such as an image, is hashed by its text.
        let hash = request_hash(method, &arguments)
            .or_else(|_| request_hash(method, &[Value::from(repr::repr(&Value::from(arguments)))]))
            .expect("text can be written as JSON");
        let per_document = self.per_document || is_sampled(&request.arguments);
        let document = per_document.then_some((&*request.task_name, request.doc_id.0));
        Key::new(self.model, &hash, request.repeat, document)
    }

    /// Reference: the response cache hashes a request by these.
    fn arguments(&self, request: &ModelRequest) -> Vec<Value> {
        let mut arguments = match &request.arguments {
            Arguments::Loglikelihood { context, continuation } => {
                vec![context.to_value(), Value::Str(Arc::clone(continuation))]
            }
            Arguments::Rolling { text } if self.dialect.rolling_context => {
                vec![Value::str(""), Value::Str(Arc::clone(text))]
            }
            Arguments::Rolling { text } => vec![Value::Str(Arc::clone(text))],
            Arguments::Generate { context, kwargs } => {
                vec![context.to_value(), Value::Dict(Arc::clone(kwargs))]
            }
        };
        arguments.extend(request.additional_args.clone().map(Value::Dict));
        arguments
    }
}

/// Whether a second answer may differ from the first.
fn is_sampled(arguments: &Arguments) -> bool {
    let Arguments::Generate { kwargs, .. } = arguments else {
        return false;
    };
    let is_on = |kwargs: &Dict, name: &str| kwargs.get_str(name).is_some_and(Value::is_truthy);
    is_on(kwargs, "do_sample") || is_on(kwargs, "temperature")
}

#[cfg(test)]
mod tests {
    use lmeval_core::{DocId, ModelIdentity};

    use super::*;

    fn request(doc_id: usize, repeat: usize, kwargs: &[(&str, Value)]) -> ModelRequest {
        let kwargs: Dict = kwargs.iter().map(|(key, value)| (Value::str(*key), value.clone())).collect();
        ModelRequest {
            task_name: "t".into(),
            doc_id: DocId(doc_id),
            idx: 0,
            repeat,
            arguments: Arguments::Generate { context: "Q".into(), kwargs: Arc::new(kwargs) },
            additional_args: None,
        }
    }

    #[test]
    fn only_what_one_answer_serves_has_one_key() {
        let model = |name: &str| {
            Fingerprint::of(&ModelIdentity { backend: "x".into(), facts: vec![("model", name.into())] })
        };
        let keys = Keys { model: model("a"), per_document: false, dialect: Dialect::V05 };
        let greedy = |document, repeat| keys.of(&request(document, repeat, &[]));
        assert_eq!(greedy(0, 0), greedy(1, 0));
        assert_ne!(greedy(0, 0), greedy(0, 1));
        let sampled = |document| keys.of(&request(document, 0, &[("temperature", Value::Float(0.5))]));
        assert_ne!(sampled(0), sampled(1));
        let other = Keys { model: model("b"), ..keys };
        assert_ne!(other.of(&request(0, 0, &[])), greedy(0, 0));
        let per_document = Keys { per_document: true, ..keys };
        assert_ne!(per_document.of(&request(0, 0, &[])), per_document.of(&request(1, 0, &[])));
    }
}
