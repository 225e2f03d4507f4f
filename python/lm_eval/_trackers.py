"""Worker operations that report a run to experiment trackers, with the packages of the user's Python."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from lm_eval._worker import Worker

_PACKAGES = {"wandb": "wandb", "trackio": "trackio", "hub": "huggingface_hub"}
"""The package that each tracker needs."""

STEP = "global_step"
"""The name of the step in what is logged."""

TRACKIO_PROJECT = "lm-eval-harness"
"""The Trackio project used if none is named."""


class _Run:
    """The files of a finished run."""

    def __init__(self, results: str, samples: dict[str, str]) -> None:
        self.path = Path(results)
        self.results: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        self.samples = {task: Path(path) for task, path in samples.items()}

    def records(self, task: str) -> list[dict[str, Any]]:
        with open(self.samples[task], encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class _Tracker(Protocol):
    def log(self, run: _Run) -> list[str]: ...

    def log_step(self, results: dict[str, Any], step: int) -> None: ...

    def finish(self) -> list[str]: ...

    def abandon(self) -> None: ...


class _Wandb:
    def __init__(self, settings: dict[str, Any]) -> None:
        from lm_eval.loggers.wandb_logger import WandbLogger

        self._logger = WandbLogger(settings["wandb"], settings["wandb_config"])
        self._has_steps = False

    def log(self, run: _Run) -> list[str]:
        logger = self._logger
        logger.post_init(run.results)
        logger.log_eval_result(file=run.path)
        for task, path in run.samples.items():
            logger.log_eval_samples({task: run.records(task)}, files={task: path})
        return self.finish()

    def log_step(self, results: dict[str, Any], step: int) -> None:
        from lm_eval.loggers.utils import _flat

        run = self._logger.run
        if not self._has_steps:
            # Steps may come in any order, and a run of W&B counts its own.
            run.define_metric(STEP)
            run.define_metric("*", step_metric=STEP)
            self._has_steps = True
        run.log({STEP: step, **_flat(results)[1]})

    def finish(self) -> list[str]:
        logger = self._logger
        where = getattr(logger.run, "url", None) or getattr(logger.run, "dir", "")
        logger.finish()
        return [f"Logged to Weights & Biases: {where}"]

    def abandon(self) -> None:
        self._logger.run.finish(exit_code=1)


class _Trackio:
    def __init__(self, settings: dict[str, Any]) -> None:
        from lm_eval.loggers.trackio_logger import TrackioLogger

        self._arguments = {"project": TRACKIO_PROJECT, **settings["trackio"]}
        self._logger = TrackioLogger(self._arguments)

    def log(self, run: _Run) -> list[str]:
        logger = self._logger
        logger.post_init(run.results)
        logger.log_eval_result(file=run.path)
        for task, path in run.samples.items():
            logger.log_eval_samples({task: run.records(task)}, files={task: path})
        return self.finish()

    def log_step(self, results: dict[str, Any], step: int) -> None:
        import trackio

        from lm_eval.loggers.utils import _flat

        trackio.log(_flat(results)[1], step=step)

    def finish(self) -> list[str]:
        self._logger.finish()
        return [f"Logged to Trackio: project `{self._arguments['project']}`"]

    def abandon(self) -> None:
        self._logger.finish()


class _Hub:
    def __init__(self, settings: dict[str, Any]) -> None:
        from lm_eval.loggers._hub import HubLog

        self._log = HubLog(**settings["hub"])

    def log(self, run: _Run) -> list[str]:
        model = run.results.get("model_name_sanitized") or run.path.parent.name
        return self._log.push(model, run.path, list(run.samples.values()))

    def log_step(self, results: dict[str, Any], step: int) -> None:
        """Each evaluation pushes its own files."""

    def finish(self) -> list[str]:
        return []

    def abandon(self) -> None:
        """Nothing was created yet."""


_TRACKERS: dict[str, type[_Wandb | _Trackio | _Hub]] = {"wandb": _Wandb, "trackio": _Trackio, "hub": _Hub}

_open: dict[str, _Tracker] = {}
"""The trackers of the run, by name."""


def _start(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Check all packages, then open a run in each tracker."""
    settings = message["settings"]
    wanted = [name for name in _TRACKERS if settings.get(name)]
    for name in wanted:
        package = _PACKAGES[name]
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"The package `{package}` is not installed", name=package)
    try:
        for name in wanted:
            _open[name] = _TRACKERS[name](settings)
    except BaseException:
        _abandon_all()
        raise
    yield wanted


def _log_step(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Report the scores of one step to every tracker, whose runs stay open."""
    results = json.loads(Path(message["results"]).read_text(encoding="utf-8"))
    failed: list[str] = []
    for name, tracker in _open.items():
        try:
            tracker.log_step(results, message["step"])
        except Exception as error:  # noqa: BLE001
            failed.append(f"{name}: {type(error).__name__}: {error}")
    yield {"done": [], "failed": failed}


def _finish(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Close the runs of trackers that steps were reported to."""
    done: list[str] = []
    failed: list[str] = []
    for name, tracker in _open.items():
        try:
            done += tracker.finish()
        except Exception as error:  # noqa: BLE001
            failed.append(f"{name}: {type(error).__name__}: {error}")
    _open.clear()
    yield {"done": done, "failed": failed}


def _log(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Report the run to every tracker; a failure of one does not keep it from the others."""
    run = _Run(message["results"], message["samples"])
    done: list[str] = []
    failed: list[str] = []
    for name, tracker in _open.items():
        try:
            done += tracker.log(run)
        except Exception as error:  # noqa: BLE001
            failed.append(f"{name}: {type(error).__name__}: {error}")
            _suppressed(tracker)
    _open.clear()
    yield {"done": done, "failed": failed}


def _abandon(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Close the runs of trackers as failed: the evaluation did not finish."""
    _abandon_all()
    yield None


def _abandon_all() -> None:
    for tracker in _open.values():
        _suppressed(tracker)
    _open.clear()


def _suppressed(tracker: _Tracker) -> None:
    """Close a tracker that is of no more use; how that fails is of no interest."""
    try:
        tracker.abandon()
    except Exception:  # noqa: BLE001, S110
        pass


OPERATIONS = {
    "trackers_start": _start,
    "trackers_log": _log,
    "trackers_step": _log_step,
    "trackers_finish": _finish,
    "trackers_abandon": _abandon,
}
