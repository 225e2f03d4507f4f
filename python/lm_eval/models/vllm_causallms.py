"""vLLM in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["VLLM"]


class VLLM(Elsewhere):
    """vLLM in this process."""

    NAME = "vllm"
