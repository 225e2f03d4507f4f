"""vLLM in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["VLLM"]


class VLLM(UnsupportedModel):
    """vLLM in this process."""

    NAME = "vllm"
