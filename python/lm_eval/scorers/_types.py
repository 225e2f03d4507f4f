"""Values that scorers pass on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["MetricKey", "ReducedDoc", "ScoredDoc"]

ReducedDoc = dict[str, Any]
"""The values of one document after reduction, by metric."""

_STDERR = "_stderr"


@dataclass(frozen=True)
class ScoredDoc:
    """The scores of one document: for each metric a list with one value per repeat."""

    doc_id: int
    reference: Any
    scores: Mapping[str, list[Any]]


@dataclass(frozen=True)
class MetricKey:
    """The key of a result, written `metric,scorer` or `metric_stderr,scorer`."""

    metric: str
    scorer: str
    is_stderr: bool = False

    def __str__(self) -> str:
        return f"{self.metric}{_STDERR if self.is_stderr else ''},{self.scorer}"

    @property
    def parent_metric(self) -> str | None:
        """The metric in parentheses: `exact_match` of `pass@1(exact_match)`."""
        _, parenthesis, rest = self.metric.partition("(")
        return rest[:-1] if parenthesis and rest.endswith(")") else None

    @classmethod
    def parse(cls, key: str) -> MetricKey | None:
        """Parse a result key; return `None` for any other string."""
        metric, comma, scorer = key.partition(",")
        if not comma:
            return None
        if metric.endswith(_STDERR):
            return cls(metric[: -len(_STDERR)], scorer, is_stderr=True)
        return cls(metric, scorer)
