//! The model kind and lookup of models.

use std::borrow::Cow;
use std::sync::Arc;

use lmeval_metrics::nearest;

use super::Registry;
use super::entry::{Code, Entry, Kind};
use super::table::Table;
use lmeval_core::{Model, ModelError, ModelErrorKind, ModelSettings};

/// Models: answer requests. Built-in ones come from other crates, see [`Registry::with_models`].
#[derive(Clone, Copy, Debug)]
pub enum ModelKind {}

/// A registry entry for a model.
pub type ModelEntry = Entry<ModelKind>;

/// Metadata of a model.
#[derive(Clone, Debug, Default)]
pub struct ModelNames {
    /// Aliases.
    pub other_names: Cow<'static, [&'static str]>,
    /// Whether a server computes the model.
    pub is_served: bool,
}

impl Kind for ModelKind {
    const NAME: &'static str = "model";
    type Code = dyn Fn(&ModelSettings) -> Result<Arc<dyn Model>, ModelError> + Send + Sync;
    type Facts = ModelNames;

    fn table_mut(registry: &mut Registry) -> &mut Table<Self> {
        &mut registry.models
    }

    fn matches_name(entry: &Entry<Self>, name: &str) -> bool {
        entry.facts.other_names.contains(&name)
    }
}

impl ModelEntry {
    /// An entry for a model, which is created from the caller's settings.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        make: impl Fn(&ModelSettings) -> Result<Arc<dyn Model>, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self::with_code(name, Code::Program(Arc::new(make)))
    }

    /// An entry for a model with several names, the main one first.
    pub fn named(
        names: &'static [&'static str],
        make: impl Fn(&ModelSettings) -> Result<Arc<dyn Model>, ModelError> + Send + Sync + 'static,
    ) -> Self {
        let (name, others) = names.split_first().map_or(("", names), |(name, others)| (*name, others));
        let mut entry = Self::new(name, make);
        entry.facts.other_names = Cow::Borrowed(others);
        entry
    }

    /// Marks a model that a server computes.
    pub fn served(mut self) -> Self {
        self.facts.is_served = true;
        self
    }

    /// All names, the main one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.facts.other_names.iter().copied())
    }
}

/// Backends of the Python harness that are not built in, and their replacements.
const REPLACEMENTS: &[(&[&str], &str)] = &[
    (
        &["hf-mistral3", "mamba_ssm", "steered"],
        "Start a server for the model, such as `vllm serve <model>`, and use `--model local-completions`",
    ),
    (
        &["litellm", "litellm-chat", "litellm-chat-completions"],
        "Start LiteLLM's proxy and use `--model local-chat-completions` with its address",
    ),
    (
        &[
            "trtllm",
            "openvino",
            "openvino-causal",
            "ipex",
            "neuronx",
            "nemo_lm",
            "megatron_lm",
            "winml",
            "watsonx_llm",
            "habana",
            "onnxruntime-genai",
            "onnxruntime",
        ],
        "Start a server with OpenAI's interface for the model and use `--model local-completions` or \
         `--model local-chat-completions`",
    ),
];

impl Registry {
    /// Adds models as built-in entries, skipping names that are already in use.
    pub fn with_models(mut self, models: Vec<ModelEntry>) -> Self {
        for model in models {
            // The existing entry wins.
            let _ = self.models.register(model.built_in());
        }
        self
    }

    /// Creates the model of a name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lmeval_core::{Diagnose, ModelSettings};
    /// use lmeval_scoring::registry::Registry;
    ///
    /// let error = Registry::default().model("mamba_ssm", &ModelSettings::default()).unwrap_err();
    /// assert!(error.hints()[0].contains("--model local-completions"));
    /// ```
    pub fn model(&self, name: &str, settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
        match self.models.get(name).and_then(|entry| entry.code.rust()) {
            Some(make) => make(settings),
            None => Err(self.unknown_model(name)),
        }
    }

    /// The error of an unknown model name, with hints.
    pub fn unknown_model(&self, name: &str) -> ModelError {
        if let Some((_, instead)) = REPLACEMENTS.iter().find(|(names, _)| names.contains(&name)) {
            let message = format!("The model `{name}` of the Python harness is not built in");
            let error = ModelError::new(ModelErrorKind::Configuration, message).hint(*instead);
            return error.hint(format!(
                "`--model lm_eval:{name}` runs it through an installed original `lm_eval` package; `--python` selects \
                 the interpreter"
            ));
        }
        let known: Vec<&str> = self.models.iter().flat_map(ModelEntry::names).collect();
        let near = nearest(name, known.iter().copied());
        let error = ModelError::new(ModelErrorKind::Configuration, format!("There is no model `{name}`"));
        if near.is_empty() {
            error.hint(format!(
                "Available models: `{}`; `lm-eval ls models` describes them",
                known.join("`, `")
            ))
        } else {
            error.hint(format!("Did you mean `{}`?", near.join("` or `")))
        }
    }
}
