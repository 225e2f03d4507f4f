"""Tasks and groups are made by the engine."""

from __future__ import annotations

from lm_eval._absent import absent

__getattr__ = absent(
    __name__, dict.fromkeys(("GROUP_FIELD_NAMES", "TaskFactory"), "`TaskManager.load` makes tasks and groups")
)
