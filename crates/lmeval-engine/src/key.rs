//! Journal keys of requests.

use lmeval_core::{Arguments, Dialect, ModelRequest};
use lmeval_journal::{Key, request_hash};
use lmeval_pycompat::{Dict, Value, repr};

use crate::attribution::Fingerprints;

/// Computes the keys of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// The fingerprints of the model.
    pub(crate) models: Fingerprints,
    /// Whether answers depend on the document, so that documents share none.
    pub(crate) per_document: bool,
    /// Determines which arguments are hashed.
    pub(crate) dialect: Dialect,
}

impl Keys {
    /// The key of a request. Requests with equal keys share one answer.
    ///
    /// Repeats have different keys, and so have sampled generations of different documents.
    pub(crate) fn of(&self, request: &ModelRequest) -> Key {
        let method = request.request_type().name();
        let arguments = self.arguments(request);
        // Values that JSON cannot represent, such as images, are hashed by their `repr`.
        let hash = request_hash(method, &arguments)
            .or_else(|_| request_hash(method, &[Value::from(repr::repr(&Value::from(arguments)))]))
            .expect("strings can be written as JSON");
        let per_document = self.per_document || is_sampled(&request.arguments);
        let document = per_document.then_some((&*request.task_name, request.doc_id.0));
        let model = match request.arguments {
            Arguments::Loglikelihood { .. } => self.models.scoring.unwrap_or(self.models.model),
            _ => self.models.model,
        };
        Key::new(model, &hash, request.repeat, document)
    }

    /// Reference: the response cache hashes these arguments.
    fn arguments(&self, request: &ModelRequest) -> Vec<Value> {
        let mut arguments = request.arguments.to_values(self.dialect.rolling_context);
        arguments.extend(request.additional_args.clone().map(Value::Dict));
        arguments
    }
}

/// Whether repeating the request may give another answer.
fn is_sampled(arguments: &Arguments) -> bool {
    let Arguments::Generate { kwargs, .. } = arguments else {
        return false;
    };
    let is_on = |kwargs: &Dict, name: &str| kwargs.get_str(name).is_some_and(Value::is_truthy);
    is_on(kwargs, "do_sample") || is_on(kwargs, "temperature")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lmeval_core::{DocId, ModelIdentity};
    use lmeval_journal::Fingerprint;

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
            document: None,
            progress: None,
        }
    }

    #[test]
    fn only_interchangeable_requests_share_a_key() {
        let model = |name: &str| {
            Fingerprint::of(&ModelIdentity { backend: "x".into(), facts: vec![("model", name.into())] })
        };
        let models = |name| Fingerprints { model: model(name), scoring: None };
        let keys = Keys { models: models("a"), per_document: false, dialect: Dialect::V05 };
        let greedy = |document, repeat| keys.of(&request(document, repeat, &[]));
        assert_eq!(greedy(0, 0), greedy(1, 0));
        assert_ne!(greedy(0, 0), greedy(0, 1));
        let sampled = |document| keys.of(&request(document, 0, &[("temperature", Value::Float(0.5))]));
        assert_ne!(sampled(0), sampled(1));
        let other = Keys { models: models("b"), ..keys };
        assert_ne!(other.of(&request(0, 0, &[])), greedy(0, 0));
        let per_document = Keys { per_document: true, ..keys };
        assert_ne!(per_document.of(&request(0, 0, &[])), per_document.of(&request(1, 0, &[])));
        // The protocol of log-likelihoods changes no other key.
        let scoring = Keys { models: Fingerprints { scoring: Some(model("c")), ..models("a") }, ..keys };
        assert_eq!(scoring.of(&request(0, 0, &[])), greedy(0, 0));
        let scored = ModelRequest {
            arguments: Arguments::Loglikelihood { context: "Q".into(), continuation: "A".into() },
            ..request(0, 0, &[])
        };
        assert_ne!(scoring.of(&scored), keys.of(&scored));
    }
}
