"""Aggregations: combine the values of all documents into one score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lm_eval.api.metrics._numeric import pairwise_sum, plain_sum
from lm_eval.api.registry import register_aggregation

__all__ = [
    "bits_per_byte",
    "bypass_agg",
    "mean",
    "median",
    "nanmean",
    "perplexity",
    "weighted_mean",
    "weighted_perplexity",
]


@register_aggregation("mean")
def mean(arr: Sequence[Any]) -> float:
    """Return the arithmetic mean."""
    return plain_sum(arr) / len(arr)


@register_aggregation("median")
def median(arr: Sequence[Any]) -> Any:
    """Return the median; for an even number of values, the upper middle one."""
    return sorted(arr)[len(arr) // 2]


@register_aggregation("nanmean")
def nanmean(arr: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    numbers = [float(value) for value in arr]
    known = [not math.isnan(value) for value in numbers]
    if not any(known):
        return math.nan
    total = pairwise_sum([value if is_known else 0.0 for value, is_known in zip(numbers, known)])
    return total / sum(known)


@register_aggregation("weighted_mean")
def weighted_mean(items: Sequence[tuple[float, float]]) -> float:
    """Return the sum of the first members divided by the sum of the second ones."""
    totals, weights = zip(*items)
    return plain_sum(totals) / plain_sum(weights)


@register_aggregation("perplexity")
def perplexity(items: Sequence[float]) -> float:
    """Return the perplexity of log-likelihoods."""
    return math.exp(-mean(items))


@register_aggregation("weighted_perplexity")
def weighted_perplexity(items: Sequence[tuple[float, float]]) -> float:
    """Return the perplexity of `(log-likelihood, length)` pairs."""
    return math.exp(-weighted_mean(items))


@register_aggregation("bits_per_byte")
def bits_per_byte(items: Sequence[tuple[float, float]]) -> float:
    """Return the bits per unit of length of `(log-likelihood, length)` pairs."""
    return -weighted_mean(items) / math.log(2)


@register_aggregation("bypass")
def bypass_agg(arr: Sequence[Any]) -> int:
    """Return 999, the score of a predict-only run."""
    return 999


@register_aggregation("brier_score")
def brier_score_agg(items: Sequence[float]) -> float:
    """Return the mean of the Brier scores."""
    return mean(items)
