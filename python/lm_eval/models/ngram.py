"""The n-gram model, served by the engine."""

from __future__ import annotations

from lm_eval.models._served import ServedLM

__all__ = ["NgramLM"]


class NgramLM(ServedLM):
    """A byte-level n-gram model, counted from any text file."""

    NAME = "ngram"
