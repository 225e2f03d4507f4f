"""Models of `transformers` that see images: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["HFMultimodalLM"]


class HFMultimodalLM(Elsewhere):
    """Models of `transformers` that see images."""

    NAME = "hf-multimodal"
