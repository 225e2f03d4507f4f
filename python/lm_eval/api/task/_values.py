"""Values of configurations and documents."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from lm_eval.config.task import TaskConfig

FIELDS = frozenset(item.name for item in fields(TaskConfig))
"""The fields of a configuration."""


def copied(value: Any) -> Any:
    """Return a deep copy of nested dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def without_chat(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a request without those that concern chat templates."""
    return {name: item for name, item in kwargs.items() if name not in ("apply_chat_template", "chat_template")}


def as_list(value: Any) -> Any:
    """Return the list that a string is a literal of; anything else unchanged."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not (text.startswith(("[", "(")) and text.endswith(("]", ")"))):
        return value
    try:
        parsed = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return value
    return list(parsed) if isinstance(parsed, (list, tuple)) else value
