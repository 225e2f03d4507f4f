"""TextSynth, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["TextSynthLM"]


class TextSynthLM(ServedLM):
    """The TextSynth service."""

    NAME = "textsynth"
