"""Anthropic's models, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["AnthropicChat", "AnthropicLM"]


class AnthropicLM(ServedLM):
    """Anthropic's older completion models."""

    NAME = "anthropic-completions"


class AnthropicChat(ServedLM):
    """Anthropic's chat models."""

    NAME = "anthropic-chat"
