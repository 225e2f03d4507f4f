//! Schemas that a server is asked to enforce.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, json, repr};

use super::reasoning::after_reasoning;
use lmeval_core::OPTIONAL_FIELDS;

/// The field of OpenAI's API, vLLM, SGLang and llama.cpp.
pub(super) const RESPONSE_FORMAT: &str = "response_format";
/// The field of older versions of vLLM.
pub(super) const GUIDED_JSON: &str = "guided_json";

/// A schema for the judge's answers, as requests carry it.
///
/// Servers are free to refuse or to ignore it, so verdicts are read in the same way with or without it.
#[derive(Clone, Debug)]
pub(super) struct Guided {
    /// The field of the request with the schema.
    pub(super) field: &'static str,
    /// The keys that an answer must have.
    required: Vec<String>,
    /// The generation settings with the schema.
    pub(super) generation: Arc<Dict>,
}

impl Guided {
    pub(super) fn new(field: &'static str, schema: &Value, verdict: &str, generation: &Dict) -> Self {
        let value = if field == RESPONSE_FORMAT {
            let named = [
                ("name", Value::str("judgement")),
                ("schema", schema.clone()),
                ("strict", Value::Bool(true)),
            ];
            Value::dict([("type", Value::str("json_schema")), ("json_schema", Value::dict(named))])
        } else {
            schema.clone()
        };
        let mut generation = generation.clone();
        generation.insert(OPTIONAL_FIELDS, Value::dict([(field, value)]));
        let required =
            schema.as_dict().and_then(|schema| schema.get_str("required")).and_then(Value::as_list);
        let mut required: Vec<String> = required.unwrap_or_default().iter().map(repr::str).collect();
        if !required.iter().any(|name| name == verdict) {
            required.push(verdict.to_owned());
        }
        Self { field, required, generation: Arc::new(generation) }
    }

    /// Whether an answer has the form that the schema asks for: one object with the required keys, and nothing else.
    pub(super) fn is_followed_by(&self, answer: &str) -> bool {
        let found = after_reasoning(answer).and_then(|answer| json::loads(answer.trim()).ok());
        let object = found.as_ref().and_then(Value::as_dict);
        object.is_some_and(|object| self.required.iter().all(|name| object.contains_str(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_objects_with_all_keys_follow_a_schema() {
        let schema = json::loads(
            r#"{"type": "object", "properties": {"verdict": {}, "reason": {}}, "required": ["reason"]}"#,
        );
        let guided = Guided::new(RESPONSE_FORMAT, &schema.unwrap(), "verdict", &Dict::new());
        assert!(guided.is_followed_by(" {\"reason\": \"short\", \"verdict\": \"C\"}\n"));
        assert!(guided.is_followed_by("<think>Hm.</think>{\"verdict\": \"C\", \"reason\": \"\"}"));
        for other in [
            "{\"verdict\": \"C\"}",
            "Sure: {\"reason\": \"\", \"verdict\": \"C\"}",
            "{\"reason\": \"\", \"verdict\": \"C\"",
            "[1]",
            "",
        ] {
            assert!(!guided.is_followed_by(other), "{other}");
        }
        let sent = json::dumps(&Value::Dict(guided.generation), &json::Options::default()).unwrap();
        assert!(
            sent.starts_with("{\"optional_fields\": {\"response_format\": {\"type\": \"json_schema\""),
            "{sent}"
        );
    }
}
