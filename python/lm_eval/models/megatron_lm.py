"""Megatron-LM: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["MegatronLMEval"]


class MegatronLMEval(Elsewhere):
    """Megatron-LM."""

    NAME = "megatron_lm"
