"""Models with steered activations: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["SteeredModel"]


class SteeredModel(UnsupportedModel):
    """Models with steered activations."""

    NAME = "steered"
