"""What keeps a record of evaluations."""

from __future__ import annotations

from lm_eval.loggers.evaluation_tracker import EvaluationTracker, GeneralConfigTracker

__all__ = ["EvaluationTracker", "GeneralConfigTracker"]
