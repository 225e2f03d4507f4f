"""The filter that calls a user's function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter

__all__ = ["CustomFilter"]


@register_filter("custom")
class CustomFilter(Filter):
    """Pass all answers and documents to the function `filter_fn` and use its result."""

    def __init__(self, **kwargs: Any) -> None:
        self.filter_fn = kwargs.pop("filter_fn")
        super().__init__(**kwargs)

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Any:
        """Return the answers as the function returns them."""
        return self.filter_fn(resps, docs)
