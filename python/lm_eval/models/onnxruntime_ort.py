"""ONNX Runtime: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["ONNXRuntimeLM"]


class ONNXRuntimeLM(UnsupportedModel):
    """ONNX Runtime."""

    NAME = "onnxruntime"
