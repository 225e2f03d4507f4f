"""Vision models of `transformers`: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["HFMultimodalLM"]


class HFMultimodalLM(Elsewhere):
    """Vision models of `transformers`."""

    NAME = "hf-multimodal"
