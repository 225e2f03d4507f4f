"""Functions in a serialised configuration."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any


def serialize_function(value: Any, keep_callable: bool = False) -> Any:
    """Return what results record of a callable.

    That is its source code, with the lines as they are in the file. An object without source code, such as a built-in
    function, a `partial` or an instance with `__call__`, and one whose source cannot be found, is recorded as `str`
    shows it, and so is anything that is not a callable. With `keep_callable` the value is returned as it is, for a
    configuration that stays in this process.
    """
    if keep_callable:
        return value
    recorded = value
    with contextlib.suppress(OSError, TypeError):
        recorded = inspect.getsource(value)
    return str(recorded)
