"""SGLang in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["SGLangLM"]


class SGLangLM(Elsewhere):
    """SGLang in this process."""

    NAME = "sglang"
