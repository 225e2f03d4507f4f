"""Task files as dictionaries. The engine reads them."""

from __future__ import annotations

import os
from typing import Any

from lm_eval._live import TaskFunction

__all__ = ["load_yaml", "load_yaml_config"]


def load_yaml(
    path: str | os.PathLike[str], *, resolve_func: bool = True, recursive: bool = True
) -> dict[str, Any]:
    """Return the contents of a YAML file, merged with the files that it includes.

    `!function module.name` becomes the function, or with `resolve_func=False` a string. `recursive=False` leaves
    `include` unchanged.
    """
    from lm_eval import _engine

    read = _engine.call("read_yaml", path=os.path.abspath(path), includes=recursive)
    loaded: dict[str, Any] = _functions(read, resolve_func)
    return loaded


def load_yaml_config(
    yaml_path: str | os.PathLike[str] | None = None,
    yaml_config: dict[str, Any] | None = None,
    yaml_dir: str | None = None,
    mode: str = "full",
) -> dict[str, Any]:
    """Return the contents of a YAML file; with `mode="simple"`, without importing its functions."""
    if yaml_config is not None or yaml_path is None:
        raise TypeError("`load_yaml_config` reads a file: pass its `yaml_path`")
    return load_yaml(yaml_path, resolve_func=mode != "simple")


def _functions(value: Any, resolve: bool) -> Any:
    if isinstance(value, TaskFunction):
        return value.resolve() if resolve else value.reference
    if isinstance(value, dict):
        return {key: _functions(item, resolve) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_functions(item, resolve) for item in value)
    return value
