"""Models on a llama-cpp-python server, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["GGUFLM"]


class GGUFLM(ServedLM):
    """A llama.cpp model on a llama-cpp-python server."""

    NAME = "gguf"
