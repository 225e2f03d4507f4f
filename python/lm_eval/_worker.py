"""The main loop of a worker process: waits for engine calls and answers each with one frame."""

from __future__ import annotations

import faulthandler
import importlib.util
import mmap
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from lm_eval import (
    _calls,
    _class_tasks,
    _code,
    _dataset,
    _evaluate,
    _loader,
    _models,
    _plugins,
    _refusals,
    _registered,
    _scorer_calls,
    _trackers,
)
from lm_eval._loader import Loader
from lm_eval._protocol import VERSION, Channel, to_wire

Operation = Callable[["Worker", Any, dict[str, Any]], Iterator[Any]]
"""The handler of one kind of message: yields one value per call."""

_OPERATIONS: dict[str, Operation] = {
    **_calls.OPERATIONS,
    **_registered.OPERATIONS,
    **_scorer_calls.OPERATIONS,
    **_class_tasks.OPERATIONS,
    **_models.OPERATIONS,
    **_code.OPERATIONS,
    **_trackers.OPERATIONS,
}

_OWN_FILES = ("<lm-eval>/lm_eval/_", "<frozen importlib")

_UNQUALIFIED_MODULES = ("builtins", "lm_eval._models", "lm_eval._plugins", "lm_eval._protocol")
"""Modules whose exceptions are named without the module."""


def main(descriptor: int, settings: dict[str, Any]) -> None:
    """Serve the engine until it closes the pipe."""
    if settings["protocol"] != VERSION:
        raise RuntimeError(f"the engine speaks protocol {settings['protocol']}, the worker {VERSION}")
    faulthandler.enable()
    _limit_memory(settings["memory_limit"])
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    _dataset.install()
    _evaluate.install()
    _code.RUNNER.configure(settings["program"], settings["run_unsafe_code"])
    loader = Loader(settings["task_roots"])
    channel = Channel(descriptor, loader.resolve)
    threading.Thread(target=_end_with_engine, args=(descriptor,), daemon=True).start()
    worker = Worker(loader, channel)
    worker.report_progress(settings["progress"])
    channel.write({"protocol": VERSION, "python": list(sys.version_info[:3]), "executable": sys.executable})
    _class_tasks.objects(worker)
    worker.start(settings["plugins"])
    while True:
        try:
            message = channel.read()
        except Exception as error:  # noqa: BLE001
            worker.fail(error)
            continue
        if message is None:
            return
        worker.serve(message)


def _limit_memory(limit: int | None) -> None:
    if limit is None:
        return
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _end_with_engine(descriptor: int) -> None:
    """Exit, with all child processes, soon after the engine does, whatever the main thread is doing."""
    import select
    import signal

    ended = select.poll()
    ended.register(descriptor, 0)
    ended.poll()
    time.sleep(2)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


class Worker:
    """Calls functions and sends their values."""

    def __init__(self, loader: Loader, channel: Channel) -> None:
        self.loader = loader
        self.channel = channel
        self._process = os.getpid()
        self._progress: mmap.mmap | None = None
        self.filters: dict[str, Any] = {}
        self.scorers: dict[str, Any] = {}
        self.replaced: set[tuple[str, str, str]] = set()
        loader.schemes[_registered.SCHEME] = _registered.finder(loader)

    def report_progress(self, path: str | None) -> None:
        """Write the number of finished calls to a file from now on."""
        if path is not None:
            with open(path, "r+b") as file:
                self._progress = mmap.mmap(file.fileno(), 8)

    def start(self, plugins: list[str]) -> None:
        """Import the plug-ins, which may register things; the first answer reports errors."""
        try:
            with _code.RUNNER.uncounted():
                loaded = _plugins.load(plugins)
            if loaded:
                _refusals.refuse("command")
            self.channel.write({"ok": loaded})
        except BaseException as error:  # noqa: BLE001
            self.fail(error)

    def serve(self, message: dict[str, Any]) -> None:
        """Answer a message: one frame per call, up to the first that fails."""
        done = 0
        self._note(done)
        try:
            function = self.loader.resolve(*message["function"]) if "function" in message else None
            for value in _OPERATIONS[message["op"]](self, function, message):
                if os.getpid() != self._process:
                    # A function forked and its child returned here: only the parent answers.
                    os._exit(0)
                self.channel.hold({"ok": to_wire(value)})
                done += 1
                self._note(done)
            self.channel.flush()
        except BaseException as error:  # noqa: BLE001
            if os.getpid() != self._process:
                os._exit(1)
            self.fail(error)

    def opened(self, served: _models.Served) -> None:
        """Called when a model was made."""

    def _note(self, done: int) -> None:
        """Record how many calls are done, so that the engine knows even if this process dies."""
        if self._progress is not None:
            self._progress[:8] = done.to_bytes(8, "little")

    def fail(self, error: BaseException) -> None:
        """Send an error."""
        name = type(error).__name__
        module = type(error).__module__
        missing = _missing(error)
        self.channel.write(
            {
                "error": {
                    "type": name if module in _UNQUALIFIED_MODULES else _loader.plain(f"{module}.{name}"),
                    "message": _text(error),
                    "traceback": _traceback(error),
                    "missing": missing,
                }
            }
        )


def _missing(error: BaseException | None) -> str | None:
    """Return the package whose absence causes an import error; `None` if only a module of it is missing."""
    while isinstance(error, ImportError):
        if isinstance(error, ModuleNotFoundError) and error.name:
            package = error.name.partition(".")[0]
            return None if _is_installed(package) else package
        error = error.__cause__ or error.__context__
    return None


def _is_installed(package: str) -> bool:
    try:
        found = sys.modules.get(package) or importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    # Our replacement of `datasets` does not count as installed.
    return found is not None and not getattr(found, "__lm_eval__", False)


def _text(error: BaseException) -> str:
    try:
        return _loader.plain(str(error).encode("utf-8", "backslashreplace").decode("utf-8"))
    except Exception:  # noqa: BLE001
        return ""


def _traceback(error: BaseException) -> str:
    """Return the traceback, starting at the task's own code."""
    trace = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = trace
    while part is not None:
        frames = list(part.stack)
        while frames and frames[0].filename.startswith(_OWN_FILES):
            frames.pop(0)
        part.stack = traceback.StackSummary.from_list(frames)
        part = part.__cause__ or part.__context__
    return _loader.plain("".join(trace.format()).encode("utf-8", "backslashreplace").decode("utf-8"))
