//! The tokenizer of a model, as far as it is on this machine.

use std::sync::OnceLock;

use lmeval_core::ModelError;
use lmeval_hub::{Kind, Settings};
use lmeval_pycompat::{Dict, Value};
use lmeval_tokenizers::{HuggingFaceTokenizer, locate};

/// A tokenizer that is loaded when it is first needed.
#[derive(Debug)]
pub(crate) struct LazyTokenizer {
    name: Option<String>,
    loaded: OnceLock<Result<HuggingFaceTokenizer, ModelError>>,
}

impl LazyTokenizer {
    /// The tokenizer that the arguments of a model name, if it is on this machine.
    pub(crate) fn of_model(args: &Dict) -> Self {
        let named = |key: &str| args.get_str(key).and_then(Value::as_str).map(str::to_owned);
        let name = ["tokenizer", "pretrained", "model"].into_iter().find_map(named);
        Self { name, loaded: OnceLock::new() }
    }

    /// The tokenizer of this name, which must exist.
    pub(crate) fn named(name: &str) -> Result<Self, ModelError> {
        let loaded = OnceLock::from(Ok(open(name, false)?));
        Ok(Self { name: Some(name.to_owned()), loaded })
    }

    /// The tokenizer; `None` if the model names none, or it cannot be loaded.
    pub(crate) fn get(&self) -> Option<&HuggingFaceTokenizer> {
        let name = self.name.as_deref()?;
        self.loaded.get_or_init(|| open(name, true)).as_ref().ok()
    }
}

fn open(name: &str, offline: bool) -> Result<HuggingFaceTokenizer, ModelError> {
    let mut hub = Settings::from_environment(Kind::Model);
    hub.offline |= offline;
    HuggingFaceTokenizer::from_folder(&locate(&hub, name, "main")?)
}
