"""Names of other versions that do not exist here: importing one raises an error that names the replacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn


def removed_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for removed names, each with its replacement."""

    def find(name: str) -> NoReturn:
        if name in names:
            raise ImportError(f"There is no `{module}.{name}`: {names[name]}", name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
