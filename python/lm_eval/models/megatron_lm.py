"""Megatron-LM: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["MegatronLMEval"]


class MegatronLMEval(UnsupportedModel):
    """Megatron-LM."""

    NAME = "megatron_lm"
