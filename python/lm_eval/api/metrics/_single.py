"""Single-element lists that behave like their string."""

from __future__ import annotations

from typing import Any


class SingleString(list[str]):
    """A list with a single string.

    Metrics receive references and predictions as lists, one prediction per repeat. Documented metrics also treat them
    as the string itself (`predictions.strip()`, `float(references)`); with a single element both work.
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


def single_string(values: Any) -> Any:
    """Return a list with a single string as a `SingleString`; anything else unchanged."""
    if type(values) is list and len(values) == 1 and isinstance(values[0], str):
        return SingleString(values)
    return values
