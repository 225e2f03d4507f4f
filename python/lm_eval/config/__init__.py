"""Typed configuration of tasks, groups and runs."""

from __future__ import annotations

from typing import Any

__all__ = ["EvaluatorConfig", "GroupConfig", "TaskConfig", "formats"]


def __getattr__(name: str) -> Any:
    """Load the public names on first use."""
    from importlib import import_module

    if name == "formats":
        return import_module("lm_eval.config.formats")
    homes = {"EvaluatorConfig": "evaluate_config", "GroupConfig": "group", "TaskConfig": "task"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"lm_eval.config.{homes[name]}"), name)
