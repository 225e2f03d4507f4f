"""Filters: transformations of a model's answers before they are scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

__all__ = ["Filter", "FilterEnsemble"]


class Filter(ABC):
    """One step over the answers to all requests of a task.

    A filter is constructed with the keyword arguments of its step and keeps no state between calls. Any object with
    an `apply` method is a filter; it need not derive from this class.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        if cls is not Filter:
            return NotImplemented
        return callable(getattr(other, "apply", None)) or NotImplemented

    def __init__(self, **kwargs: Any) -> None:
        """Take the arguments of the step; this base class ignores them."""

    @abstractmethod
    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Iterable[Any]:
        """Return the new answers: the same number of entries as `resps`, in the same order.

        Each entry holds the answers to one request, one per repeat; `docs` holds the request's document at the same
        index.
        """
        return resps


@dataclass
class FilterEnsemble:
    """A named chain of filters."""

    name: str
    filters: list[Callable[[], Filter]]

    def apply(self, instances: Sequence[Instance[Any, Any]]) -> None:
        """Run the chain and store its result in `filtered_resps[name]` of each instance."""
        if not instances:
            raise ValueError(f"The filter chain `{self.name}` was given no instances")
        resps: Any = tuple(instance.resps for instance in instances)
        docs = tuple(instance.doc for instance in instances)
        for make in self.filters:
            resps = make().apply(resps, docs)
        results = list(resps)
        if len(results) != len(instances):
            raise ValueError(
                f"The filter chain `{self.name}` returned {len(results)} entries, not {len(instances)}"
            )
        for instance, result in zip(instances, results, strict=True):
            instance.filtered_resps[self.name] = result
