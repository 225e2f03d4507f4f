"""vLLM with images in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["VLLM_VLM"]


class VLLM_VLM(UnsupportedModel):
    """vLLM with images in this process."""

    NAME = "vllm-vlm"
