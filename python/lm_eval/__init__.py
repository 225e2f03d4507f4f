"""The Python API of lm-eval, imported by scripts, task files and plug-ins.

Importing this package needs only the standard library. The engine is the `lm-eval` binary; it starts worker processes
that import this package and, through it, the functions, filters, metrics, scorers and models that users write.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lm_eval import _installed, _patches

_installed.refuse_mixture()
_patches.install()

__version__ = "0.6.0"

__all__ = ["TaskManager", "__version__", "compare", "evaluate", "simple_evaluate"]

_SUBMODULES = (
    "api",
    "caching",
    "config",
    "decontamination",
    "defaults",
    "evaluator",
    "evaluator_utils",
    "filters",
    "loggers",
    "models",
    "prompts",
    "result_schema",
    "scorers",
    "tasks",
    "utils",
)
"""Where each lazily imported `lm_eval.NAME` is defined."""

if TYPE_CHECKING:
    from lm_eval._compare import compare
    from lm_eval.evaluator import evaluate, simple_evaluate
    from lm_eval.tasks.manager import TaskManager


def __getattr__(name: str) -> Any:
    """Load public names on first use, so that importing the package costs nothing."""
    if name == "TaskManager":
        from lm_eval.tasks.manager import TaskManager

        return TaskManager
    if name == "compare":
        from lm_eval._compare import compare

        return compare
    if name in ("evaluate", "simple_evaluate"):
        from lm_eval import evaluator

        return getattr(evaluator, name)
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
