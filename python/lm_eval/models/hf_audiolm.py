"""Audio models of `transformers`: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["HFAUDIOLMQWEN"]


class HFAUDIOLMQWEN(UnsupportedModel):
    """Audio models of `transformers`."""

    NAME = "hf-audiolm-qwen"
