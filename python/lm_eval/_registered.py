"""The operations of a worker that find and use what Python code has registered.

A reference `registry:KIND/NAME` means an entry of a registry, `registry:KIND@PATH/NAME` what its attributes, items and
keys lead to, such as `registry:metric@aggregation/my_metric`. The folder of a reference is that of the task whose code
registers the name; without one, the name is that of a plug-in.
"""

from __future__ import annotations

import logging
import os
import random
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lm_eval._protocol import Reference

if TYPE_CHECKING:
    from lm_eval._loader import Loader
    from lm_eval._worker import Worker
    from lm_eval.api.registry import Registry

logger = logging.getLogger(__name__)

SCHEME = "registry"
"""The scheme of references to registered things."""


def finder(loader: Loader) -> Any:
    """Return what finds the object of a reference, given a folder and what follows the scheme."""

    def find(directory: str, rest: str) -> Any:
        place, _, name = rest.partition("/")
        kind, _, path = place.partition("@")
        found = _look_up(loader, kind, name, [directory] if directory else [], True)
        if found is None:
            raise KeyError(_registry(kind)._unknown(name))
        target = found[1]
        for step in path.split(".") if path else ():
            target = _step(target, step)
        return target

    return find


def _step(target: Any, step: str) -> Any:
    if isinstance(target, Mapping):
        return target[step]
    return target[int(step)] if isinstance(target, (list, tuple)) else getattr(target, step)


def _registry(kind: str) -> Registry[Any]:
    from lm_eval.api import registry

    return registry._REGISTRIES[kind]


def _look_up(
    loader: Loader, kind: str, name: str, folders: list[str], whole: bool
) -> tuple[str, Any] | None:
    """Return the folder and the entry of a name: of plug-ins, else of the first folder that registers it.

    Of a folder, the modules that mention the name are imported and, where none does and `whole` asks for it,
    `utils.py`. Without `whole` the name has a meaning already, and a module must mention it as a word of its own.
    """
    table = _registry(kind)
    loader.enter("")
    found = _own(table, name)
    if found is not None:
        return "", found
    for folder in folders:
        for module in _modules(folder, name, whole):
            loader.resolve(folder, f"{module}.__name__")
            found = _own(table, name)
            if found is not None:
                return folder, found
    return None


def _own(table: Registry[Any], name: str) -> Any:
    """Return the entry of a name unless it is built in."""
    from lm_eval.api.registry import _is_builtin

    found = table.get(name, None)
    return None if found is None or _is_builtin(found) else found


def _modules(folder: str, name: str, whole: bool) -> list[str]:
    """Return the modules of a folder that may register the name."""
    try:
        files = [file for file in sorted(os.listdir(folder)) if file.endswith(".py")]
    except OSError:
        return []
    files.sort(key=lambda file: file != "utils.py")
    if not whole:
        files += _helpers(folder)
    mentioned = [file for file in files if _mentions(os.path.join(folder, file), name, not whole)]
    if not mentioned and whole and "utils.py" in files:
        mentioned = ["utils.py"]
    return [file[: -len(".py")].replace(os.sep, ".") for file in mentioned]


def _helpers(folder: str) -> list[str]:
    """Return the modules in folders of the folder that hold no tasks of their own."""
    found = []
    for inside in sorted(os.listdir(folder)):
        path = os.path.join(folder, inside)
        files = sorted(os.listdir(path)) if os.path.isdir(path) else []
        if not any(file.endswith(".yaml") for file in files):
            found += [os.path.join(inside, file) for file in files if file.endswith(".py")]
    return found


def _mentions(path: str, name: str, as_word: bool) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    if as_word:
        return "regist" in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
    return "register_" in text and name in text


