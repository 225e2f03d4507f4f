"""IBM watsonx.ai: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["WatsonxLLM"]


class WatsonxLLM(UnsupportedModel):
    """IBM watsonx.ai."""

    NAME = "watsonx_llm"
