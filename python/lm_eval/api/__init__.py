"""Base classes and registries for code that extends lm-eval."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.api.filter import Filter, FilterEnsemble
    from lm_eval.api.group import ConfigurableGroup, Group
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM, CachingLM, TemplateLM
    from lm_eval.api.task import ConfigurableTask, Task

__all__ = [
    "LM",
    "CachingLM",
    "ConfigurableGroup",
    "ConfigurableTask",
    "Filter",
    "FilterEnsemble",
    "Group",
    "Instance",
    "Task",
    "TemplateLM",
]

# Every worker process imports this package; most need only one of these modules.
_MODULES = {
    "LM": "model",
    "CachingLM": "model",
    "ConfigurableGroup": "group",
    "ConfigurableTask": "task",
    "Filter": "filter",
    "FilterEnsemble": "filter",
    "Group": "group",
    "Instance": "instance",
    "Task": "task",
    "TemplateLM": "model",
}


def __getattr__(name: str) -> Any:
    """Import a class on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
