"""Mistral 3: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["Mistral3LM"]


class Mistral3LM(Elsewhere):
    """Mistral 3."""

    NAME = "hf-mistral3"
