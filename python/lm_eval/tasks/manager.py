"""The task manager."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from lm_eval.api.group import Group
    from lm_eval.api.task import Task

__all__ = ["Entry", "TaskDict", "TaskManager"]

logger = logging.getLogger(__name__)

TaskSpec = Any
"""A name, an inline definition or a task object."""


class TaskDict(TypedDict):
    """The return value of `TaskManager.load`."""

    tasks: dict[str, Task]
    groups: dict[str, Group]
    group_map: dict[str, list[str]]


@dataclass(frozen=True)
class Entry:
    """A name that the manager knows."""

    name: str
    kind: str
    yaml_path: str | None
    tags: tuple[str, ...]


class TaskManager:
    """Finds and loads tasks, groups and tags by name, using the engine.

    `include_path` adds folders of definitions, whose names take precedence over those of the libraries; `metadata` is
    added to every task.
    """

    def __init__(
        self,
        verbosity: str | None = None,
        include_path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        include_defaults: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if verbosity is not None:
            logging.getLogger("lm_eval").setLevel(verbosity.upper())
        folders = [include_path] if isinstance(include_path, (str, os.PathLike)) else include_path or []
        self.include_path = [os.path.abspath(os.fspath(folder)) for folder in folders]
        self.include_defaults = include_defaults
        self.metadata = dict(metadata or {})

    def _settings(self) -> dict[str, Any]:
        """Return the settings of this manager as they are sent to the engine."""
        return {
            "include_path": self.include_path,
            "include_defaults": self.include_defaults,
            "metadata": self.metadata,
        }

    @cached_property
    def _names(self) -> dict[str, Any]:
        from lm_eval import _engine

        names: dict[str, Any] = _engine.call("names", manager=self._settings())
        return names

    @property
    def all_tasks(self) -> list[str]:
        """The names of all tasks, groups and tags, sorted."""
        return list(self._names["all_tasks"])

    @property
    def all_subtasks(self) -> list[str]:
        """The names of all tasks, sorted."""
        return list(self._names["all_subtasks"])

    @property
    def all_groups(self) -> list[str]:
        """The names of all groups, sorted."""
        return list(self._names["all_groups"])

    @property
    def all_tags(self) -> list[str]:
        """The names of all tags, sorted."""
        return list(self._names["all_tags"])

    @property
    def task_index(self) -> dict[str, Entry]:
        """The entry of each name, with the file that defines it."""
        entries = self._names["entries"].items()
        return {name: Entry(name, kind, path, tuple(tags)) for name, (kind, path, tags) in entries}

    def match_tasks(self, task_list: Iterable[str]) -> list[str]:
        """Return the names that match patterns such as `arc_*`, sorted.

        A pattern that matches none is kept, so that loading it is an error; with `LM_EVAL_COMPAT=0.4` it is dropped.
        """
        import fnmatch

        found: set[str] = set()
        for given in task_list:
            pattern, at, suffix = given.partition("@")
            names = [name for name in self._names["all_tasks"] if fnmatch.fnmatchcase(name, pattern)]
            unmatched = [] if os.environ.get("LM_EVAL_COMPAT") == "0.4" else [given]
            found.update([name + at + suffix for name in names] or unmatched)
        return sorted(found)

    def list_all_tasks(
        self, list_groups: bool = True, list_tags: bool = True, list_subtasks: bool = True
    ) -> str:
        """Return Markdown tables of all names."""
        index = self.task_index
        parts = []
        for wanted, title, names in (
            (list_groups, "Group", self.all_groups),
            (list_tags, "Tag", self.all_tags),
            (list_subtasks, "Task", self.all_subtasks),
        ):
            if wanted:
                rows = [f"|{name}|{index[name].yaml_path or ''}|" for name in names]
                parts.append("\n".join([f"|{title}|Definition|", "|---|---|", *rows]))
        return "\n\n".join(parts) + "\n"

    def load(
        self, task_list: TaskSpec | list[TaskSpec], overrides: Mapping[str, Mapping[str, Any]] | None = None
    ) -> TaskDict:
        """Load tasks and groups.

        A specification is a name (also `task@format` and `group::task`), the path of a YAML file, an inline
        definition as a dictionary, a task object or a group object. `overrides` maps names to fields that replace
        those of their definitions.
        """
        from lm_eval.api.group import Group
        from lm_eval.api.task import Task
        from lm_eval.tasks import _loaded

        specs = task_list if isinstance(task_list, list) else [task_list]
        for spec in specs:
            if not isinstance(spec, (str, Mapping, Task, Group)):
                raise TypeError(
                    "A task must be a name, a dictionary, a `Task` or a `Group`, not a value of type "
                    f"`{type(spec).__name__}`"
                )
        result: TaskDict = {"tasks": {}, "groups": {}, "group_map": {}}
        if not any(isinstance(spec, (Task, Group)) for spec in specs):
            self._load_into(result, specs, overrides)
            return result
        for spec in specs:
            if isinstance(spec, Task):
                result["tasks"][_loaded.qualified_name(spec)] = spec
            elif isinstance(spec, Group):
                _add_group(result, spec)
            else:
                own = {name: fields for name, fields in (overrides or {}).items() if name == spec}
                self._load_into(result, [spec], own)
        return result

    def _load_into(
        self, result: TaskDict, specs: list[Any], overrides: Mapping[str, Mapping[str, Any]] | None
    ) -> None:
        from lm_eval import _engine
        from lm_eval._live import _functions
        from lm_eval.tasks import _loaded

        _functions.forget_changed()
        load = {**self._settings(), "specs": specs, "overrides": {**(overrides or {})}}
        answer = _engine.call("load", load=load)
        tasks = {name: _loaded.make_task(load, name, task) for name, task in answer["tasks"].items()}
        result["tasks"].update(tasks)
        result["groups"].update(_loaded.make_groups(load, answer, tasks))
        result["group_map"].update(answer["group_map"])

    def load_task_or_group(self, task_list: TaskSpec | list[TaskSpec]) -> dict[Any, Any]:
        """Load tasks and groups into nested dictionaries; superseded by `load`."""
        warnings.warn("`load_task_or_group` is deprecated; use `load`", DeprecationWarning, stacklevel=2)
        return self._nested(task_list)

    def _nested(self, task_list: TaskSpec | list[TaskSpec]) -> dict[Any, Any]:
        """Return nested dictionaries with groups as keys; a task that only its group defines is `group::task`."""
        from lm_eval.api.group import ConfigurableGroup, Group

        loaded = self.load(list(task_list) if isinstance(task_list, tuple) else task_list)
        registered = set(self._names["all_subtasks"])
        members = {member for children in loaded["group_map"].values() for member in children}

        def key_of(group: Group) -> ConfigurableGroup:
            key = ConfigurableGroup.from_group(group)
            key._children = {}
            return key

        def nested(group: Group) -> dict[Any, Any]:
            children: dict[Any, Any] = {}
            for name, child in group._children.items():
                if isinstance(child, Group):
                    children[key_of(child)] = nested(child)
                else:
                    short = name.rpartition("::")[2]
                    children[short if short in registered else name] = child
            return children

        result: dict[Any, Any] = {}
        for name, group in loaded["groups"].items():
            if name not in members:
                result[key_of(group)] = nested(group)
        result.update({name: task for name, task in loaded["tasks"].items() if name not in members})
        return result


def _add_group(result: TaskDict, group: Group) -> None:
    """Add a group object with all its members."""
    from lm_eval.api.group import Group

    result["groups"][group.name] = group
    result["group_map"][group.name] = group.child_names
    for name, child in group._children.items():
        if isinstance(child, Group):
            _add_group(result, child)
        else:
            result["tasks"][name] = child
