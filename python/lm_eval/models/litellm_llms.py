"""LiteLLM in this process: not part of this package."""

from __future__ import annotations

from lm_eval.models._elsewhere import Elsewhere

__all__ = ["LiteLLMChatCompletion"]


class LiteLLMChatCompletion(Elsewhere):
    """LiteLLM in this process."""

    NAME = "litellm"
