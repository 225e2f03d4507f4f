"""Logs evaluations to Trackio, with the user's package `trackio`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from lm_eval.loggers.utils import _flat, _sample_table

__all__ = ["TrackioLogger"]


class TrackioLogger:
    """A `trackio` run that logs results and samples; `init_args` go to `trackio.init`."""

    def __init__(self, init_args: Mapping[str, Any] | None = None) -> None:
        try:
            import trackio
        except ImportError as error:
            raise ImportError(
                "Logging to Trackio needs the package `trackio`: `pip install trackio`"
            ) from error
        self._trackio: Any = trackio
        self.trackio_args = dict(init_args or {})
        self.step = self.trackio_args.pop("step", None)
        self.run: Any = trackio.init(**self.trackio_args)

    def post_init(self, results: Mapping[str, Any]) -> None:
        """Set the results to log."""
        self.results = copy.deepcopy({name: part for name, part in results.items() if name != "samples"})
        self.task_names = list(results.get("results", {}))
        self.group_names = list(results.get("groups", {}))
        self.task_configs = self.results.get("configs", {})

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
