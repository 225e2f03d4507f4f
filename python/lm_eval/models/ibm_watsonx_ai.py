"""IBM watsonx.ai: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["WatsonxLLM"]


class WatsonxLLM(Elsewhere):
    """IBM watsonx.ai."""

    NAME = "watsonx_llm"
