"""Name scopes: names that a task folder registers are visible only to tasks of that folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

folder: str = ""
"""The task folder whose code is running; empty for plug-ins and for scripts that import this package."""


@contextmanager
def within(other: str) -> Iterator[None]:
    """Resolve names as in another folder for a while."""
    global folder
    left, folder = folder, other
    try:
        yield
    finally:
        folder = left
