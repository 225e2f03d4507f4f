"""Lists of one text that can be used like the text."""

from __future__ import annotations

from typing import Any


class LoneText(list[str]):
    """A list that holds one text.

    Metrics get references and predictions as lists, one prediction per repeat. Documented metrics also treat
    them as the text itself (`predictions.strip()`, `float(references)`); with a single element both readings
    work.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self[0], name)

    def __str__(self) -> str:
        return self[0]

    def __float__(self) -> float:
        return float(self[0])

    def __int__(self) -> int:
        return int(self[0])


def lone_text(values: Any) -> Any:
    """Return a list of one text as a `LoneText`; anything else as it is."""
    if type(values) is list and len(values) == 1 and isinstance(values[0], str):
        return LoneText(values)
    return values
