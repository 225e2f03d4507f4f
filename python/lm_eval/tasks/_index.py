"""The names that task files define. The engine reads the files."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["Entry", "Kind", "TaskIndex"]


class Kind(enum.Enum):
    """The kind of a name."""

    TASK = enum.auto()
    PY_TASK = enum.auto()
    GROUP = enum.auto()
    TAG = enum.auto()
    UNKNOWN = enum.auto()


_KINDS = {"task": Kind.TASK, "python task": Kind.PY_TASK, "group": Kind.GROUP, "tag": Kind.TAG}


@dataclass
class Entry:
    """A name, its kind, and the file that defines it."""

    name: str
    kind: Kind
    yaml_path: Path | None
    cfg: Mapping[str, Any] | None = None
    tags: set[str] = field(default_factory=set)


class _Definition(Mapping[str, Any]):
    """A definition as written in its file, without includes; the file is read on first use."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _fields(self) -> dict[str, Any]:
        from lm_eval.tasks._yaml_loader import load_yaml

        return load_yaml(self._path, resolve_func=False, recursive=False)

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class TaskIndex:
    """Indexes the names defined in folders of task files."""

    def __init__(self, *, meta: Mapping[str, Any] | None = None) -> None:
        self._meta = dict(meta or {})

    def build(
        self, paths: Iterable[str | os.PathLike[str]], *, resolve_includes: bool = True
    ) -> dict[str, Entry]:
        """Return the entries of the folders by name; later folders take precedence."""
        from lm_eval.tasks.manager import TaskManager

        manager = TaskManager(include_path=list(paths), include_defaults=False, metadata=self._meta)
        return {
            name: Entry(
                name,
                _KINDS.get(entry.kind, Kind.UNKNOWN),
                None if entry.yaml_path is None else Path(entry.yaml_path),
                None if entry.yaml_path is None else _Definition(Path(entry.yaml_path)),
                tags=set(entry.tags),
            )
            for name, entry in manager.task_index.items()
        }
