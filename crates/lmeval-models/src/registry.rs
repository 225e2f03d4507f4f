//! Models by name.

use std::sync::Arc;

use lmeval_core::{Model, ModelEntry, ModelError, ModelErrorKind, ModelSettings, nearest};

use crate::api;
use crate::local;

/// The back ends there are.
pub const MODELS: &[ModelEntry] = &[
    ModelEntry {
        names: &["local-completions"],
        summary: "Completions of a server with OpenAI's interface, such as vLLM",
        create: |settings| api::LOCAL_COMPLETIONS.create(settings),
    },
    ModelEntry {
        names: &["local-chat-completions"],
        summary: "Chat completions of a server with OpenAI's interface",
        create: |settings| api::LOCAL_CHAT_COMPLETIONS.create(settings),
    },
    ModelEntry {
        names: &["openai-completions"],
        summary: "OpenAI's models for plain text",
        create: |settings| api::OPENAI_COMPLETIONS.create(settings),
    },
    ModelEntry {
        names: &["openai-chat-completions"],
        summary: "OpenAI's chat models",
        create: |settings| api::OPENAI_CHAT.create(settings),
    },
    ModelEntry {
        names: &["azure-openai-chat-completions"],
        summary: "OpenAI's chat models on Azure",
        create: api::create_azure,
    },
    ModelEntry {
        names: &["anthropic-chat", "anthropic-chat-completions"],
        summary: "Anthropic's chat models",
        create: |settings| api::ANTHROPIC_CHAT.create(settings),
    },
    ModelEntry {
        names: &["anthropic-completions"],
        summary: "Anthropic's older models for plain text",
        create: |settings| api::ANTHROPIC_COMPLETIONS.create(settings),
    },
    ModelEntry {
        names: &["sglang-generate"],
        summary: "The native interface of an SGLang server",
        create: |settings| api::SGLANG.create(settings),
    },
    ModelEntry {
        names: &["gguf", "ggml"],
        summary: "A llama.cpp model behind the server of llama-cpp-python",
        create: |settings| api::GGUF.create(settings),
    },
    ModelEntry {
        names: &["textsynth"],
        summary: "The service TextSynth",
        create: |settings| api::TEXTSYNTH.create(settings),
    },
    ModelEntry {
        names: &["replay"],
        summary: "Answers from a recording, such as the samples of an earlier run",
        create: local::replay::create,
    },
    ModelEntry {
        names: &["ngram"],
        summary: "A byte-level n-gram model, counted from any text: a baseline",
        create: local::ngram::create,
    },
    ModelEntry { names: &["uniform"], summary: "Chance level", create: local::uniform::create },
    ModelEntry {
        names: &["dummy"],
        summary: "Answers without a thought, to try out a run",
        create: local::dummy::create,
    },
];

/// Makes the model of a name.
pub fn create(name: &str, settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    find(name).map_or_else(|| Err(unknown(name, &[])), |entry| (entry.create)(settings))
}

/// The back end of a name, where there is one.
pub fn find(name: &str) -> Option<&'static ModelEntry> {
    MODELS.iter().find(|entry| entry.names.contains(&name))
}

/// Back ends of the Python harness that are not here, and what to use instead.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["hf-multimodal", "hf-mistral3", "hf-audiolm-qwen", "mamba_ssm", "steered"],
        "Start a server for the model, such as `vllm serve <model>`, and use `--model local-completions`",
    ),
    (
        &["vllm", "vllm-vlm"],
        "Start `vllm serve <model>` and use `--model local-completions --model_args \
         model=<model>,base_url=http://localhost:8000/v1/completions`",
    ),
    (
        &["sglang"],
        "Start `python -m sglang.launch_server --model-path <model>` and use `--model sglang-generate --model_args \
         model=<model>,base_url=http://localhost:30000/generate`",
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

/// The error of a name that no model has; `others` are the names of models from elsewhere.
pub fn unknown(name: &str, others: &[String]) -> ModelError {
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(names, _)| names.contains(&name)) {
        let message = format!("The model `{name}` of the Python harness is not part of this one");
        let error = ModelError::new(ModelErrorKind::Configuration, message).hint(*instead);
        return error.hint(format!(
            "`--model lm_eval:{name}` runs it where the original package `lm_eval` is installed; `--python` names the \
             interpreter"
        ));
    }
    let known = MODELS.iter().flat_map(|entry| entry.names.iter().copied());
    let known = known.chain(others.iter().map(String::as_str));
    let near = nearest(name, known.clone());
    let error = ModelError::new(ModelErrorKind::Configuration, format!("There is no model `{name}`"));
    if near.is_empty() {
        let names: Vec<&str> = known.collect();
        error.hint(format!("There are `{}`; `lm-eval ls models` says what they are", names.join("`, `")))
    } else {
        error.hint(format!("Did you mean `{}`?", near.join("` or `")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_once() {
        let mut names: Vec<&str> = MODELS.iter().flat_map(|entry| entry.names.iter().copied()).collect();
        names.extend(ELSEWHERE.iter().flat_map(|(names, _)| names.iter().copied()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

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
