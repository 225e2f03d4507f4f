"""Intel Gaudi: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["HabanaLM"]


class HabanaLM(Elsewhere):
    """Intel Gaudi."""

    NAME = "habana"
