"""Tasks: documents, prompts, requests and scores."""

from __future__ import annotations

from lm_eval.api.instance import Instance, OutputType
from lm_eval.api.task._output_types import (
    GenerateTask,
    LoglikelihoodRollingTask,
    LoglikelihoodTask,
    MultipleChoiceTask,
    PerplexityTask,
)
from lm_eval.api.task._task import ALL_OUTPUT_TYPES, ConfigurableTask, Task
from lm_eval.config.task import TaskConfig

__all__ = [
    "ALL_OUTPUT_TYPES",
    "ConfigurableTask",
    "GenerateTask",
    "Instance",
    "LoglikelihoodRollingTask",
    "LoglikelihoodTask",
    "MultipleChoiceTask",
    "OutputType",
    "PerplexityTask",
    "Task",
    "TaskConfig",
]
