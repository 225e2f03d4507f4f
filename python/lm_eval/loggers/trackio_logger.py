"""Logs evaluations to Trackio, with the user's package `trackio`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval._lazy import require
from lm_eval.loggers.utils import _flat, _ResultsLogger, _sample_table

__all__ = ["TrackioLogger"]


class TrackioLogger(_ResultsLogger):
    """A `trackio` run that logs results and samples; `init_args` go to `trackio.init`."""

    def __init__(self, init_args: Mapping[str, Any] | None = None) -> None:
        trackio = self._trackio = require("trackio", "Logging to Trackio")
        self.trackio_args = dict(init_args or {})
        self.step = self.trackio_args.pop("step", None)
        self.run: Any = trackio.init(**self.trackio_args)

    def log_eval_result(self) -> None:
        """Log the scores."""
        self._trackio.log(_flat(self.results)[1], step=self.step)

    def log_eval_samples(self, samples: Mapping[str, list[dict[str, Any]]]) -> None:
        """Log a table of each task's samples, if this version of the package has tables."""
        table = getattr(self._trackio, "Table", None)
        if table is None:
            return
        import pandas

        for task, records in samples.items():
            columns, rows = _sample_table(records)
            frame = pandas.DataFrame(rows, columns=columns)
            self._trackio.log({f"{task}_eval_samples": table(dataframe=frame)}, step=self.step)

    def finish(self) -> None:
        """Finish the run."""
        self._trackio.finish()
