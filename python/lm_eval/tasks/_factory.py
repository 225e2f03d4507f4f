"""Tasks and groups are made by the engine."""

from __future__ import annotations

from lm_eval._removed import removed_names

__getattr__ = removed_names(
    __name__, dict.fromkeys(("GROUP_FIELD_NAMES", "TaskFactory"), "`TaskManager.load` makes tasks and groups")
)
