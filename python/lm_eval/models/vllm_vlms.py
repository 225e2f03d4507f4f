"""vLLM with images in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["VLLM_VLM"]


class VLLM_VLM(Elsewhere):
    """vLLM with images in this process."""

    NAME = "vllm-vlm"
