"""Tasks: the manager that loads them, and the folders that they are imported from.

`lm_eval.tasks.<folder>.<module>` is found in every task library that was added, so that tasks can import each
other's helpers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
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


def get_task_name_from_config(task_config: dict[str, str]) -> str:
    """Return the name that a definition gives its task, or that of its data."""
    if "task" in task_config:
        return task_config["task"]
    names = [task_config.get("dataset_path"), task_config.get("dataset_name")]
    return "_".join(name for name in names if name)


def get_task_name_from_object(task_object: Any) -> str:
    """Return the name of a task object: that of its configuration, else that of its class."""
    name = getattr(task_object, "EVAL_HARNESS_NAME", None)
    if name is None and hasattr(task_object, "config"):
        name = task_object.config.task
    return str(name or type(task_object).__name__)


def get_task_dict(
    task_name_list: str | Iterable[Any], task_manager: TaskManager | None = None
) -> dict[Any, Any]:
    """Load tasks into nested dictionaries; `TaskManager.load` has taken its place."""
    warnings.warn("`get_task_dict` is deprecated; use `TaskManager.load`", DeprecationWarning, stacklevel=2)
    names = [task_name_list] if isinstance(task_name_list, str) else list(task_name_list)
    return (task_manager or TaskManager())._nested(names)
