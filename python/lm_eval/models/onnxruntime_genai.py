"""ONNX Runtime GenAI: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["ONNXRuntimeGenAILM"]


class ONNXRuntimeGenAILM(Elsewhere):
    """ONNX Runtime GenAI."""

    NAME = "onnxruntime-genai"
