"""vLLM: a server that the engine starts with the vLLM of this interpreter."""

from __future__ import annotations

from lm_eval.models._launched import LaunchedLM

__all__ = ["VLLM"]


class VLLM(LaunchedLM):
    """A model on a vLLM server of its own; further arguments are flags of the server."""

    NAME = "vllm"
