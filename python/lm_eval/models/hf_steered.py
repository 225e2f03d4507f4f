"""Models with steered activations: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["SteeredModel"]


class SteeredModel(Elsewhere):
    """Models with steered activations."""

    NAME = "steered"
