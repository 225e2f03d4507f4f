"""Intel Gaudi: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["HabanaLM"]


class HabanaLM(UnsupportedModel):
    """Intel Gaudi."""

    NAME = "habana"
