"""A filter that older task files could name; it is not registered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval.api.filter import Filter

__all__ = ["DecontaminationFilter"]


class DecontaminationFilter(Filter):
    """Comparison with training data, which is not implemented in any release."""

    name = "track_decontamination"

    def __init__(self, path: str, **kwargs: Any) -> None:
        self._path = path
        super().__init__(**kwargs)

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Any:
        """Raise: there is nothing to compare with."""
        raise NotImplementedError("Answers cannot be compared with training data")
