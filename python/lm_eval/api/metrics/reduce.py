"""Reductions: combine the values of all repeats of a document into one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lm_eval.api.metrics._numeric import plain_sum
from lm_eval.api.registry import register_reduction

__all__ = ["mean_over_repeats", "pass_at_k", "take_first"]


@register_reduction("take_first")
def take_first(references: Any, predictions: Sequence[Any]) -> Any:
    """Return the value of the first repeat."""
    return predictions[0]


@register_reduction("mean")
def mean_over_repeats(references: Any, predictions: Sequence[float]) -> float:
    """Return the mean over all repeats."""
    return plain_sum(predictions) / len(predictions)


@register_reduction("pass_at_k")
@register_reduction("pass@k")
def pass_at_k(
    references: Any, predictions: Sequence[Any], k: int | Sequence[int] | None = None
) -> dict[str, float]:
    """Estimate, for each k, the probability that at least one of k repeats is correct.

    By default, k is 1, 3, 5, 10, 20, 50 and 100 up to the number of repeats, that number itself, and some values
    between.
    """
    count = len(predictions)
    right = sum(1 for value in predictions if value)
    wanted = automatic_k(count) if k is None else [k] if isinstance(k, int) else k
    return {f"pass@{number}": _estimate(count, right, number) for number in wanted}


def _estimate(count: int, right: int, k: int) -> float:
    if count - right < k:
        return 1.0
    all_wrong = 1.0
    for number in range(count - right + 1, count + 1):
        all_wrong *= 1.0 - k / number
    return 1.0 - all_wrong


def automatic_k(count: int) -> list[int]:
    """Return the values of k that are reported for a number of repeats."""
    if count == 0:
        return []
    numbers = {k for k in (1, 3, 5, 10, 20, 50, 100) if k <= count} | {count}
    if count > 100:
        decades = math.log10(count) - 2
        steps = max(2, 3 * math.floor(decades))
        numbers.update(math.floor(10 ** (2 + step * decades / steps)) for step in range(1, steps))
    return sorted(numbers)
