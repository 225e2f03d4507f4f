"""Helpers around an evaluation."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lm_eval._removed import removed_names

__all__ = ["TaskOutput", "consolidate_results", "get_sample_size", "get_task_list", "print_writeout"]

eval_logger = logging.getLogger(__name__)


@dataclass
class TaskOutput:
    """A task of a task dictionary, its group, and what a program that drives it has computed."""

    task: Any = None
    task_name: str | None = None
    group_name: str | None = None
    agg_metrics: dict[tuple[str, str] | str, Any] = field(default_factory=dict)
    """Scores by `(metric, pipeline)`, or by the key of results."""
    sample_len: int | None = None
    logged_samples: list[Any] = field(default_factory=list)


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


def consolidate_results(
    eval_tasks: Iterable[TaskOutput],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return results, samples, configurations, versions, numbers of examples and directions, each by task name."""
    results: dict[str, Any] = {}
    samples: dict[str, Any] = {}
    configs: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    num_fewshot: dict[str, Any] = {}
    higher_is_better: dict[str, Any] = {}
    for output in eval_tasks:
        task, name = output.task, str(output.task_name)
        scores = {",".join(key) if isinstance(key, tuple) else key: value for key, value in output.agg_metrics.items()}
        results[name] = {"alias": task.config.task_alias or name, **scores}
        if output.sample_len is not None:
            results[name]["samples"] = output.sample_len
        samples[name] = output.logged_samples
        configs[name] = task.dump_config()
        versions[name] = task.VERSION
        num_fewshot[name] = task.config.num_fewshot or 0
        higher_is_better[name] = dict(task.higher_is_better())
    return results, samples, configs, versions, num_fewshot, higher_is_better


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
                "get_subtask_list",
                "prepare_print_tasks",
            ),
            _ENGINE,
        ),
        **dict.fromkeys(("find_test_root", "run_task_tests"), _TESTS),
    },
)
