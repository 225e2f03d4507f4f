"""Helpers for metrics that tasks define."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["metric_max_over_ground_truths"]


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], Any], prediction: Any, ground_truths: Iterable[Any]
) -> Any:
    """Return the best score of a prediction over several references."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)
