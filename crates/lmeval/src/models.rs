//! The built-in models, and settings that may be among the arguments of a model.

use lmeval_core::Diagnostic;
use lmeval_engine::EngineError;
use lmeval_pycompat::{Dict, Value, repr};
#[cfg(not(feature = "local-models"))]
use lmeval_scoring::registry::ModelEntry;
use lmeval_scoring::registry::Registry;

/// All built-in extensions, models included.
pub fn registry() -> Registry {
    with_models(Registry::default())
}

/// Adds the built-in models to a registry, except under names already taken.
pub(crate) fn with_models(registry: Registry) -> Registry {
    #[cfg(feature = "local-models")]
    let local = lmeval_candle::models();
    #[cfg(not(feature = "local-models"))]
    let local = vec![missing_local_models()];
    registry.with_models(lmeval_models::models()).with_models(local)
}

/// Stands for the models that compute in this process, in a build without them.
#[cfg(not(feature = "local-models"))]
fn missing_local_models() -> ModelEntry {
    use lmeval_core::{ModelError, ModelErrorKind};

    ModelEntry::named(&["hf", "hf-auto", "huggingface"], |_| {
        let message = "This build has no models that compute in its process";
        Err(ModelError::new(ModelErrorKind::Unsupported, message)
            .hint("`cargo install --path crates/lmeval-cli --locked --features local-models` builds them in")
            .hint("Without them, start a server for the checkpoint, such as `vllm serve`, and use `local-completions`"))
    })
    .summary("Not in this build: it lacks the feature `local-models`")
}

/// How a model computes. Each of these settings may also be among the arguments of the model.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// The number of requests per batch, or a string such as `auto`.
    pub batch_size: Option<Value>,
    /// The upper limit of an automatic batch size.
    pub max_batch_size: Option<i64>,
    /// The device, such as `cuda:0`.
    pub device: Option<String>,
}

impl Placement {
    /// Takes the settings out of the arguments of a model.
    pub fn take(args: &mut Dict) -> Result<Self, EngineError> {
        let mut take = |name: &str| args.remove_str(name).filter(|value| !value.is_none());
        let max_batch_size = match take("max_batch_size") {
            None => None,
            Some(Value::Int(number)) => Some(number),
            Some(other) => {
                let message = format!("`max_batch_size` must be an integer, not {}", other.type_name());
                return Err(Diagnostic::new(message).into());
            }
        };
        let batch_size = take("batch_size");
        if let Some(wrong) = batch_size.as_ref().and_then(wrong_batch_size) {
            return Err(Diagnostic::new(wrong).into());
        }
        Ok(Self { batch_size, max_batch_size, device: take("device").map(|device| repr::str(&device)) })
    }
}

/// Why a value is not a batch size: a number of at least 1, or a string such as `auto`.
pub fn wrong_batch_size(value: &Value) -> Option<String> {
    let number = match value {
        Value::Int(number) => Some(*number),
        Value::Str(text) => text.trim().parse().ok(),
        other => {
            let found = other.type_name();
            return Some(format!("`batch_size` must be an integer or a string such as `auto`, not {found}"));
        }
    };
    number.is_some_and(|number| number < 1).then(|| "`batch_size` must be at least 1, or `auto`".to_owned())
}
