//! Settings and identity of Python models.

use lmeval_core::ModelIdentity;
use lmeval_core::secrets::{is_secret, mask_secrets};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_scoring::results::hash_text;

/// How to create a Python model.
#[derive(Clone, Debug, Default)]
pub struct PythonModelSettings {
    /// `--model_args`.
    pub args: Dict,
    /// `--batch_size`: an integer, or a string such as `auto`.
    pub batch_size: Option<Value>,
    /// `--max_batch_size`.
    pub max_batch_size: Option<i64>,
    /// `--device`.
    pub device: Option<String>,
    /// The seeds of Python's, numpy's and torch's random generators.
    pub seeds: [Option<i64>; 3],
    /// Whether rolling requests have an empty context before the string.
    pub rolling_context: bool,
}

impl PythonModelSettings {
    /// The fields of the message that creates the model.
    pub(crate) fn to_dict(&self) -> Dict {
        let mut additional = Dict::new();
        additional.insert("batch_size", self.batch_size.clone().unwrap_or_default());
        additional.insert("max_batch_size", Value::from(self.max_batch_size));
        additional.insert("device", self.device.as_deref().map_or(Value::None, Value::str));
        let mut parts = Dict::new();
        parts.insert("args", Value::from(self.args.clone()));
        parts.insert("additional", Value::from(additional));
        parts.insert("seeds", Value::list(self.seeds.map(Value::from)));
        parts
    }

    /// The identity of a model that Python describes by `description`.
    pub(crate) fn identity(&self, backend: &str, description: &Dict) -> ModelIdentity {
        let text =
            |name: &str| description.get_str(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let args = self.args.iter().filter(|(name, _)| !is_secret(&repr::str(name)));
        let args = Value::from(args.map(|(name, value)| (name.clone(), value.clone())).collect::<Dict>());
        let shown = mask_secrets(&args);
        // Addresses may contain keys, which are not shown; still, models that differ only there must differ.
        let whole = (shown != args).then(|| ("args_hash", hash_text(&repr::repr(&args))));
        let seeds = self.seeds.map(|seed| seed.map_or_else(|| "none".to_owned(), |seed| seed.to_string()));
        ModelIdentity {
            backend: backend.to_owned(),
            facts: [
                ("class", text("class")),
                ("module", text("module")),
                ("code", text("code")),
                ("args", repr::repr(&shown)),
                ("seeds", seeds.join(",")),
            ]
            .into_iter()
            .chain(whole)
            .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_excludes_secrets() {
        let mut settings = PythonModelSettings::default();
        for name in [
            "pretrained",
            "tokenizer",
            "add_bos_token",
            "prefix_token_id",
            "hf_token",
            "my_api_key",
            "headers",
        ] {
            settings.args.insert(name, format!("value of {name}"));
        }
        let description = Value::dict([("class", Value::str("A"))]);
        let identity = settings.identity("python", description.as_dict().unwrap()).to_string();
        for name in ["pretrained", "tokenizer", "add_bos_token", "prefix_token_id"] {
            assert!(identity.contains(&format!("value of {name}")), "{identity}");
        }
        for name in ["hf_token", "my_api_key", "headers"] {
            assert!(!identity.contains(name), "{identity}");
        }
        let mut of_address = |query: &str| {
            settings.args.insert("base_url", format!("http://host/v1?code={query}"));
            settings.identity("python", description.as_dict().unwrap()).to_string()
        };
        let (one, other) = (of_address("first-key"), of_address("second-key"));
        assert!(one != other && !one.contains("first-key"), "{one}");
    }
}
