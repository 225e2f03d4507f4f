"""Functions in a serialised configuration."""

from __future__ import annotations

import inspect
from typing import Any


def serialize_function(value: Any, keep_callable: bool = False) -> Any:
    """Return the source of a function, or its `repr` where there is none."""
    if keep_callable:
        return value
    try:
        return inspect.getsource(value)
    except (TypeError, OSError):
        return str(value)
