"""Groups of tasks."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval.api.metrics.stderr import aggregate_subtask_metrics, pooled_sample_stderr
from lm_eval.config.group import AggMetricConfig, GroupConfig

if TYPE_CHECKING:
    from lm_eval.api.task import Task

__all__ = ["AggMetricConfig", "ConfigurableGroup", "Group", "GroupConfig"]

logger = logging.getLogger(__name__)


@dataclass(repr=False)
class Group:
    """A named collection of tasks and of other groups."""

    name: str
    alias: str | None = None
    aggregate_metric_list: list[AggMetricConfig] | None = None
    metadata: dict[str, Any] | None = None
    _children: dict[str, Any] = field(default_factory=dict, repr=False)
    _config: GroupConfig | None = field(default=None, repr=False)

    @classmethod
    def from_config(cls, config: GroupConfig | dict[str, Any]) -> Group:
        """Make a group without members from its configuration."""
        settings = GroupConfig(**config) if isinstance(config, Mapping) else config
        group = cls(settings.group, settings.group_alias, metadata=settings.metadata)
        group.aggregate_metric_list = settings.aggregate_metric_list
        group._config = settings
        return group

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, alias={self.alias!r}, members={len(self)})"

    def add(self, item: Task | Group) -> None:
        """Add a task or a group."""
        name = item.name if isinstance(item, Group) else item.task_name
        self._children[name] = item

    def get(self, name: str) -> Any:
        """Return a member by name, or `None`."""
        return self._children.get(name)

    def pop(self, name: str) -> Any:
        """Remove a member by name and return it, or `None`."""
        return self._children.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._children

    def __iter__(self) -> Iterator[Any]:
        return iter(self._children.values())

    def __len__(self) -> int:
        return len(self._children)

    @property
    def child_names(self) -> list[str]:
        """The names of the members."""
        return list(self._children)

    @property
    def version(self) -> str:
        """The version in the metadata, as a string."""
        return str((self.metadata or {}).get("version", "N/A"))

    @property
    def has_aggregation(self) -> bool:
        """Whether the group has its own score."""
        return bool(self.aggregate_metric_list)

    @property
    def _qualified_name(self) -> str:
        """The name shown in results."""
        return self.name

    def aggregate(self, task_metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the results entry of the group, from the entries of its tasks.

        Tasks are found by their names within the group, or by their own.
        """
        entry: dict[str, Any] = {"alias": self.alias or self.name, "name": self.name}
        if not self.aggregate_metric_list:
            return entry
        found = [self._entry_of(name, task, task_metrics) for name, task in self._leaves()]
        members = [member for member in found if member is not None]
        entry["sample_len"] = sum(member.get("sample_len", 0) for member in members)
        counts: dict[str, int] = {}
        for wanted in self.aggregate_metric_list:
            chosen = wanted.filter_list
            for pipeline in _pipelines(wanted.metric, members) if chosen is None else chosen:
                key = f"{wanted.metric},{pipeline}"
                scored = [member for member in members if key in member]
                if len(scored) < len(found):
                    missing = len(found) - len(scored)
                    logger.warning("`%s` is missing in %d of %d tasks of `%s`", key, missing, len(found), self.name)
                if not scored:
                    continue
                sizes = [member["sample_len"] for member in scored]
                stderr_key = f"{wanted.metric}_stderr,{pipeline}"
                stderrs = [member.get(stderr_key, "N/A") for member in scored]
                values = [member[key] for member in scored]
                entry[key] = aggregate_subtask_metrics(values, sizes, bool(wanted.weight_by_size))
                unknown = any(stderr == "N/A" for stderr in stderrs)
                entry[stderr_key] = "N/A" if unknown else pooled_sample_stderr(stderrs, sizes)
                counts[key] = sum(sizes)
        if counts:
            entry["sample_count"] = counts
        return entry

    def _leaves(self) -> Iterator[tuple[str, Any]]:
        for name, child in self._children.items():
            if isinstance(child, Group):
                yield from child._leaves()
            else:
                yield name, child

    @staticmethod
    def _entry_of(
        name: str, task: Any, task_metrics: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Any] | None:
        return task_metrics.get(name, task_metrics.get(task.task_name))

    def get_all_tasks(self, recursive: bool = True) -> list[Any]:
        """Return the tasks; with `recursive`, those of inner groups too."""
        tasks: list[Any] = []
        for child in self:
            if not isinstance(child, Group):
                tasks.append(child)
            elif recursive:
                tasks.extend(child.get_all_tasks())
        return tasks

    def get_all_groups(self, recursive: bool = True) -> list[Group]:
        """Return the inner groups; with `recursive`, those within them too."""
        groups: list[Group] = []
        for child in self:
            if isinstance(child, Group):
                groups.append(child)
                if recursive:
                    groups.extend(child.get_all_groups())
        return groups

    def to_dict(self) -> dict[str, Any]:
        """Return the group's own settings."""
        defined = None if self._config is None else self._config.task
        members = self.child_names if defined is None else list(defined)
        settings: dict[str, Any] = {"group": self.name, "group_alias": self.alias, "task": members or None}
        if self.aggregate_metric_list:
            settings["aggregate_metric_list"] = [asdict(metric) for metric in self.aggregate_metric_list]
        if self.metadata:
            settings["metadata"] = self.metadata
        return {key: value for key, value in settings.items() if value is not None}


def _pipelines(metric: str, members: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all pipelines that report a metric, sorted."""
    keys = {key.partition(",")[::2] for member in members for key in member if "," in key}
    return sorted(pipeline for name, pipeline in keys if name == metric)


class ConfigurableGroup(Group):
    """The older name of `Group`; usable as a dictionary key."""

    def __init__(self, config: dict[str, Any] | GroupConfig | None = None) -> None:
        warnings.warn("`ConfigurableGroup` is deprecated; use `Group`", DeprecationWarning, stacklevel=2)
        group = Group.from_config(config or {"group": ""})
        self.__dict__.update(group.__dict__)

    @classmethod
    def from_group(cls, group: Group) -> ConfigurableGroup:
        """Convert a group to one that can be a dictionary key."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made = cls(config=group._config or {"group": group.name})
        made.__dict__.update(group.__dict__)
        return made

    @property
    def group(self) -> str:
        """The name of the group."""
        return self.name

    @property
    def group_name(self) -> str:
        """The name of the group."""
        return self.name

    @property
    def group_alias(self) -> str | None:
        """The display name: the alias, or else the name."""
        return self.alias

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as a dictionary."""
        return {} if self._config is None else self._config.to_dict()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigurableGroup) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)
