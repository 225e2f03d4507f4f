"""Objects of this process that the engine knows by reference: functions, classes, tasks and models."""

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
        """The parameters of the function, which decide how metrics call it."""
        try:
            return inspect.signature(self.resolve())
        except Exception as error:
            raise AttributeError(f"`{self.reference}` has no signature that can be read") from error

    def resolve(self) -> Any:
        """Return the object that the reference means."""
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
    """The objects of one conversation with the engine."""

    def __init__(self) -> None:
        self.needs_identity = True
        """Whether answers are kept, and nothing but the model itself tells it from others."""
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
            # The list keeps the object, so that no other gets its number.
            self._objects.append(target)
            self._known[id(target)] = known
        return known

    def find(self, directory: str, rest: str) -> Any:
        """Return the object of a reference, given what follows the scheme."""
        return self._objects[int(rest.partition(".")[0])]

    def function(self, directory: str, reference: str) -> Any:
        """Return the function that a result refers to: an object of this process, or one of a task file."""
        scheme, _, rest = reference.partition(":")
        return self.find(directory, rest) if scheme == SCHEME else TaskFunction(directory, reference)

    def text(self, directory: str, reference: str) -> str:
        """Return how results show a function: the source of one of this process, else its reference."""
        from lm_eval.config._callables import serialize_function

        scheme, _, rest = reference.partition(":")
        return serialize_function(self.find(directory, rest)) if scheme == SCHEME else reference

    def shown(self, value: Any) -> Any:
        """Return a configuration in which the source stands for references to objects of this process."""
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
        """Return a value in which functions, classes and other callable things are references."""
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
"""What the thread that answers a call can ask the engine through."""


def _load_dataset(path: str | None, name: str | None = None, **options: Any) -> Any:
    """Return the splits of a data set, from the engine that waits for this thread."""
    objects = getattr(_serving, "objects", None)
    if objects is None:
        # This leads to the library, where it is installed.
        raise _host.EngineError(f"Loading the data set `{path}` in Python needs the package `datasets`")
    return objects._load_dataset(path, name, **options)


def _render(template: str, document: dict[str, Any]) -> str:
    """Return a filled template, from the engine that waits for this thread, else from another one."""
    from lm_eval import _engine

    objects = getattr(_serving, "objects", None)
    if objects is None:
        return str(_engine.ask("render", template=template, document=document))
    return str(objects._render(template, document))


_render.starts_engines = True  # type: ignore[attr-defined]


class Server(_worker.Worker):
    """Answers calls of the engine in the process that called it, and keeps what was raised meanwhile."""

    def __init__(self, channel: Channel, loader: Loader, needs_identity: bool = True) -> None:
        super().__init__(loader, channel)
        self.needs_identity = needs_identity
        self.objects = _class_tasks.Objects(self)
        _host.set_dataset_loader(_load_dataset)
        _host.set_template_renderer(_render)
        self.raised: list[tuple[str, BaseException]] = []
        self.is_calling = False
        self._models: list[int] = []
        self._groups: list[_distributed.Group] = []

    def serve(self, message: dict[str, Any]) -> None:
        """Answer a message."""
        # Functions are called with seeded generators, which must not show in the rest of the program. What a
        # model draws is its own affair.
        is_of_model = message["op"].startswith("model")
        if message["op"] == "model_open":
            self._models.append(len(_models._served))
        with _nothing() if is_of_model else _kept_generators():
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
        """The handle of the model of this conversation, where that is in this process."""
        return self._models[-1] if self._models else None

    def opened(self, served: _models.Served) -> None:
        """Let a model that is spread over several processes be evaluated by the first of them."""
        if _distributed.size_of(served.lm) == 1:
            return
        group = _distributed.Group(served.lm)
        if group.rank > 0:
            group.follow()
            raise _distributed.Finished
        served.share = group.ask
        self._groups.append(group)

    def release(self) -> None:
        """Let go of the models of this conversation."""
        while self._groups:
            self._groups.pop().dismiss()
        for handle in self._models:
            # Handles are counted, so the place stays.
            _models._served[handle] = None  # type: ignore[assignment]

    def fail(self, error: BaseException) -> None:
        """Keep what was raised and send it."""
        if isinstance(error, _distributed.Finished):
            raise error
        self.raised.append((_worker._traceback(error), error))
        super().fail(error)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _kept_generators() -> Iterator[None]:
    """Leave the global generators of random numbers as they were."""
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
