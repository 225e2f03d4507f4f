"""The uniform model, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["UniformLM"]


class UniformLM(ServedLM):
    """Scores all continuations alike: the chance level of a task."""

    NAME = "uniform"
