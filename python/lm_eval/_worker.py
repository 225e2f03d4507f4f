"""The program of a worker process: it waits for calls of the engine and answers each with a frame of its own."""

from __future__ import annotations

import faulthandler
import functools
import importlib.util
import inspect
import os
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from lm_eval import _dataset
from lm_eval._loader import Loader
from lm_eval._protocol import VERSION, Channel, to_wire

_OWN_FILES = ("<lm-eval>/lm_eval/_worker.py", "<lm-eval>/lm_eval/_loader.py", "<frozen importlib")


def main(descriptor: int, settings: dict[str, Any]) -> None:
    """Serves the engine until it closes the pipe."""
    if settings["protocol"] != VERSION:
        raise RuntimeError(f"the engine speaks protocol {settings['protocol']}, the worker {VERSION}")
    faulthandler.enable()
    _limit_memory(settings["memory_limit"])
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    _dataset.stand_in()
    loader = Loader(settings["task_roots"])
    channel = Channel(descriptor, loader.resolve)
    threading.Thread(target=_end_with_engine, args=(descriptor,), daemon=True).start()
    channel.write({"protocol": VERSION, "python": list(sys.version_info[:3]), "executable": sys.executable})
    worker = Worker(loader, channel)
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
    """Ends the process soon after the engine, whatever the main thread is busy with."""
    import select

    ended = select.poll()
    ended.register(descriptor, 0)
    ended.poll()
    time.sleep(2)
    os._exit(0)


class Worker:
    """Calls functions and sends what they give."""

    def __init__(self, loader: Loader, channel: Channel) -> None:
        self._loader = loader
        self._channel = channel
        self._process = os.getpid()
        self._filters: dict[str, Any] = {}

    def serve(self, message: dict[str, Any]) -> None:
        """Answers a message: one frame for each call, up to the first that fails."""
        try:
            function = self._loader.resolve(*message["function"])
            calls = getattr(self, "_" + message["op"])(function, message)
            for value in calls:
                if os.getpid() != self._process:
                    # A function has forked and its child came back here: the answer is the parent's to give.
                    os._exit(0)
                self._channel.write({"ok": to_wire(value)})
        except BaseException as error:  # noqa: BLE001
            if os.getpid() != self._process:
                os._exit(1)
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Sends what went wrong."""
        name = type(error).__name__
        module = type(error).__module__
        missing = _missing(error)
        self._channel.write(
            {
                "error": {
                    "type": name if module in ("builtins", "lm_eval._protocol") else f"{module}.{name}",
                    "message": _text(error),
                    "traceback": _traceback(error),
                    "missing": missing,
                }
            }
        )

    def _load(self, function: Any, message: dict[str, Any]) -> Any:
        if not callable(function):
            kind = type(function).__name__
            raise TypeError(f"`{message['function'][1]}` is no function but a value of type `{kind}`")
        yield {"name": getattr(function, "__name__", None), "class": isinstance(function, type)}

    def _call(self, function: Any, message: dict[str, Any]) -> Any:
        for arguments in message["calls"]:
            _seed(arguments)
            yield function(*arguments)

    def _metric(self, function: Any, message: dict[str, Any]) -> Any:
        for references, predictions, kwargs in message["calls"]:
            _seed((references, predictions))
            yield _call_metric(function, references, predictions, kwargs)

    def _process_docs(self, function: Any, message: dict[str, Any]) -> Any:
        split = _dataset.make(message["documents"], message["columns"])
        _seed_all()
        yield _dataset.documents(function(split))

    def _documents(self, function: Any, message: dict[str, Any]) -> Any:
        _seed_all()
        yield _dataset.documents(function())

    def _splits(self, function: Any, message: dict[str, Any]) -> Any:
        _seed_all()
        splits = function(**message["kwargs"])
        if not isinstance(splits, Mapping):
            raise TypeError(f"expected a dictionary of splits, found a value of type `{type(splits).__name__}`")
        yield {str(name): _dataset.documents(split) for name, split in splits.items()}

    def _filter(self, function: Any, message: dict[str, Any]) -> Any:
        _seed(message["responses"])
        yield list(function(*_answers(message)))

    def _filter_class(self, made: Any, message: dict[str, Any]) -> Any:
        key = repr((message["function"], message["kwargs"]))
        instance = self._filters.get(key)
        if instance is None:
            instance = self._filters[key] = made(**message["kwargs"])
        if message["responses"] is None:
            yield None
            return
        _seed(message["responses"])
        yield list(instance.apply(*_answers(message)))


def _answers(message: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The answers to all requests and the document of each."""
    documents = message["documents"]
    return message["responses"], [documents[place] for place in message["places"]]


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[bool, int | None, frozenset[str], bool]:
    """Whether references and predictions have their names; how many arguments go by position; names; `**kwargs`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False, None, frozenset(), False
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variable = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    names = frozenset(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    catch_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = names >= {"references", "predictions"}
    return named, None if variable else len(by_position), names, catch_all


def _call_metric(function: Any, references: Any, predictions: Any, kwargs: dict[str, Any]) -> Any:
    try:
        named, positions, names, catch_all = _parameters(function)
    except TypeError:
        named, positions, names, catch_all = _parameters.__wrapped__(function)
    if not catch_all:
        kwargs = {name: value for name, value in kwargs.items() if name in names}
    if named:
        return function(**{**kwargs, "references": references, "predictions": predictions})
    if positions == 1 and not catch_all and isinstance(references, list):
        # A metric of the older kind takes the pair of target and answer.
        return function([references[0], predictions[0]], **kwargs)
    return function(references, predictions, **kwargs)


def _seed(arguments: Any) -> None:
    """Makes what a function draws depend on its arguments alone, whichever worker it runs in."""
    random = sys.modules.get("random")
    numpy = sys.modules.get("numpy.random")
    if random is None and numpy is None:
        return
    seed = zlib.crc32(repr(arguments).encode("utf-8", "surrogatepass"))
    if random is not None:
        random.seed(seed)
    if numpy is not None:
        numpy.seed(seed)


def _seed_all() -> None:
    """Seeds what is drawn for a whole split with the default seeds of a run."""
    if "random" in sys.modules:
        sys.modules["random"].seed(0)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(1234)


def _missing(error: BaseException | None) -> str | None:
    """The package whose absence is behind an error of an import; not one that merely lacks a module."""
    while isinstance(error, ImportError):
        if isinstance(error, ModuleNotFoundError) and error.name:
            package = error.name.partition(".")[0]
            return None if _is_there(package) else package
        error = error.__cause__ or error.__context__
    return None


def _is_there(package: str) -> bool:
    try:
        found = sys.modules.get(package) or importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    # What stands in for `datasets` is no reason not to install it.
    return found is not None and not getattr(found, "__lm_eval__", False)


def _text(error: BaseException) -> str:
    try:
        return str(error).encode("utf-8", "backslashreplace").decode("utf-8")
    except Exception:  # noqa: BLE001
        return ""


def _traceback(error: BaseException) -> str:
    """The traceback from the task's own code on."""
    trace = traceback.TracebackException.from_exception(error)
    frames = list(trace.stack)
    while frames and frames[0].filename.startswith(_OWN_FILES):
        frames.pop(0)
    trace.stack = traceback.StackSummary.from_list(frames)
    return "".join(trace.format()).encode("utf-8", "backslashreplace").decode("utf-8")
