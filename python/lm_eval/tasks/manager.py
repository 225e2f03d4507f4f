"""The task manager."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

__all__ = ["TaskManager"]


class TaskManager:
    """Finds and loads tasks.

    Inside a worker there is nothing to find: the engine loads the tasks. Each method says which command does
    the same.
    """

    def __init__(
        self,
        verbosity: str | None = None,
        include_path: str | list[str] | None = None,
        include_defaults: bool = True,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.include_path = include_path
        self.include_defaults = include_defaults
        self.metadata = metadata

    def load(self, spec: str | Iterable[Any], overrides: dict[str, Any] | None = None) -> dict[str, Any]:
        """Load tasks and groups."""
        _use("run --tasks NAME")

    def load_task_or_group(self, task_list: str | Iterable[Any]) -> dict[str, Any]:
        """Load tasks and groups into nested dictionaries; `load` has taken its place."""
        warnings.warn("`load_task_or_group` is deprecated; use `load`", DeprecationWarning, stacklevel=2)
        return self.load(task_list)

    @property
    def all_tasks(self) -> list[str]:
        """The names of all tasks, groups and tags."""
        _use("ls tasks")

    @property
    def all_subtasks(self) -> list[str]:
        """The names of all tasks."""
        _use("ls subtasks")

    @property
    def all_groups(self) -> list[str]:
        """The names of all groups."""
        _use("ls groups")

    @property
    def all_tags(self) -> list[str]:
        """The names of all tags."""
        _use("ls tags")


def _use(command: str) -> NoReturn:
    raise NotImplementedError(f"Tasks are loaded by the engine, not in Python; use `lm-eval {command}`")
