"""Task and group objects that the engine has loaded, and objects as they are sent to the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lm_eval import _dataset, _engine, _patches, _refusals
from lm_eval._live import Live, TaskFunction
from lm_eval.api.group import Group
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.api.task._output_types import TASK_CLASSES
from lm_eval.api.task._values import copied
from lm_eval.config.task import TaskConfig

_ATTRIBUTE = "_loaded_from"

_FORMATTED = (
    "output_type",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "gen_prefix",
    "target_delimiter",
    "fewshot_delimiter",
    "scorer",
)
"""The fields that a prompt format sets."""


@dataclass
class Origin:
    """The origin of a loaded object."""

    load: dict[str, Any]
    key: str
    fields: dict[str, Any]


def make_task(load: dict[str, Any], key: str, loaded: Mapping[str, Any]) -> Task:
    """Make a task object."""
    fields = dict(loaded["config"])
    if loaded["class"] is not None:
        task = _of_class(loaded["class"], fields)
    else:
        config = TaskConfig._of_engine(fields)
        task = TASK_CLASSES.get(config.output_type, ConfigurableTask)(config=config)
        task._fetch = lambda: _download(task)
    task._folders = list(loaded["folders"])
    setattr(task, _ATTRIBUTE, Origin(load, key, _fields_of_engine(task, loaded)))
    task._attributes = frozenset(vars(task))
    if "download" in _patches.changed_names(type(task)) or _patches.replaced_loader() is not None:
        # The script may undo its change before the evaluation.
        _ = task.dataset
    return task


def _fields_of_engine(task: Task, loaded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a task as the engine knows it, without the changes of scripts to these classes."""
    known = fields_of(task)
    if not _refusals.has_own_tasks():
        return known
    now = TaskConfig._of_engine(copied(loaded["config"])).to_dict(keep_callable=True)
    with _patches.restored(TaskConfig):
        before = TaskConfig._of_engine(copied(loaded["config"])).to_dict(keep_callable=True)
    if loaded["class"] is None:
        return before
    # The class itself may have set other fields.
    return {**known, **{name: before.get(name) for name in {**before, **now} if before.get(name) != now.get(name)}}


def _of_class(reference: TaskFunction, fields: dict[str, Any]) -> Task:
    import inspect

    kind = reference.resolve()
    # The engine has applied the prompt format; a configuration would apply it again.
    formats = {name: fields.pop(name) for name in ("formats", "_formats_selection") if name in fields}
    named = {**fields, "task": fields["task"].partition("@")[0]}
    takes_config = "config" in inspect.signature(kind.__init__).parameters
    # Reference: the definition names the class, and constructors remove it.
    task: Task = kind(config={**named, "class": kind}) if takes_config else kind()
    task.config.task = fields["task"]
    for name, value in formats.items():
        setattr(task.config, name, value)
    return task


def _download(task: Task) -> None:
    """Let the engine load the data of a task."""
    live = Live()
    origin: Origin = getattr(task, _ATTRIBUTE)
    splits = _engine.call("splits", live, load=origin.load, task=(0, origin.key, changes_of(task)))
    task.dataset = _dataset.together(
        {name: _dataset.make(split["documents"], split["columns"]) for name, split in splits.items()}
    )


def make_groups(load: dict[str, Any], loaded: Mapping[str, Any], tasks: Mapping[str, Task]) -> dict[str, Group]:
    """Make group objects, with their members."""
    groups: dict[str, Group] = {}
    for name, definition in loaded["groups"].items():
        group = Group.from_config({**definition, "group": name})
        setattr(group, _ATTRIBUTE, Origin(load, name, {}))
        groups[name] = group
    for name, members in loaded["group_map"].items():
        for member in members:
            groups[name]._children[member] = groups[member] if member in groups else tasks[member]
    return groups


def fields_of(task: Task) -> dict[str, Any]:
    """Return the configuration of a task, with functions unchanged."""
    return task.config.to_dict(keep_callable=True)


