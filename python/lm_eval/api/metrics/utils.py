"""Helpers for metrics that tasks define."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.api.metrics.metric import Metric

__all__ = ["metric_max_over_ground_truths", "parse_metric"]


def parse_metric(entry: Any, output_type: str | None = None) -> Metric[Any, Any]:
    """Return the metric of an entry of `metric_list`: a mapping, a name, a function or a `Metric`."""
    from lm_eval.api.metrics.metric import Metric

    if isinstance(entry, Metric):
        return entry
    if isinstance(entry, str) or (callable(entry) and not isinstance(entry, Mapping)):
        entry = {"metric": entry}
    if not isinstance(entry, Mapping):
        raise TypeError(f"A metric must be a mapping, a name, a function or a `Metric`, not {entry!r}")
    return Metric.from_dict(entry, output_type)


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], Any], prediction: Any, ground_truths: Iterable[Any]
) -> Any:
    """Return the best score of a prediction over several references."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)
