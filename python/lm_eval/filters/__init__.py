"""The built-in filters."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from lm_eval.api.filter import FilterEnsemble
from lm_eval.api.registry import filter_registry, get_filter
from lm_eval.filters import custom, extraction, selection, transformation

__all__ = [
    "build_filter_ensemble",
    "custom",
    "extraction",
    "filter_registry",
    "selection",
    "transformation",
]


def build_filter_ensemble(
    filter_name: str, components: Iterable[tuple[Any, dict[str, Any] | None]]
) -> FilterEnsemble:
    """Make a chain of filters from `(name or class, keyword arguments)` pairs."""
    return FilterEnsemble(
        name=filter_name,
        filters=[partial(get_filter(function), **(kwargs or {})) for function, kwargs in components],
    )
