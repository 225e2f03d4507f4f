"""ONNX Runtime: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["ONNXRuntimeLM"]


class ONNXRuntimeLM(Elsewhere):
    """ONNX Runtime."""

    NAME = "onnxruntime"
