"""Names that other versions have and that mean nothing here: to import them is an error that says what to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn


def absent(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names that are not there, with what to use in place of each."""

    def find(name: str) -> NoReturn:
        if name in names:
            raise ImportError(f"There is no `{module}.{name}`: {names[name]}", name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
