"""SGLang: a server that the engine starts with the SGLang of this interpreter."""

from __future__ import annotations

from lm_eval.models._launched import LaunchedLM

__all__ = ["SGLangLM"]


class SGLangLM(LaunchedLM):
    """A model on an SGLang server of its own; further arguments are flags of the server."""

    NAME = "sglang"
    _TOKENIZER = ("tokenizer_path", "pretrained")
