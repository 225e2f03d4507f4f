"""LiteLLM in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._unsupported import UnsupportedModel

__all__ = ["LiteLLMChatCompletion"]


class LiteLLMChatCompletion(UnsupportedModel):
    """LiteLLM in this process."""

    NAME = "litellm"
