"""SGLang in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["SGLangLM"]


class SGLangLM(UnsupportedModel):
    """SGLang in this process."""

    NAME = "sglang"