def _find(worker: Worker, _: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Answers what a name stands for, or which names are known instead."""
    kind, name, folders = message["kind"], message["name"], message["folders"]
    found = _look_up(worker.loader, kind, name, folders, message["whole"])
    if found is None:
        yield {"known": _known(worker.loader, kind, folders)}
        return
    folder, entry = found
    _say_replaced(worker, kind, name, folder)
    facts = _FACTS.get(kind, lambda *_: {})(entry, folder, name)
    yield {"function": Reference(folder, f"{SCHEME}:{kind}/{name}"), "facts": facts}


def _say_replaced(worker: Worker, kind: str, name: str, folder: str) -> None:
    """Say once that the tasks of a folder use an entry of their own in place of a built-in one.

    Importing a module is not enough to say so: only a name that a task uses and that was found is replaced.
    """
    from lm_eval.api.registry import _is_builtin

    table = _registry(kind)
    built_in = table._entries.get(name)
    said = (kind, name, folder)
    if not folder or built_in is None or said in worker.replaced:
        return
    if isinstance(built_in, str) or _is_builtin(built_in):
        worker.replaced.add(said)
        logger.warning("The %s `%s` of `%s` replaces the built-in one for the tasks of that folder", kind, name, folder)


def _known(loader: Loader, kind: str, folders: list[str]) -> list[str]:
    """Return the names that plug-ins and the modules of folders have registered so far."""
    table = _registry(kind)
    names: dict[str, None] = {}
    for folder in ["", *folders]:
        loader.enter(folder)
        names.update((name, None) for name in table if _own(table, name) is not None)
    return list(names)


def _metric_facts(entry: Any, folder: str, name: str) -> dict[str, Any]:
    return {
        "higher_is_better": entry.higher_is_better,
        "output_type": sorted(entry.output_type),
        **_parts(entry, folder, f"metric@{{}}/{name}"),
    }


def _parts(entry: Any, folder: str, template: str) -> dict[str, Any]:
    """Return the aggregation and the reduction of a metric: names, references, or `None`."""
    parts = {}
    for kind in ("aggregation", "reduction"):
        part = getattr(entry, kind)
        parts[kind] = _named(kind, part) if callable(part) else part
        if parts[kind] is None and callable(part):
            parts[kind] = Reference(folder, f"{SCHEME}:{template.format(kind)}")
    return parts


def _named(kind: str, function: Any) -> str | None:
    """Return the name of a function that is built in, which the engine has, too."""
    from lm_eval.api.metrics.corpus import CorpusMetric
    from lm_eval.api.registry import _is_builtin

    if kind == "reduction" and getattr(function, "__func__", None) is CorpusMetric.reduce:
        return "take_first"
    table = _registry(kind)
    return next((name for name, known in table.items() if known is function and _is_builtin(known)), None)


def _scorer_facts(entry: Any, folder: str, name: str) -> dict[str, Any]:
    return {
        "tier": _tier(entry),
        "filters": _filter_entries(entry.default_filter_cfg, folder, name),
        "metrics": _metric_entries(entry.default_metric_cfg, folder, name),
    }


def _tier(scorer: type[Any]) -> str:
    """Return what a scorer has code for: nothing, single documents, or all documents at once."""

    def is_own(*methods: str) -> bool:
        functions = (getattr(scorer, method, None) for method in methods)
        return any(not getattr(f, "__module__", "").startswith("lm_eval.scorers.") for f in functions if f)

    if is_own("score_instances"):
        return "batch"
    return "document" if is_own("score", "score_doc", "_extract_inputs", "_dispatch_metrics") else "config"


def _filter_entries(entries: Any, folder: str, name: str) -> list[dict[str, Any]] | None:
    """Return the filters of a scorer as task files write them."""
    if entries is None:
        return None
    from lm_eval.config.task import normalize_step

    steps = []
    for index, entry in enumerate(entries):
        path = f"scorer@default_filter_cfg.{index}"
        if isinstance(entry, Mapping):
            step = normalize_step(entry)
            path += ".function"
        else:
            step = {"function": entry, "kwargs": {}}
        steps.append({**step, **_referred(step, folder, name, ("function",), path)})
    return steps


_ENTRY_KEYS = ("metric", "aggregation", "reduction", "higher_is_better", "kwargs")


def _metric_entries(entries: Any, folder: str, name: str) -> list[dict[str, Any]] | None:
    """Return the metrics of a scorer as task files write them; of records, with what the engine must know."""
    if entries is None:
        return None
    from lm_eval.api.metrics.metric import Metric

    metrics = []
    for index, entry in enumerate(entries):
        path = f"scorer@default_metric_cfg.{index}"
        if isinstance(entry, Metric):
            metrics.append(
                {
                    "record": entry.name,
                    "function": Reference(folder, f"{SCHEME}:{path}/{name}"),
                    "kwargs": dict(entry.kwargs),
                    "higher_is_better": entry.higher_is_better,
                    **_parts(entry, folder, f"{path}.{{}}/{name}"),
                }
            )
        elif isinstance(entry, Mapping):
            keys = ("metric", "aggregation", "reduction")
            written = {**entry, **_referred(entry, folder, name, keys, f"{path}.{{}}")}
            if callable(entry.get("metric")):
                flat = {key: value for key, value in entry.items() if key not in _ENTRY_KEYS}
                written["kwargs"] = {**flat, **entry.get("kwargs", {})}
                written["record"] = getattr(entry["metric"], "__name__", "metric(undefined)")
                written["function"] = written.pop("metric")
            metrics.append(written)
        else:
            raise TypeError(f"A metric is a mapping or a `Metric`, not {entry!r}")
    return metrics


def _referred(
    entry: Mapping[str, Any], folder: str, name: str, keys: tuple[str, ...], template: str
) -> dict[str, Any]:
    """Return those of the keys whose values are functions or classes, with references in their place."""
    return {
        key: Reference(folder, f"{SCHEME}:{template.format(key)}/{name}")
        for key in keys
        if callable(entry.get(key))
    }


_FACTS = {"metric": _metric_facts, "scorer": _scorer_facts}


def _resample(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yields, for each seed, what the function gives for resamples of the values.

    The draws are those of `random.Random(seed).choices`.
    """
    values, count = message["values"], message["count"]
    for seed in message["seeds"]:
        random.seed(seed)
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed(seed)
        generator = random.Random(seed)
        size = len(values)
        yield [function(generator.choices(values, k=size)) for _ in range(count)]


def _scorer(worker: Worker, scorer: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Makes the scorer of a pipeline, so that wrong arguments show before anything is sent to a model."""
    _scorer_of(worker, scorer, message)
    yield None


def _scorer_of(worker: Worker, scorer: Any, message: dict[str, Any]) -> Any:
    config = message["pipeline"]
    key = repr((message["function"], config))
    made = worker.scorers.get(key)
    if made is None:
        made = scorer.from_dict(
            {"name": config["name"], "metric_list": config["metric_list"]},
            config["output_type"],
            **config["kwargs"],
        )
        worker.scorers[key] = made
    return made


def _score(worker: Worker, scorer: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yields the scores of each document, in their order."""
    made = _scorer_of(worker, scorer, message)
    made.context = message["context"]
    instances = {
        document["doc_id"]: [_instance(request, document, made.name) for request in document["requests"]]
        for document in message["documents"]
    }
    if message["batch"]:
        scored = made.score_instances(instances)
        strange = [doc_id for doc_id in scored if doc_id not in instances]
        if strange:
            raise KeyError(f"`score_instances` gave scores for unknown documents: {strange[:5]}")
        for doc_id in instances:
            yield _scores(scored[doc_id]) if doc_id in scored else None
        return
    for doc_id, requests in instances.items():
        yield _scores(made.score_doc(doc_id, requests))


def _instance(request: dict[str, Any], document: dict[str, Any], pipeline: str) -> Any:
    from lm_eval.api.instance import Instance

    filtered = request.pop("filtered")
    return Instance(
        **request, doc=document["doc"], doc_id=document["doc_id"], filtered_resps={pipeline: filtered}
    )


def _scores(scored: Any) -> dict[str, Any]:
    """Return what the engine needs of a `ScoredDoc`; what is no list is the one value of its document."""
    scores = scored.scores
    if not isinstance(scores, Mapping):
        raise TypeError(f"scores must be a dictionary of metrics, not a value of type `{type(scores).__name__}`")
    lists = {name: list(v) if isinstance(v, list) else [v] for name, v in scores.items()}
    return {"reference": scored.reference, "scores": lists}


OPERATIONS = {
    "registered": _find,
    "resample": _resample,
    "scorer": _scorer,
    "score": _score,
}
