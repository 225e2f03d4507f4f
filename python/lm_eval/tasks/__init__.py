"""Tasks: the manager that loads them, and the folders that they are imported from.

`lm_eval.tasks.<folder>.<module>` is found in every task library that was added, so that tasks can import each
other's helpers.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lm_eval.tasks.manager import TaskDict, TaskManager

__all__ = [
    "TaskDict",
    "TaskManager",
    "get_task_dict",
    "get_task_name_from_config",
    "get_task_name_from_object",
]

LIBRARY_VARIABLE = "LMEVAL_TASK_LIBRARY"
"""The environment variable with folders of tasks, separated as in `PATH`."""


def _add_library(path: str | os.PathLike[str]) -> None:
    """Let `lm_eval.tasks` import from a folder of tasks; folders added earlier come first."""
    folder = str(Path(path).resolve())
    if folder not in __path__:
        __path__.append(folder)


for _folder in os.environ.get(LIBRARY_VARIABLE, "").split(os.pathsep):
    if _folder:
        _add_library(_folder)


class _InstalledLibrary:
    """Finds `lm_eval.tasks.NAME` in the task library that `lm-eval tasks pull` installed.

    It is the last finder to be asked, so that the engine is started only for modules that nobody else has.
    """

    def __init__(self) -> None:
        self._asked: str | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module below this package; its folder is looked for once per installation."""
        home = os.environ.get("LM_EVAL_HOME", "")
        if not name.startswith(f"{__name__}.") or name.count(".") != 2 or self._asked == home:
            return None
        self._asked = home
        from lm_eval import _engine

        try:
            folders = _engine.ask("roots")
        except FileNotFoundError:
            # Without the program there is no library.
            return None
        for folder in folders:
            _add_library(folder)
        return importlib.machinery.PathFinder.find_spec(name, __path__)


# A worker is told of its libraries when it is started.
_IS_WORKER = bool(__spec__) and (__spec__.origin or "").startswith("<lm-eval>")
if not _IS_WORKER and not any(type(one).__name__ == _InstalledLibrary.__name__ for one in sys.meta_path):
    sys.meta_path.append(_InstalledLibrary())


def get_task_dict(
    task_name_list: str | Iterable[Any], task_manager: TaskManager | None = None
) -> dict[Any, Any]:
    """Load tasks into nested dictionaries; `TaskManager.load` has taken its place."""
    warnings.warn("Call `TaskManager.load` instead of `get_task_dict`", DeprecationWarning, stacklevel=2)
    names = [task_name_list] if isinstance(task_name_list, str) else list(task_name_list)
    return (task_manager or TaskManager())._nested(names)


def get_task_name_from_config(task_config: Mapping[str, Any]) -> str:
    """Return the name of a task's definition; without one, that of its data set."""
    if "task" in task_config:
        return str(task_config["task"])
    parts = (task_config["dataset_path"], task_config.get("dataset_name"))
    return "_".join(str(part) for part in parts if part is not None)


def get_task_name_from_object(task_object: Any) -> str:
    """Return the name of a task object: its own, else that of its configuration, else that of its class."""
    name = getattr(task_object, "EVAL_HARNESS_NAME", None)
    if name is None:
        config = getattr(task_object, "config", None)
        name = config.get("task") if isinstance(config, Mapping) else getattr(config, "task", None)
    return str(name or type(task_object).__name__)
