"""Mistral 3: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["Mistral3LM"]


class Mistral3LM(UnsupportedModel):
    """Mistral 3."""

    NAME = "hf-mistral3"
