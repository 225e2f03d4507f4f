"""The operations of a worker that call functions of tasks."""

from __future__ import annotations

import functools
import inspect
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lm_eval import _dataset

if TYPE_CHECKING:
    from lm_eval._worker import Worker


def _load(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(f"`{message['function'][1]}` is no function but a value of type `{kind}`")
    yield {"name": getattr(function, "__name__", None), "class": isinstance(function, type)}


def _call(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    for arguments in message["calls"]:
        _seed(arguments)
        yield function(*arguments)


def _metric(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    for references, predictions, kwargs in message["calls"]:
        _seed((references, predictions))
        yield _call_metric(function, references, predictions, kwargs)


def _process_docs(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    split = _dataset.make(message["documents"], message["columns"])
    _seed_all()
    yield _dataset.documents(function(split))


def _documents(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    _seed_all()
    yield _dataset.documents(function())


def _splits(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    _seed_all()
    splits = function(**message["kwargs"])
    if not isinstance(splits, Mapping):
        raise TypeError(f"expected a dictionary of splits, found a value of type `{type(splits).__name__}`")
    yield {str(name): _dataset.documents(split) for name, split in splits.items()}


def _filter(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    _seed(message["responses"])
    yield list(function(*_answers(message)))


def _filter_class(worker: Worker, made: Any, message: dict[str, Any]) -> Iterator[Any]:
    key = repr((message["function"], message["kwargs"]))
    instance = worker.filters.get(key)
    if instance is None:
        instance = worker.filters[key] = made(**message["kwargs"])
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


OPERATIONS = {
    "load": _load,
    "call": _call,
    "metric": _metric,
    "process_docs": _process_docs,
    "documents": _documents,
    "splits": _splits,
    "filter": _filter,
    "filter_class": _filter_class,
}
