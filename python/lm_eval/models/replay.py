"""The replay model, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["ReplayLM"]


class ReplayLM(ServedLM):
    """Answers from a recording, such as the samples of an earlier run."""

    NAME = "replay"
