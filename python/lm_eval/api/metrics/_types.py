"""Types of the functions of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")  # noqa: PYI018
_K = TypeVar("_K")  # noqa: PYI018
_T_co = TypeVar("_T_co", covariant=True)
_K_contra = TypeVar("_K_contra", contravariant=True)
_T_contra = TypeVar("_T_contra", contravariant=True)
_K_co = TypeVar("_K_co", covariant=True)

__all__ = ["AggregationFn", "MetricFn", "ReductionFn"]


class MetricFn(Protocol[_T_co]):
    """A function that scores one document."""

    def __call__(self, references: Any, predictions: Any, **kwargs: Any) -> _T_co:
        """Return the score of one document."""
        ...


class AggregationFn(Protocol[_K_contra]):
    """A function that aggregates the values of all documents into one score."""

    def __call__(self, items: Sequence[_K_contra], /) -> float:
        """Return the score over all documents."""
        ...


class ReductionFn(Protocol[_T_contra, _K_co]):
    """A function that reduces the values of all repeats of a document to one."""

    def __call__(self, references: Any, predictions: Sequence[_T_contra], /) -> _K_co:
        """Return one value, or a mapping of named values."""
        ...
