"""The server of llama-cpp-python, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["GGUFLM"]


class GGUFLM(ServedLM):
    """A llama.cpp model behind the server of llama-cpp-python."""

    NAME = "gguf"
