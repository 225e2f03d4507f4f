"""TensorRT-LLM: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["TRTLLM"]


class TRTLLM(UnsupportedModel):
    """TensorRT-LLM."""

    NAME = "trtllm"