def changes_of(task: Task) -> dict[str, Any]:
    """Return the fields of a loaded task that have been changed since."""
    origin: Origin = getattr(task, _ATTRIBUTE)
    now = fields_of(task)
    names = {**origin.fields, **now}
    changes = {name: now.get(name) for name in names if now.get(name) != origin.fields.get(name)}
    if task._has_own_data:
        changes["custom_dataset"] = task._own_data
    if origin.fields.get("formats") and any(name in changes for name in _FORMATTED):
        changes.update({name: now.get(name) for name in _FORMATTED})
        changes.update(formats=None, _formats_selection=None)
    return changes


def qualified_name(task: Task) -> str:
    """Return the key of a task in results."""
    return task.config._qualified_name or task.task_name


def key_of(task: Task) -> str:
    """Return the name under which the engine knows an object that is alone."""
    origin: Origin | None = getattr(task, _ATTRIBUTE, None)
    return task.task_name if origin is None else origin.key


class Message:
    """The tasks of a run, as they are sent to the engine."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self.loads: list[dict[str, Any]] = []
        self.tasks: list[Any] = []
        self.groups: list[Any] | None = None

    def add(self, spec: str | Mapping[str, Any] | Task, scores: bool = True, key: str | None = None) -> None:
        """Add a name, an inline definition or a task object; with `scores`, the engine will score its answers.

        `key` is the name of an object in the results.
        """
        if isinstance(spec, Task):
            if scores and spec._scorers is not None and spec._has_own_scorers:
                raise NotImplementedError(
                    f"The scorers of `{spec.task_name}` were changed, but a run makes its own: score with "
                    "`process_instances` and `aggregate` of the task, or register a scorer and name it in the task"
                )
            if scores:
                spec._refuse_ignored()
            self.tasks.append(self._of_object(spec, key or key_of(spec)))
        elif isinstance(spec, (str, Mapping)):
            self.tasks.append(spec)
        else:
            kind = type(spec).__name__
            raise TypeError(
                f"A task must be a name, a dictionary or a `Task`, not a value of type `{kind}`"
            )

    def add_group(self, group: Group, members: Iterable[str], index: int | None = None) -> None:
        """Add a group whose members are among the tasks and groups, at the end or at an index."""
        _refusals.refuse_own_methods(group, f"the group `{group.name}`")
        origin: Origin | None = getattr(group, _ATTRIBUTE, None)
        load = None if origin is None else self._load_index(origin.load)
        name = group.name if origin is None else origin.key
        definition = {**group.to_dict(), "group": group.name, "task": []}
        self.groups = self.groups or []
        self.groups.insert(
            len(self.groups) if index is None else index, (load, name, definition, list(members))
        )

    def _of_object(self, task: Task, key: str) -> Any:
        if hasattr(task, _ATTRIBUTE):
            origin: Origin = getattr(task, _ATTRIBUTE)
            changes = changes_of(task)
            if task._changed_methods():
                changes["class"] = self._live.refer(_class_of(task))
            renamed = () if key == origin.key else (key,)
            return (self._load_index(origin.load), origin.key, changes, *renamed)
        fields = {**fields_of(task), "task": task.task_name}
        definition = task.config._definition()
        fewshot = fields.get("fewshot_config")
        if isinstance(fewshot, dict):
            # Examples inherit these from the task anyway; a prompt format may still change them there.
            inherited = {**fields, "split": fields.get("fewshot_split"), "sampler": "default"}
            definition["fewshot_config"] = {
                name: value for name, value in fewshot.items() if value != inherited.get(name)
            }
        # The definition has the name without its format.
        fields = {"task": task.task_name, **definition, **({} if key == task.task_name else {"task": key})}
        if task._has_own_data:
            fields["custom_dataset"] = task._own_data
        if task._hooks():
            fields["class"] = self._live.refer(_class_of(task))
        return fields

    def _load_index(self, load: dict[str, Any]) -> int:
        if load not in self.loads:
            self.loads.append(load)
        return self.loads.index(load)

    def parts(self) -> dict[str, Any]:
        """Return the parts of the request."""
        return {"tasks": self.tasks, "loads": self.loads, "groups": self.groups}


def _class_of(task: Task) -> type[Task]:
    """Return a class whose only object is the task."""
    kind = type(task)
    return type(kind.__name__, (kind,), {"__new__": lambda *_, **__: task, "__module__": kind.__module__})
