"""Tasks: the manager that loads them, and the folders they are imported from.

`lm_eval.tasks.<folder>.<module>` is searched in every added task library, so that tasks can import each other's
helpers.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lm_eval import _patches
from lm_eval.tasks.manager import TaskDict, TaskManager

__all__ = [
    "TaskDict",
    "TaskManager",
    "get_task_dict",
    "get_task_name_from_config",
    "get_task_name_from_object",
]

LIBRARY_VARIABLE = "LMEVAL_TASK_LIBRARY"
"""The environment variable with task folders, separated as in `PATH`."""


def _add_library(path: str | os.PathLike[str]) -> None:
    """Make `lm_eval.tasks` import from a task folder; folders added earlier come first."""
    folder = str(Path(path).resolve())
    if folder not in __path__:
        __path__.append(folder)


for _folder in os.environ.get(LIBRARY_VARIABLE, "").split(os.pathsep):
    if _folder:
        _add_library(_folder)


class _InstalledLibrary:
    """Finds `lm_eval.tasks.NAME` in the task library installed by `lm-eval tasks pull`.

    It comes last on `sys.meta_path`, so that the engine is started only for modules that no other finder has.
    """

    def __init__(self) -> None:
        self._asked: str | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module below this package; the library folder is looked up once per installation."""
        home = os.environ.get("LM_EVAL_HOME", "")
        if not name.startswith(f"{__name__}.") or name.count(".") != 2 or self._asked == home:
            return None
        self._asked = home
        from lm_eval import _engine

        try:
            folders = _engine.call("roots")
        except FileNotFoundError:
            # Without the `lm-eval` binary there is no library.
            return None
        for folder in folders:
            _add_library(folder)
        return importlib.machinery.PathFinder.find_spec(name, __path__)


# A worker receives its library folders at start-up.
_IS_WORKER = bool(__spec__) and (__spec__.origin or "").startswith("<lm-eval>")
if not _IS_WORKER and not any(type(one).__name__ == _InstalledLibrary.__name__ for one in sys.meta_path):
    sys.meta_path.append(_InstalledLibrary())


def get_task_dict(
    task_name_list: str | Iterable[Any], task_manager: TaskManager | None = None
) -> dict[Any, Any]:
    """Load tasks into nested dictionaries; superseded by `TaskManager.load`."""
    warnings.warn("`get_task_dict` is deprecated; use `TaskManager.load`", DeprecationWarning, stacklevel=2)
    names = [task_name_list] if isinstance(task_name_list, str) else list(task_name_list)
    manager = task_manager or TaskManager()
    if "load_task_or_group" in _patches.overridden(type(manager)):
        return manager.load_task_or_group(names)
    return manager._nested(names)


def get_task_name_from_config(task_config: Mapping[str, Any]) -> str:
    """Return the name in a task's definition, or that of its dataset."""
    if "task" in task_config:
        return str(task_config["task"])
    parts = (task_config["dataset_path"], task_config.get("dataset_name"))
    return "_".join(str(part) for part in parts if part is not None)


def get_task_name_from_object(task_object: Any) -> str:
    """Return the name of a task object: its own, that in its configuration, or that of its class."""
    name = getattr(task_object, "EVAL_HARNESS_NAME", None)
    if name is None:
        config = getattr(task_object, "config", None)
        name = config.get("task") if isinstance(config, Mapping) else getattr(config, "task", None)
    return str(name or type(task_object).__name__)
