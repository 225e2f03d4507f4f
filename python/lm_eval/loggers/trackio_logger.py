"""Logs evaluations to Trackio, with the user's package `trackio`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval._lazy import require
from lm_eval.loggers.utils import _artifact_name, _flat, _ResultsLogger, _sample_table

__all__ = ["TrackioLogger"]


class TrackioLogger(_ResultsLogger):
    """A `trackio` run that logs results and samples; `init_args` go to `trackio.init`."""

    def __init__(self, init_args: Mapping[str, Any] | None = None) -> None:
        trackio = self._trackio = require("trackio", "Logging to Trackio")
        self.trackio_args = dict(init_args or {})
        self.step = self.trackio_args.pop("step", None)
        self.run: Any = trackio.init(**self.trackio_args)

    def log_eval_result(self, file: Path | None = None) -> None:
        """Log configuration and scores, and the results file if one is given."""
        config = getattr(self.run, "config", None)
        if config is not None and hasattr(config, "update"):
            settings = {"task_configs": self.task_configs, "cli_configs": self.results.get("config", {})}
            config.update(settings)
        self._trackio.log(_flat(self.results)[1], step=self.step)
        self._log_file("results", "eval_results", file)

    def log_eval_samples(
        self, samples: Mapping[str, list[dict[str, Any]]], files: Mapping[str, Path] | None = None
    ) -> None:
        """Log a table of each task's samples, if this version of the package has tables, and the files given."""
        for task, records in samples.items():
            table = self._table(*_sample_table(records))
            if table is not None:
                self._trackio.log({f"{task}_eval_samples": table}, step=self.step)
            self._log_file(_artifact_name(task), "samples_by_task", (files or {}).get(task))

    def finish(self) -> None:
        """Finish the run."""
        self._trackio.finish()

    def _table(self, columns: list[str], rows: list[list[Any]]) -> Any:
        table = getattr(self._trackio, "Table", None)
        if table is None:
            return None
        if "data" in inspect.signature(table).parameters:
            return table(columns=columns, data=rows)
        # Earlier versions take only data frames.
        import pandas

        return table(dataframe=pandas.DataFrame(rows, columns=columns))

    def _log_file(self, name: str, kind: str, file: Path | None) -> None:
        """Log a file, if this version of the package has artifacts."""
        log_artifact = getattr(self._trackio, "log_artifact", None)
        if file is not None and log_artifact is not None:
            log_artifact(str(file), name=name, type=kind)
