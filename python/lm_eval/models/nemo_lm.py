"""NVIDIA NeMo: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["NeMoLM"]


class NeMoLM(Elsewhere):
    """NVIDIA NeMo."""

    NAME = "nemo_lm"
