"""NVIDIA NeMo: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["NeMoLM"]


class NeMoLM(UnsupportedModel):
    """NVIDIA NeMo."""

    NAME = "nemo_lm"
