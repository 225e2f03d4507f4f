"""Audio models of `transformers`: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["HFAUDIOLMQWEN"]


class HFAUDIOLMQWEN(Elsewhere):
    """Audio models of `transformers`."""

    NAME = "hf-audiolm-qwen"
