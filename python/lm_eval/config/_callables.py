"""Functions as they appear in a written configuration."""

from __future__ import annotations

import inspect
from typing import Any


def serialize_function(value: Any, keep_callable: bool = False) -> Any:
    """Return the source text of a function, or its textual form where there is none."""
    if keep_callable:
        return value
    try:
        return inspect.getsource(value)
    except (TypeError, OSError):
        return str(value)
