"""Model classes by name, imported on first use.

The classes of the engine's own models are served by the engine. `hf` runs on torch in this process.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from lm_eval.api.registry import model_registry

__all__ = ["MODEL_MAPPING"]

_CLASSES = {
    "anthropic_llms:AnthropicChat": ("anthropic-chat", "anthropic-chat-completions"),
    "anthropic_llms:AnthropicLM": ("anthropic-completions",),
    "dummy:DummyLM": ("dummy",),
    "gguf:GGUFLM": ("gguf", "ggml"),
    "hf_audiolm:HFAUDIOLMQWEN": ("hf-audiolm-qwen",),
    "hf_steered:SteeredModel": ("steered",),
    "hf_vlms:HFMultimodalLM": ("hf-multimodal",),
    "huggingface:HFLM": ("hf", "hf-auto", "huggingface"),
    "ibm_watsonx_ai:WatsonxLLM": ("watsonx_llm",),
    "litellm_llms:LiteLLMChatCompletion": ("litellm", "litellm-chat", "litellm-chat-completions"),
    "mamba_lm:MambaLMWrapper": ("mamba_ssm",),
    "megatron_lm:MegatronLMEval": ("megatron_lm",),
    "mistral3:Mistral3LM": ("hf-mistral3",),
    "nemo_lm:NeMoLM": ("nemo_lm",),
    "neuron_optimum:NEURON_HF": ("neuronx",),
    "ngram:NgramLM": ("ngram",),
    "onnxruntime_genai:ONNXRuntimeGenAILM": ("onnxruntime-genai",),
    "onnxruntime_ort:ONNXRuntimeLM": ("onnxruntime",),
    "openai_completions:AzureOpenaiChatCompletionsLM": ("azure-openai-chat-completions",),
    "openai_completions:LocalChatCompletion": ("local-chat-completions",),
    "openai_completions:LocalCompletionsAPI": ("local-completions",),
    "openai_completions:OpenAIChatCompletion": ("openai-chat-completions",),
    "openai_completions:OpenAICompletionsAPI": ("openai-completions",),
    "optimum_habana:HabanaLM": ("habana",),
    "optimum_ipex:IPEXLM": ("ipex",),
    "optimum_lm:OptimumLM": ("openvino",),
    "replay:ReplayLM": ("replay",),
    "sglang_causallms:SGLangLM": ("sglang",),
    "sglang_generate_API:SGLANGGENERATEAPI": ("sglang-generate",),
    "textsynth:TextSynthLM": ("textsynth",),
    "trtllm_causallms:TRTLLM": ("trtllm",),
    "uniform:UniformLM": ("uniform",),
    "vllm_causallms:VLLM": ("vllm",),
    "vllm_vlms:VLLM_VLM": ("vllm-vlm",),
    "winml:WindowsML": ("winml",),
}

MODEL_MAPPING = {name: f"lm_eval.models.{target}" for target, names in _CLASSES.items() for name in names}
"""The module and class of each name."""

model_registry.add_builtins(MODEL_MAPPING)


def __getattr__(name: str) -> ModuleType:
    """Import a module of this package when it is first used as an attribute."""
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
