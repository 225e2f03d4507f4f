//! How a model is made, and what makes it the one that it is.

use lmeval_core::ModelIdentity;
use lmeval_pycompat::{Dict, Value, repr};

/// Arguments that are secrets, whatever comes before them.
const SECRET: [&str; 9] = [
    "api_key",
    "apikey",
    "password",
    "secret",
    "credentials",
    "auth_token",
    "access_token",
    "api_token",
    "hf_token",
];

/// Arguments that are secrets only under just this name.
const SECRET_ALONE: [&str; 5] = ["token", "key", "header", "headers", "use_auth_token"];

/// How a Python model is made.
#[derive(Clone, Debug, Default)]
pub struct PythonModelSettings {
    /// `--model_args`.
    pub args: Dict,
    /// `--batch_size`: a number, or text such as `auto`.
    pub batch_size: Option<Value>,
    /// `--max_batch_size`.
    pub max_batch_size: Option<i64>,
    /// `--device`.
    pub device: Option<String>,
    /// The seeds of Python's own generator, numpy's and torch's.
    pub seeds: [Option<i64>; 3],
    /// Whether requests for whole texts have an empty context before the text.
    pub rolling_context: bool,
}

impl PythonModelSettings {
    /// The parts of the message that asks for the model.
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

    /// The identity of a model that Python describes so.
    pub(crate) fn identity(&self, backend: &str, description: &Dict) -> ModelIdentity {
        let text =
            |name: &str| description.get_str(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let args = self.args.iter().filter(|(name, _)| !is_secret(&repr::str(name)));
        let args: Dict = args.map(|(name, value)| (name.clone(), value.clone())).collect();
        let seeds = self.seeds.map(|seed| seed.map_or_else(|| "none".to_owned(), |seed| seed.to_string()));
        ModelIdentity {
            backend: backend.to_owned(),
            facts: vec![
                ("class", text("class")),
                ("module", text("module")),
                ("code", text("code")),
                ("args", repr::repr(&Value::from(args))),
                ("seeds", seeds.join(",")),
            ],
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET.iter().any(|secret| name.ends_with(secret)) || SECRET_ALONE.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_no_part_of_the_identity() {
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
    }
}
