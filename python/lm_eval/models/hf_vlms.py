"""Vision models of `transformers`: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["HFMultimodalLM"]


class HFMultimodalLM(UnsupportedModel):
    """Vision models of `transformers`."""

    NAME = "hf-multimodal"
