"""Logs evaluations to Weights & Biases, with the user's package `wandb`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval._lazy import require
from lm_eval.loggers.utils import COLUMNS, _artifact_name, _flat, _ResultsLogger, _rows, _sample_table
from lm_eval.utils import handle_non_serializable

__all__ = ["WandbLogger"]


class WandbLogger(_ResultsLogger):
    """A `wandb` run that logs results and samples.

    `init_args` go to `wandb.init`, except `step`, which applies to logging; `config_args` go into the run's
    configuration. Without `init_args`, the active run is used.
    """

    def __init__(
        self, init_args: Mapping[str, Any] | None = None, config_args: Mapping[str, Any] | None = None
    ) -> None:
        wandb = self._wandb = require("wandb", "Logging to Weights & Biases")
        self.wandb_args = dict(init_args or {})
        self.wandb_config_args = dict(config_args or {})
        self.step = self.wandb_args.pop("step", None)
        active = getattr(wandb, "run", None)
        self.run: Any = wandb.init(**self.wandb_args) if active is None or self.wandb_args else active
        if self.wandb_config_args:
            self.run.config.update(self.wandb_config_args)

    def log_eval_result(self, file: Path | None = None) -> None:
        """Log configuration, scores, score tables, and the results as a file: `file`, or else one written here."""
        settings = {"task_configs": self.task_configs, "cli_configs": self.results.get("config", {})}
        self.run.config.update(settings)
        strings, self.wandb_results = _flat(self.results)
        self.run.summary.update(strings)
        self.run.log(self.wandb_results, step=self.step)
        for part, name in (("results", "eval_results"), ("groups", "group_eval_results")):
            rows = _rows(self.results, part)
            if rows:
                table = self._wandb.Table(columns=list(COLUMNS), data=[list(row) for row in rows])
                self.run.log({f"evaluation/{name}": table}, step=self.step)
        self._log_file("results", "eval_results", "results.json", self.results, file)

    def log_eval_samples(
        self, samples: Mapping[str, list[dict[str, Any]]], files: Mapping[str, Path] | None = None
    ) -> None:
        """Log a table of each task's samples, and the samples as a file: that of `files`, or else one written here."""
        for task, records in samples.items():
            columns, rows = _sample_table(records)
            table = self._wandb.Table(columns=columns, data=rows)
            self.run.log({f"{task}_eval_results": table}, step=self.step)
            name = _artifact_name(task)
            file = (files or {}).get(task)
            self._log_file(name, "samples_by_task", f"{name}_eval_samples.json", records, file)

    def finish(self) -> None:
        """Finish the run."""
        self.run.finish()

    def _log_file(self, name: str, kind: str, file_name: str, content: Any, file: Path | None) -> None:
        artifact = self._wandb.Artifact(name, type=kind)
        if file is not None:
            artifact.add_file(str(file))
            self.run.log_artifact(artifact)
            return
        text = json.dumps(content, indent=4, default=handle_non_serializable, ensure_ascii=False)
        with artifact.new_file(file_name, mode="w", encoding="utf-8") as opened:
            opened.write(text)
        self.run.log_artifact(artifact)
