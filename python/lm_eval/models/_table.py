"""The model classes by module, and the modules that consist of nothing but such classes, made when imported."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any

OWN = {
    "hf_audiolm:HFAUDIOLMQWEN": ("hf-audiolm-qwen",),
    "hf_vlms:HFMultimodalLM": ("hf-multimodal",),
    "huggingface:HFLM": ("hf", "hf-auto", "huggingface"),
    "openai_completions:AzureOpenaiChatCompletionsLM": ("azure-openai-chat-completions",),
    "openai_completions:LocalChatCompletion": ("local-chat-completions",),
    "openai_completions:LocalCompletionsAPI": ("local-completions",),
    "openai_completions:OpenAIChatCompletion": ("openai-chat-completions",),
    "openai_completions:OpenAICompletionsAPI": ("openai-completions",),
    "sglang_causallms:SGLangLM": ("sglang",),
    "vllm_causallms:VLLM": ("vllm",),
    "vllm_vlms:VLLM_VLM": ("vllm-vlm",),
}
"""Classes with a file of their own, and the names of their models."""

SERVED = {
    "anthropic_llms:AnthropicChat": ("anthropic-chat", "anthropic-chat-completions"),
    "anthropic_llms:AnthropicLM": ("anthropic-completions",),
    "dummy:DummyLM": ("dummy",),
    "gguf:GGUFLM": ("gguf", "ggml"),
    "ngram:NgramLM": ("ngram",),
    "replay:ReplayLM": ("replay",),
    "sglang_generate_API:SGLANGGENERATEAPI": ("sglang-generate",),
    "textsynth:TextSynthLM": ("textsynth",),
    "uniform:UniformLM": ("uniform",),
}
"""Classes whose models the engine serves."""

UNSUPPORTED = {
    "hf_steered:SteeredModel": ("steered",),
    "ibm_watsonx_ai:WatsonxLLM": ("watsonx_llm",),
    "litellm_llms:LiteLLMChatCompletion": ("litellm", "litellm-chat", "litellm-chat-completions"),
    "mamba_lm:MambaLMWrapper": ("mamba_ssm",),
    "megatron_lm:MegatronLMEval": ("megatron_lm",),
    "mistral3:Mistral3LM": ("hf-mistral3",),
    "nemo_lm:NeMoLM": ("nemo_lm",),
    "neuron_optimum:NEURON_HF": ("neuronx",),
    "onnxruntime_genai:ONNXRuntimeGenAILM": ("onnxruntime-genai",),
    "onnxruntime_ort:ONNXRuntimeLM": ("onnxruntime",),
    "optimum_habana:HabanaLM": ("habana",),
    "optimum_ipex:IPEXLM": ("ipex",),
    "optimum_lm:OptimumLM": ("openvino",),
    "trtllm_causallms:TRTLLM": ("trtllm",),
    "winml:WindowsML": ("winml",),
}
"""Classes that can be imported and subclassed, but not instantiated."""

_PACKAGE = __name__.rpartition(".")[0]


def mapping() -> dict[str, str]:
    """Return the module and class of each model name."""
    classes = sorted({**OWN, **SERVED, **UNSUPPORTED}.items())
    return {name: f"{_PACKAGE}.{target}" for target, names in classes for name in names}


def _classes_of(module: str) -> dict[str, tuple[str, bool]]:
    """Return the classes of a module without a file: the name of the model, and whether the engine serves it."""
    return {
        target.partition(":")[2]: (names[0], table is SERVED)
        for table in (SERVED, UNSUPPORTED)
        for target, names in table.items()
        if f"{_PACKAGE}.{target.partition(':')[0]}" == module
    }


class _TableFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules of the table."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not _classes_of(name):
            return None
        spec = importlib.util.spec_from_loader(name, self, origin=__file__)
        assert spec is not None
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        from lm_eval.models._served import ServedLM
        from lm_eval.models._unsupported import UnsupportedModel

        classes = _classes_of(module.__name__)
        module.__doc__ = f"The classes of {', '.join(f'`{name}`' for name, _ in classes.values())}."
        module.__dict__["__all__"] = list(classes)
        for cls, (name, is_served) in classes.items():
            base, doc = (ServedLM, "served by the engine") if is_served else (UnsupportedModel, "not in this package")
            body = {"__module__": module.__name__, "__doc__": f"The model `{name}`, {doc}.", "NAME": name}
            setattr(module, cls, type(cls, (base,), body))


def install() -> None:
    """Make the modules of the table importable."""
    if not any(type(finder).__name__ == _TableFinder.__name__ for finder in sys.meta_path):
        sys.meta_path.append(_TableFinder())
