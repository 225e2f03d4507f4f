//! The back ends of this crate: one line each.

use std::sync::Arc;

use lmeval_core::registry::{ModelEntry, Registry};
use lmeval_core::{Model, ModelError, ModelSettings};

use crate::api;
use crate::local;

/// The back ends of this crate, for a registry.
pub fn models() -> Vec<ModelEntry> {
    vec![
        entry(
            &["local-completions"],
            "Completions of a server with OpenAI's interface, such as vLLM",
            |settings| api::LOCAL_COMPLETIONS.create(settings),
        ),
        entry(
            &["local-chat-completions"],
            "Chat completions of a server with OpenAI's interface",
            |settings| api::LOCAL_CHAT_COMPLETIONS.create(settings),
        ),
        entry(&["openai-completions"], "OpenAI's models for plain text", |settings| {
            api::OPENAI_COMPLETIONS.create(settings)
        }),
        entry(&["openai-chat-completions"], "OpenAI's chat models", |settings| {
            api::OPENAI_CHAT.create(settings)
        }),
        entry(&["azure-openai-chat-completions"], "OpenAI's chat models on Azure", api::create_azure),
        entry(&["anthropic-chat", "anthropic-chat-completions"], "Anthropic's chat models", |settings| {
            api::ANTHROPIC_CHAT.create(settings)
        }),
        entry(&["anthropic-completions"], "Anthropic's older models for plain text", |settings| {
            api::ANTHROPIC_COMPLETIONS.create(settings)
        }),
        entry(&["sglang-generate"], "The native interface of an SGLang server", |settings| {
            api::SGLANG.create(settings)
        }),
        entry(&["gguf", "ggml"], "A llama.cpp model behind the server of llama-cpp-python", |settings| {
            api::GGUF.create(settings)
        }),
        entry(&["textsynth"], "The service TextSynth", |settings| api::TEXTSYNTH.create(settings)),
        entry(
            &["replay"],
            "Answers from a recording, such as the samples of an earlier run",
            local::replay::create,
        ),
        entry(
            &["ngram"],
            "A byte-level n-gram model, counted from any text: a baseline",
            local::ngram::create,
        ),
        entry(&["uniform"], "Chance level", local::uniform::create),
        entry(&["dummy"], "Answers without a thought, to try out a run", local::dummy::create),
    ]
}

/// Makes the model of a name, which must be one of this crate.
pub fn create(name: &str, settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    Registry::default().with_models(models()).model(name, settings)
}

fn entry(
    names: &'static [&'static str],
    summary: &'static str,
    create: fn(&ModelSettings) -> Result<Arc<dyn Model>, ModelError>,
) -> ModelEntry {
    ModelEntry::named(names, create).summary(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_say_what_to_use() {
        let error = |name: &str| create(name, &ModelSettings::default()).unwrap_err();
        assert!(error("local-completion").hints()[0].starts_with("Did you mean `local-completions`"));
        assert!(error("vllm").hints()[0].contains("--model local-completions"));
        assert_eq!(
            error("local-completions").to_string(),
            "The model `local-completions` needs the argument `base_url`"
        );
    }
}
