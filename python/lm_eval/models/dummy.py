"""The dummy model, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["DummyLM"]


class DummyLM(ServedLM):
    """Answers without a thought, to try out a run."""

    NAME = "dummy"
