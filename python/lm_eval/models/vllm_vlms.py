"""vLLM with images."""

from __future__ import annotations

from lm_eval.models.vllm_causallms import VLLM

__all__ = ["VLLM_VLM"]


class VLLM_VLM(VLLM):
    """A vision model on a vLLM server of its own."""

    MULTIMODAL = True
    NAME = "vllm-vlm"
