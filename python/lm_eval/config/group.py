"""Configuration of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from lm_eval.config._callables import serialize_function

__all__ = ["AggMetricConfig", "GroupConfig"]


def _listed(value: Any, *kinds: type) -> Any:
    """Wrap a single element in a list; return everything else unchanged."""
    return [value] if isinstance(value, kinds) else value


@dataclass
class AggMetricConfig:
    """One metric that a group aggregates over its members.

    Without `filter_list`, all pipelines that report the metric are used; with `weight_by_size`, members are weighted
    by document count.
    """

    metric: str
    filter_list: list[str] | None = None
    aggregation: str | Callable[..., Any] = "mean"
    weight_by_size: bool = True

    def __post_init__(self) -> None:
        if self.aggregation != "mean" and not callable(self.aggregation):
            raise ValueError(f"A group aggregates with `mean`, not `{self.aggregation}`")
        self.filter_list = _listed(self.filter_list, str)


@dataclass
class GroupConfig:
    """A group as defined in its file."""

    group: str
    group_alias: str | None = None
    task: Any = None
    aggregate_metric_list: Any = None
    metadata: dict[str, Any] | None = None
    include: Any = None

    def __post_init__(self) -> None:
        self.task = _listed(self.task, str)
        entries = _listed(self.aggregate_metric_list, dict, AggMetricConfig)
        if entries is not None:
            entries = [AggMetricConfig(**entry) if isinstance(entry, dict) else entry for entry in entries]
        self.aggregate_metric_list = entries

    def serialize_function(self, value: Any, keep_callable: bool = False) -> Any:
        """Return the source of a function, or its `repr` where there is none."""
        return serialize_function(value, keep_callable)

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """Return the configuration as a dictionary."""
        return {
            key: serialize_function(value, keep_callable) if callable(value) else value
            for key, value in asdict(self).items()
        }
