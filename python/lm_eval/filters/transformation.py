"""Filters that rewrite each answer."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_filter

__all__ = ["LowercaseFilter", "MapFilter", "SPANFilter", "UppercaseFilter"]


class _ElementFilter(Filter):
    """Base class of filters that handle one answer at a time."""

    @abstractmethod
    def _answer(self, answer: Any) -> Any:
        """Return the new form of one answer."""

    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Return the new form of every answer."""
        return [[self._answer(answer) for answer in answers] for answers in resps]


@register_filter("lowercase")
class LowercaseFilter(_ElementFilter):
    """Make each answer lower case."""

    def _answer(self, answer: str) -> str:
        return answer.lower()


@register_filter("uppercase")
class UppercaseFilter(_ElementFilter):
    """Make each answer upper case."""

    def _answer(self, answer: str) -> str:
        return answer.upper()


@register_filter("map")
class MapFilter(_ElementFilter):
    """Replace each answer by its value in `mapping_dict`, or by `default_value` if it has none."""

    def __init__(
        self, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.mapping_dict = {} if mapping_dict is None else mapping_dict
        if not isinstance(self.mapping_dict, Mapping):
            raise AssertionError("`mapping_dict` must be a mapping")
        self.default_value = default_value

    def _answer(self, answer: Any) -> Any:
        return self.mapping_dict.get(answer, self.default_value)


@register_filter("format_span")
class SPANFilter(_ElementFilter):
    """Normalise named entities to `label: entity $ label: entity`."""

    LABELS = (
        ("person", "PER"),
        ("location", "LOC"),
        ("organization", "ORG"),
        ("counties", "LOC"),
        ("places", "LOC"),
        ("people", "PER"),
        ("persons", "PER"),
        ("company", "ORG"),
        ("country", "LOC"),
        ("continent", "LOC"),
        ("time", "DATE"),
        ("date", "DATE"),
        ("per", "PER"),
        ("loc", "LOC"),
        ("org", "ORG"),
    )

    def _answer(self, answer: str) -> str:
        text = answer.lower()
        # Reference: labels are replaced one after the other and anywhere, even within entities.
        for word, label in self.LABELS:
            text = text.replace(word, label)
        text = text.replace("$$", "$").removesuffix("$$")
        spans = re.findall(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)", text.replace("\n", "$").strip())
        entities = [(label.lower(), entity.strip()) for label, found in spans for entity in found.split(",")]
        return " $ ".join(f"{label}: {entity}" for label, entity in entities if entity.lower() != "none")
