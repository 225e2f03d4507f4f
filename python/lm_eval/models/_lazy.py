"""Packages that are imported when they are needed, with an error that says what needs them."""

from __future__ import annotations

import importlib
from typing import Any


def need(package: str, what: str, install: str | None = None) -> Any:
    """Import a package, or say what it is missing for."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        name = install or package.partition(".")[0]
        raise ModuleNotFoundError(
            f"{what} needs the package `{name}`; install it with `pip install {name}`", name=error.name
        ) from error
