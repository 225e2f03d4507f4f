"""The uniform model, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["UniformLM"]


class UniformLM(ServedLM):
    """Chance level."""

    NAME = "uniform"
