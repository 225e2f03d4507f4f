"""Models of `transformers` that hear sounds: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["HFAUDIOLMQWEN"]


class HFAUDIOLMQWEN(Elsewhere):
    """Models of `transformers` that hear sounds."""

    NAME = "hf-audiolm-qwen"
