"""Overlap of tasks with training data, which this package does not compute."""

from __future__ import annotations

from lm_eval._removed import removed_names

_instead = "`lm_eval.decontamination.janitor.Janitor` finds and removes n-grams that documents share"

__getattr__ = removed_names(
    __name__, dict.fromkeys(("get_train_overlap", "get_train_overlap_stub", "process_task_window"), _instead)
)
