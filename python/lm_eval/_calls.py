"""Worker operations that call task functions."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lm_eval import _dataset
from lm_eval._random import DRAWS, seed

if TYPE_CHECKING:
    from lm_eval._worker import Worker


def _load(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(f"`{message['function'][1]}` is not a function but a value of type `{kind}`")
    yield {"name": getattr(function, "__name__", None), "class": isinstance(function, type)}


def _call(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    for arguments in message["calls"]:
        if not message.get("watch"):
            yield DRAWS.run(function, arguments)
            continue
        before = _snapshot(arguments[0])
        value = DRAWS.run(function, arguments)
        yield [value] if _snapshot(arguments[0]) == before else [value, arguments[0]]


def _snapshot(document: Any) -> bytes | str:
    """Return a serialisation that shows whether a document has changed."""
    try:
        # From version 3 on, `marshal` writes equal values differently when other names refer to them.
        return marshal.dumps(document, 2)
    except ValueError:
        return repr(document)


def _metric(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    for references, predictions, kwargs in message["calls"]:
        _seed((references, predictions))
        yield _metric_of(function).compute(references, _predictions(predictions), **kwargs)


def _process_docs(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    split = _dataset.make(message["documents"], message["columns"], message.get("features"))
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
    """Yield the answers to all requests, with the document of each."""
    documents = message["documents"]
    return message["responses"], [documents[index] for index in message["places"]]


def _metric_of(function: Any) -> Any:
    """Return the function as a metric that knows its own calling convention."""
    owner, known = _metrics.get(id(function), (None, None))
    if owner is not function:
        from lm_eval.api.metrics.metric import Metric, RegisteredMetric

        called = function.fn if isinstance(function, RegisteredMetric) else function
        known = called if isinstance(called, Metric) else Metric(name="function", fn=called)
        _metrics[id(function)] = (function, known)
    return known


_metrics: dict[int, tuple[Any, Any]] = {}
"""Each function, which stays alive here, and its metric, by the id of the function."""


def _predictions(value: Any) -> Any:
    """Return the arguments of a metric: generated answers as they are, log-likelihoods as one object."""
    if not isinstance(value, dict):
        return value
    from lm_eval.api.metrics.results import LLResults, array

    pairs = list(zip(value["lls"], value["is_greedy"]))
    value["lls"], value["lls_mutual_info"] = array(value["lls"]), array(value["lls_mutual_info"])
    return LLResults(results=[[pair] for pair in pairs], **value)


def _seed(arguments: Any) -> None:
    """Seed the generators by a function's arguments alone, so that the worker it runs in makes no difference."""
    seed(arguments)


def _seed_all() -> None:
    """Seed the generators for a whole split with the default seeds of a run."""
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
