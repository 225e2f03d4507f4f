"""Packages that are imported on demand, with an error that names the feature that needs them."""

from __future__ import annotations

import importlib
from typing import Any


def require(package: str, what: str, install: str | None = None) -> Any:
    """Import a package, or raise an error that says what needs it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        name = install or package.partition(".")[0]
        raise ModuleNotFoundError(
            f"{what} needs the package `{name}`; install it with `pip install {name}`", name=error.name
        ) from error
