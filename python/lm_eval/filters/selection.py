"""Filters that choose among the repeats of a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter

__all__ = ["MajorityVoteFilter", "NoopFilter", "TakeFirstFilter", "TakeKFilter"]


@register_filter("noop")
class NoopFilter(Filter):
    """Keep all answers unchanged."""

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Iterable[Any]:
        """Return the answers unchanged."""
        return resps


@register_filter("take_first")
class TakeFirstFilter(Filter):
    """Keep the first answer of each request."""

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Return one answer per request."""
        return [[answers[0]] for answers in resps]


@register_filter("take_first_k")
class TakeKFilter(Filter):
    """Keep the first k answers of each request."""

    def __init__(self, **kwargs: Any) -> None:
        self.k = kwargs.pop("k")
        super().__init__(**kwargs)

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[Any]:
        """Return up to k answers per request; the first request must have that many."""
        all_answers = list(resps)
        if len(all_answers[0]) < self.k:
            raise AssertionError(
                f"`take_first_k` needs {self.k} answers per document but found {len(all_answers[0])}; "
                "raise `repeats` of the task"
            )
        return [answers[: self.k] for answers in all_answers]


@register_filter("majority_vote")
class MajorityVoteFilter(Filter):
    """Keep the most frequent answer of each request; on a tie, the first."""

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Return one answer per request."""
        return [[Counter(answers).most_common(1)[0][0]] for answers in resps]
