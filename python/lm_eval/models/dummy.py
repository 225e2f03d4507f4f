"""The dummy model, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["DummyLM"]


class DummyLM(ServedLM):
    """Returns constant answers, to test a run without a model."""

    NAME = "dummy"
