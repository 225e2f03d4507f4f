"""Helpers around an evaluation."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lm_eval._removed import removed_names

__all__ = ["TaskOutput", "get_sample_size", "get_task_list", "print_writeout"]

eval_logger = logging.getLogger(__name__)


@dataclass
class TaskOutput:
    """A task of a task dictionary, and its group."""

    task: Any = None
    task_name: str | None = None
    group_name: str | None = None


def get_task_list(task_dict: Mapping[Any, Any]) -> list[TaskOutput]:
    """Return the tasks in the return value of `get_task_dict` or `TaskManager.load`."""
    if isinstance(task_dict.get("tasks"), Mapping):
        return list(_tasks(task_dict["tasks"], None))
    return list(_tasks(task_dict, None))


def _tasks(nested: Mapping[Any, Any], group: str | None) -> Iterator[TaskOutput]:
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from _tasks(value, str(getattr(key, "group_name", key)))
        else:
            yield TaskOutput(value, str(key), group)


def get_sample_size(task: Any, limit: float | None) -> int | None:
    """Return the number of documents that a limit selects: below 1, a share of them, rounded up."""
    if limit is None:
        return None
    return math.ceil(len(task.eval_docs) * limit) if limit < 1.0 else int(limit)


def print_writeout(task: Any) -> None:
    """Log the prompt and the target of the first document of a task."""
    doc = next(iter(task.eval_docs))
    eval_logger.info(
        "First document of `%s`: %s\nPrompt: %s\nTarget: %s",
        task.task_name,
        doc,
        task.doc_to_text(doc),
        task.doc_to_target(doc),
    )


_ENGINE = "the engine does this; `simple_evaluate` and `evaluate` return the finished results"
_TESTS = "`lm-eval validate --tasks NAME` checks a task definition instead"

__getattr__ = removed_names(
    __name__,
    {
        **dict.fromkeys(
            (
                "EvalAcc",
                "ResultAcc",
                "aggregate_groups",
                "consolidate_group_results",
                "consolidate_results",
                "get_subtask_list",
                "prepare_print_tasks",
            ),
            _ENGINE,
        ),
        **dict.fromkeys(("find_test_root", "run_task_tests"), _TESTS),
    },
)
