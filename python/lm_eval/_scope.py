"""Whose code runs: what a task folder registers is known to the tasks of that folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

folder: str = ""
"""The task folder whose code runs now; empty for plug-ins and for programs that import this package."""


@contextmanager
def within(other: str) -> Iterator[None]:
    """Let names mean for a while what they mean in another folder."""
    global folder
    left, folder = folder, other
    try:
        yield
    finally:
        folder = left
