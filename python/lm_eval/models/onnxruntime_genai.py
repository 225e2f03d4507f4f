"""ONNX Runtime GenAI: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["ONNXRuntimeGenAILM"]


class ONNXRuntimeGenAILM(UnsupportedModel):
    """ONNX Runtime GenAI."""

    NAME = "onnxruntime-genai"
