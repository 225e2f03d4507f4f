"""Functions in a serialised configuration."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any


def source_or_name(value: Any) -> str:
    """Return what results record of a callable: its source if Python has it, else what `str` makes of it."""
    with contextlib.suppress(TypeError, OSError):
        return inspect.getsource(value)
    return str(value)


def serialize_function(value: Any, keep_callable: bool = False) -> Any:
    """Return a callable as text, or as it is for a configuration that stays in this process."""
    return value if keep_callable else source_or_name(value)
