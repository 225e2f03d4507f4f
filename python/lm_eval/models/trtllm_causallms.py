"""TensorRT-LLM: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["TRTLLM"]


class TRTLLM(Elsewhere):
    """TensorRT-LLM."""

    NAME = "trtllm"
