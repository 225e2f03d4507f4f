//! The backends of this crate, one entry each.

use std::sync::Arc;

use lmeval_core::{Model, ModelError, ModelSettings};
use lmeval_scoring::registry::{ModelEntry, Registry};

use crate::api;
use crate::{launched, local};

/// The registry entries of this crate's backends.
pub fn models() -> Vec<ModelEntry> {
    vec![
        server(&["local-completions"], "An OpenAI-compatible completions server, such as vLLM", |settings| {
            api::LOCAL_COMPLETIONS.create(settings)
        }),
        server(&["local-chat-completions"], "An OpenAI-compatible chat completions server", |settings| {
            api::LOCAL_CHAT_COMPLETIONS.create(settings)
        }),
        server(&["vllm"], "vLLM, started by the run from your Python", launched::create_vllm),
        server(
            &["vllm-vlm"],
            "vLLM with images, started by the run from your Python",
            launched::create_vllm_vlm,
        ),
        entry(
            &["hf-multimodal"],
            "Vision models of transformers, on the torch of your Python",
            local::on_torch,
        ),
        entry(
            &["hf-audiolm-qwen"],
            "Audio models of transformers, on the torch of your Python",
            local::on_torch,
        ),
        server(&["sglang"], "SGLang, started by the run from your Python", launched::create_sglang),
        server(&["openai-completions"], "OpenAI's completions API", |settings| {
            api::OPENAI_COMPLETIONS.create(settings)
        }),
        server(&["openai-chat-completions"], "OpenAI's chat completions API", |settings| {
            api::OPENAI_CHAT.create(settings)
        }),
        server(
            &["azure-openai-chat-completions"],
            "OpenAI's chat completions API on Azure",
            api::create_azure,
        ),
        server(&["anthropic-chat", "anthropic-chat-completions"], "Anthropic's messages API", |settings| {
            api::ANTHROPIC_CHAT.create(settings)
        }),
        server(&["anthropic-completions"], "Anthropic's legacy completions API", |settings| {
            api::ANTHROPIC_COMPLETIONS.create(settings)
        }),
        server(&["sglang-generate"], "The native API of an SGLang server", |settings| {
            api::SGLANG.create(settings)
        }),
        server(&["gguf", "ggml"], "A llama.cpp model served by llama-cpp-python", |settings| {
            api::GGUF.create(settings)
        }),
        server(&["textsynth"], "The TextSynth API", |settings| api::TEXTSYNTH.create(settings)),
        entry(
            &["replay"],
            "Answers from a recording, such as the samples files of an earlier run",
            local::replay::create,
        ),
        entry(&["ngram"], "A byte-level n-gram model of any corpus, as a baseline", local::ngram::create),
        entry(&["uniform"], "Random guessing (chance level)", local::uniform::create),
        entry(
            &["stand-in-judge"],
            "A rule-based stand-in for a judge, for trying `--judge` without a model",
            local::stand_in_judge::create,
        ),
        entry(&["dummy"], "Constant or random answers, for a trial run", local::dummy::create),
    ]
}

/// Creates a model by name; the name must belong to this crate.
pub fn create(name: &str, settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    Registry::default().with_models(models()).model(name, settings)
}

/// A backend that sends requests to a server.
fn server(
    names: &'static [&'static str],
    summary: &'static str,
    create: fn(&ModelSettings) -> Result<Arc<dyn Model>, ModelError>,
) -> ModelEntry {
    entry(names, summary, create).served()
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
    use lmeval_core::Diagnose as _;

    use super::*;

    #[test]
    fn suggests_alternatives_for_unknown_names() {
        let error = |name: &str| create(name, &ModelSettings::default()).unwrap_err();
        assert!(error("local-completion").hints()[0].starts_with("Did you mean `local-completions`"));
        assert!(error("vllm").to_string().contains("`pretrained`"));
        assert_eq!(
            error("local-completions").to_string(),
            "The model `local-completions` needs the argument `base_url`"
        );
    }
}
