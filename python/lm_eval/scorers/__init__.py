"""Scorers: turn filtered answers into results."""

from __future__ import annotations

from lm_eval.api.registry import register_scorer as register_scorer
from lm_eval.scorers._base import GenScorer, LLScorer, Scorer, build_scorer
from lm_eval.scorers._types import MetricKey, ReducedDoc, ScoredDoc
from lm_eval.scorers.extraction import ChoiceMatchScorer, FirstTokenScorer, RegexExtractionScorer

__all__ = [
    "ChoiceMatchScorer",
    "FirstTokenScorer",
    "GenScorer",
    "LLScorer",
    "MetricKey",
    "ReducedDoc",
    "RegexExtractionScorer",
    "ScoredDoc",
    "Scorer",
    "build_scorer",
]
