"""Objects of this process that the engine refers to: functions, classes, tasks and models."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lm_eval import _class_tasks, _distributed, _host, _models, _worker
from lm_eval._loader import Loader
from lm_eval._protocol import Channel, Reference

SCHEME = "live"
"""The scheme of references to objects of the process that called the engine."""

_PLAIN = (str, int, float, bool, type(None), bytes)


class TaskFunction:
    """A function of a task file, imported when it is first called."""

    def __init__(self, directory: str, reference: str) -> None:
        self.directory = directory
        self.reference = reference
        self.__name__ = reference.rpartition(".")[2]

    @property
    def __signature__(self) -> inspect.Signature:
        """The parameters of the function, which determine how metrics call it."""
        try:
            return inspect.signature(self.resolve())
        except Exception as error:
            raise AttributeError(f"`{self.reference}` has no signature that can be read") from error

    def resolve(self) -> Any:
        """Return the object of the reference."""
        try:
            return _functions.resolve(self.directory, self.reference)
        finally:
            _functions.enter("")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.resolve()
        try:
            _functions.enter(self.directory)
            return function(*args, **kwargs)
        finally:
            _functions.enter("")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskFunction) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str]:
        return self.directory, self.reference

    def __repr__(self) -> str:
        return f"TaskFunction({self.directory!r}, {self.reference!r})"

    def __str__(self) -> str:
        return self.reference


_functions = Loader([])


class Live:
    """The objects of one session with the engine."""

    def __init__(self) -> None:
        self.needs_identity = True
        """Whether answers are cached for a model that only its own content identifies."""
        self._objects: list[Any] = []
        self._known: dict[int, Reference] = {}

    def refer(self, target: Any) -> Reference:
        """Return a reference to an object."""
        if isinstance(target, TaskFunction):
            return Reference(target.directory, target.reference)
        known = self._known.get(id(target))
        if known is None:
            name = getattr(target, "__name__", None) or type(target).__name__
            known = Reference("", f"{SCHEME}:{len(self._objects)}.{name}")
            # The list keeps the object alive, so that its id is not reused.
            self._objects.append(target)
            self._known[id(target)] = known
        return known

    def find(self, directory: str, rest: str) -> Any:
        """Return the object of a reference, given the part after the scheme."""
        return self._objects[int(rest.partition(".")[0])]

    def function(self, directory: str, reference: str) -> Any:
        """Return the function that a result refers to: an object of this process, or one of a task file."""
        scheme, _, rest = reference.partition(":")
        return self.find(directory, rest) if scheme == SCHEME else TaskFunction(directory, reference)

    def text(self, directory: str, reference: str) -> str:
        """Return a function as results show it: the source of an object of this process, otherwise its reference."""
        from lm_eval.config._callables import serialize_function

        scheme, _, rest = reference.partition(":")
        return serialize_function(self.find(directory, rest)) if scheme == SCHEME else reference

    def shown(self, value: Any) -> Any:
        """Return a configuration with references to objects of this process replaced by their source."""
        if isinstance(value, dict):
            return {key: self.shown(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.shown(item) for item in value]
        if isinstance(value, str) and value.startswith(SCHEME) and value in self._references:
            return self.text("", value)
        return value

    @property
    def _references(self) -> set[str]:
        return {known.reference for known in self._known.values()}

    def sendable(self, value: Any) -> Any:
        """Return a value with functions, classes and other callables replaced by references."""
        if type(value) in _PLAIN or isinstance(value, Reference):
            return value
        if isinstance(value, Mapping):
            return {key: self.sendable(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(self.sendable(item) for item in value)
        if isinstance(value, list):
            return [self.sendable(item) for item in value]
        return self.refer(value) if callable(value) else value


_serving = threading.local()
"""The channel to the engine of the thread that is answering a call."""


def _load_dataset(path: str | None, name: str | None = None, **options: Any) -> Any:
    """Return the splits of a dataset from the engine that waits for this thread."""
    objects = getattr(_serving, "objects", None)
    if objects is None:
        # The caller then uses the library, if installed.
        raise _host.EngineError(f"Loading the dataset `{path}` in Python needs the package `datasets`")
    return objects._load_dataset(path, name, **options)


def _render(template: str, document: dict[str, Any]) -> str:
    """Render a template with the engine that waits for this thread, or else with another one."""
    from lm_eval import _engine

    objects = getattr(_serving, "objects", None)
    if objects is None:
        return str(_engine.call("render", template=template, document=document))
    return str(objects._render(template, document))


def _judge(role: str, prompts: list[str], **question: Any) -> list[str]:
    """Ask a judge of the run that waits for this thread."""
    objects = getattr(_serving, "objects", None)
    if objects is None:
        raise _host.EngineError("A judge can only be asked while a run scores its answers")
    answers: list[str] = objects._judge(role, prompts, from_caller=True, **question)
    return answers


def _aggregate(**question: Any) -> float:
    """Aggregate values with the engine that waits for this thread, or else with another one."""
    objects = getattr(_serving, "objects", None)
    return _host.aggregate_elsewhere(**question) if objects is None else objects._aggregate(**question)


_render.starts_engines = True  # type: ignore[attr-defined]


class Server(_worker.Worker):
    """Answers engine calls in the calling process, and keeps the exceptions they raise."""

    def __init__(self, channel: Channel, loader: Loader, needs_identity: bool = True) -> None:
        super().__init__(loader, channel)
        self.needs_identity = needs_identity
        self.objects = _class_tasks.Objects(self)
        _host.set_dataset_loader(_load_dataset)
        _host.set_template_renderer(_render)
        _host.set_judge(_judge)
        _host.set_aggregator(_aggregate)
        self.raised: list[tuple[str, BaseException]] = []
        self.is_calling = False
        self._models: list[int] = []
        self._groups: list[_distributed.Group] = []

    def serve(self, message: dict[str, Any]) -> None:
        """Answer a message."""
        # Functions are called with seeded generators; the state is restored afterwards. A model's own draws are its
        # own business.
        is_of_model = message["op"].startswith("model")
        if message["op"] == "model_open":
            self._models.append(len(_models._served))
        with _nothing() if is_of_model else _preserved_random_state():
            outer = getattr(_serving, "objects", None)
            _serving.objects = self.objects
            self.is_calling = True
            try:
                super().serve(message)
            finally:
                self.is_calling = False
                _serving.objects = outer

    @property
    def model(self) -> int | None:
        """The handle of this session's model, if it is in this process."""
        return self._models[-1] if self._models else None

    def opened(self, served: _models.Served) -> None:
        """Evaluate a model that is distributed over several processes from the first of them."""
        if _distributed.size_of(served.lm) == 1:
            return
        group = _distributed.Group(served.lm)
        if group.rank > 0:
            group.follow()
            raise _distributed.Finished
        served.share = group.distribute
        self._groups.append(group)

    def release(self) -> None:
        """Release the models of this session."""
        while self._groups:
            self._groups.pop().dismiss()
        for handle in reversed(self._models):
            served = _models._served.get(handle)
            if served is not None:
                served.release()
            # Handles are indices, so the slot stays.
            _models._served[handle] = None  # type: ignore[assignment]
        self.objects.release()
        # A function of a task's folder may have been the last one.
        self.loader.enter("")

    def fail(self, error: BaseException) -> None:
        """Store an exception and send it."""
        if isinstance(error, _distributed.Finished):
            raise error
        self.raised.append((_worker._traceback(error), error))
        super().fail(error)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _preserved_random_state() -> Iterator[None]:
    """Restore the state of the global random number generators afterwards."""
    restore: list[Callable[[], None]] = []
    if "random" in sys.modules:
        random = sys.modules["random"]
        state = random.getstate()
        restore.append(lambda: random.setstate(state))
    if "numpy.random" in sys.modules:
        numpy = sys.modules["numpy.random"]
        numpy_state = numpy.get_state()
        restore.append(lambda: numpy.set_state(numpy_state))
    try:
        yield
    finally:
        for put_back in restore:
            put_back()
