"""The scorers that task files can name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lm_eval.api.registry import register_scorer
from lm_eval.scorers._base import GenScorer

__all__ = ["ChoiceMatchScorer", "FirstTokenScorer", "RegexExtractionScorer"]

_EXACT_MATCH: dict[str, Any] = {
    "metric": "exact_match",
    "aggregation": "mean",
    "higher_is_better": True,
    "kwargs": {"ignore_case": True, "ignore_punctuation": True},
}


@register_scorer("choice_match")
@dataclass(kw_only=True)
class ChoiceMatchScorer(GenScorer):
    """Exact match, ignoring case and punctuation."""

    default_metric_cfg: ClassVar[Any] = [_EXACT_MATCH]


@register_scorer("first_token")
@dataclass(kw_only=True)
class FirstTokenScorer(GenScorer):
    """Exact match of the answer, stripped of surrounding whitespace."""

    default_filter_cfg: ClassVar[Any] = [{"function": "remove_whitespace"}]
    default_metric_cfg: ClassVar[Any] = [_EXACT_MATCH]


@register_scorer("regex")
@dataclass(kw_only=True)
class RegexExtractionScorer(GenScorer):
    """Exact match of the part that a pattern matches."""

    default_filter_cfg: ClassVar[Any] = [{"function": "regex"}]
    default_metric_cfg: ClassVar[Any] = [_EXACT_MATCH]
