"""Recording of evaluations: files, Weights & Biases, Trackio."""

from __future__ import annotations

from lm_eval.loggers.evaluation_tracker import EvaluationTracker, GeneralConfigTracker
from lm_eval.loggers.trackio_logger import TrackioLogger
from lm_eval.loggers.wandb_logger import WandbLogger

__all__ = ["EvaluationTracker", "GeneralConfigTracker", "TrackioLogger", "WandbLogger"]
