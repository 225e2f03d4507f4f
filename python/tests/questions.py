"""A small multiple-choice dataset, and tasks over it."""

from __future__ import annotations

from typing import Any

from lm_eval.api.task import (
    Task,
)

QUESTIONS = [
    {"question": "2+2?", "choices": ["3", "4", "5", "6"], "answer": 1},
    {"question": "3+3?", "choices": ["6", "7", "8", "9"], "answer": 0},
]


def questions(**kwargs: Any) -> dict[str, Any]:
    """Return a dataset of questions with choices."""
    return {"test": QUESTIONS}


def task_of(**fields: Any) -> dict[str, Any]:
    """Return a definition with these questions."""
    return {"task": "asked", "custom_dataset": questions, "test_split": "test", **fields}


def prompts(task: Task) -> list[Any]:
    """Return the prompts of a task."""
    return [instance.args for instance in task.build_all_requests()]
