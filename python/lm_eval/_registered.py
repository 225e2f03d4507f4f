"""Worker operations that find and use the classes and functions registered by Python code.

The reference `registry:KIND/NAME` names a registry entry, `registry:KIND@PATH/NAME` an attribute, item or key below
it, such as `registry:metric@aggregation/my_metric`. The folder of a reference is that of the task whose code
registers the name; an empty folder means a plug-in.
"""

from __future__ import annotations

import logging
import os
import random
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lm_eval import _evaluate
from lm_eval._protocol import Reference

if TYPE_CHECKING:
    from lm_eval._loader import Loader
    from lm_eval._worker import Worker
    from lm_eval.api.registry import Registry

logger = logging.getLogger(__name__)

SCHEME = "registry"
"""The scheme of references to registry entries."""

_EVALUATE = "evaluate"
"""The kind of metrics from the package `evaluate`."""


def finder(loader: Loader) -> Any:
    """Return a resolver of references, called with a folder and the part after the scheme."""

    def find(directory: str, rest: str) -> Any:
        target, _, name = rest.partition("/")
        kind, _, path = target.partition("@")
        found = _look_up(loader, kind, name, [directory] if directory else [], True)
        if found is None:
            raise KeyError(name if kind == _EVALUATE else _registry(kind)._unknown(name))
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
    """Return the folder and the entry of a name: from plug-ins, or else from the first folder that registers it.

    In a folder, the modules that mention the name are imported; if none does and `whole` is set, `utils.py` is.
    Without `whole` the name already has a meaning, and a module must mention it as a separate word.
    """
    if kind == _EVALUATE:
        made = _evaluate.find(name)
        return None if made is None else ("", made)
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
    """Return the entry of a name, unless it is built in."""
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
    """Return the modules in subfolders that contain no task files."""
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
    """Yield the entry of a name, or else the names that are known."""
    kind, name, folders = message["kind"], message["name"], message["folders"]
    found = _look_up(worker.loader, kind, name, folders, message["whole"])
    if found is None:
        yield {"known": [] if kind == _EVALUATE else _known(worker.loader, kind, folders)}
        return
    folder, entry = found
    _warn_replaced(worker, kind, name, folder)
    facts = _FACTS.get(kind, lambda *_: {})(entry, folder, name)
    yield {"function": Reference(folder, f"{SCHEME}:{kind}/{name}"), "facts": facts}


def _warn_replaced(worker: Worker, kind: str, name: str, folder: str) -> None:
    """Warn once that a folder's entry replaces a built-in one for the tasks of that folder.

    Importing a module is not enough: only a name that a task uses is replaced.
    """
    from lm_eval.api.registry import _is_builtin

    key = (kind, name, folder)
    if not folder or key in worker.replaced:
        return
    built_in = _registry(kind)._entries.get(name)
    if built_in is None:
        return
    if isinstance(built_in, str) or _is_builtin(built_in):
        worker.replaced.add(key)
        logger.warning("The %s `%s` of `%s` replaces the built-in one for tasks in that folder", kind, name, folder)


def _known(loader: Loader, kind: str, folders: list[str]) -> list[str]:
    """Return the names that plug-ins and folder modules have registered so far."""
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
    """Return the name of a built-in function, which the engine has too."""
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


def _is_own(scorer: type[Any], *names: str) -> bool:
    """Whether a scorer class, or a base class outside this package, defines any of these attributes."""

    def is_ours(module: str | None) -> bool:
        return (module or "").startswith("lm_eval.scorers.")

    for name in names:
        home = next((base for base in scorer.__mro__ if name in vars(base)), None)
        if home is None or home is object:
            continue
        defined = vars(home)[name]
        code = getattr(defined, "fget", None) or getattr(defined, "__func__", defined)
        if not is_ours(home.__module__) or not is_ours(getattr(code, "__module__", home.__module__)):
            return True
    return False


def _tier(scorer: type[Any]) -> str:
    """Return what a scorer's own code scores: nothing, single documents, or all documents at once."""
    if _is_own(scorer, "score_instances"):
        return "batch"
    own = _is_own(scorer, "score", "score_doc", "_extract_inputs", "_dispatch_metrics")
    return "document" if own else "config"


_STEPS = {
    "apply_filter": ("apply_filter",),
    "reduce": ("reduce", "_reduce_doc", "set_results"),
    "aggregate": ("aggregate", "_aggregation"),
    "higher_is_better": ("higher_is_better",),
}
"""Pipeline steps other than scoring, with the methods that can change them."""


def _own_steps(scorer: type[Any]) -> list[str]:
    """Return the steps for which a scorer has its own code."""
    return [step for step, methods in _STEPS.items() if _is_own(scorer, *methods)]


def _filter_entries(entries: Any, folder: str, name: str) -> list[dict[str, Any]] | None:
    """Return the filters of a scorer in task file form."""
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
    """Return the metrics of a scorer in task file form; `Metric` objects with the facts that the engine needs."""
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
    """Return the keys whose values are functions or classes, with those values replaced by references."""
    return {
        key: Reference(folder, f"{SCHEME}:{template.format(key)}/{name}")
        for key in keys
        if callable(entry.get(key))
    }


_FACTS = {"metric": _metric_facts, _EVALUATE: _metric_facts, "scorer": _scorer_facts}


def _resample(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yield, for each seed, the function's values for resamples of the data.

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
    """Make the scorer of a pipeline, so that invalid arguments fail before any request is sent.

    The answer lists the steps that the scorer implements itself, which the engine leaves to it.
    """
    made = _scorer_of(worker, scorer, message)
    steps = _own_steps(scorer)
    if _makes_itself(scorer):
        changed = _changed(made, _config(scorer, message["pipeline"]), message["pipeline"]["output_type"])
        steps.extend(step for step in changed if step not in steps)
    yield {"own": steps}


def _makes_itself(scorer: type[Any]) -> bool:
    """Whether a scorer has code that can choose other filters and metrics than its configuration names."""
    if _is_own(scorer, "from_dict", "__post_init__", "_build_metrics"):
        return True
    # Constructors generated by `@dataclass` have no source file.
    code = getattr(scorer.__init__, "__code__", None)
    return _is_own(scorer, "__init__") and getattr(code, "co_filename", "") != "<string>"


def _changed(made: Any, config: dict[str, Any], output_type: str) -> list[str]:
    """Return the steps for which a self-configuring scorer has chosen something other than its configuration."""
    from lm_eval.scorers._base import Scorer

    unbound: Any = Scorer.from_dict
    usual = unbound.__func__(type("Usual", (Scorer,), _defaults(made)), config, output_type)

    def filters(scorer: Any) -> list[Any]:
        return [
            (_definition(getattr(make, "func", make)), getattr(make, "keywords", {}))
            for make in getattr(scorer.filter, "filters", ())
        ]

    def metrics(scorer: Any) -> list[Any]:
        parts = ("fn", "aggregation", "reduction")
        return [
            (one.name, one.kwargs, one.higher_is_better, [_definition(getattr(one, part)) for part in parts])
            for one in scorer.metrics or ()
        ]

    changed = []
    if made.name != usual.name or filters(made) != filters(usual):
        changed.append("apply_filter")
    if metrics(made) != metrics(usual):
        changed.extend(["score", "reduce", "aggregate", "higher_is_better"])
    return changed


def _definition(function: Any) -> Any:
    """Return a key for a function: where it is defined, or the function itself where that is not enough."""
    identity = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return function if None in identity else identity


def _defaults(made: Any) -> dict[str, Any]:
    return {name: getattr(type(made), name) for name in ("default_filter_cfg", "default_metric_cfg")}


def _config(scorer: type[Any], pipeline: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a pipeline in the form `from_dict` takes.

    Code that only scores is given how values are computed; the rest, which may name things that exist only in the
    engine, is for code that can use it.
    """
    steps = _own_steps(scorer)
    metrics = pipeline["metric_list"]
    config = {"name": pipeline["name"]}
    if not steps and not _makes_itself(scorer):
        keys = ("metric", "kwargs")
        return {**config, "metric_list": [{key: entry[key] for key in keys} for entry in metrics]}
    needed = {"reduction": bool(steps), "aggregation": bool(steps)}
    return {
        **config,
        "filter": [step for step in pipeline["filter"] if "apply_filter" in steps or _is_known("filter", step)],
        "metric_list": [
            {key: value for key, value in entry.items() if needed.get(key, True) or _is_known(key, value)}
            for entry in metrics
        ],
    }


def _is_known(kind: str, value: Any) -> bool:
    name = value["function"] if isinstance(value, Mapping) else value
    return not isinstance(name, str) or _registry(kind).get(name, None) is not None


def _scorer_of(worker: Worker, scorer: Any, message: dict[str, Any]) -> Any:
    config = message["pipeline"]
    key = repr((message["function"], config))
    made = worker.scorers.get(key)
    if made is None:
        from lm_eval.scorers._base import _from_dict

        made = _from_dict(scorer, _config(scorer, config), config["output_type"], config["kwargs"])
        worker.scorers[key] = made
    return made


def _apply_filter(worker: Worker, scorer: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yield, for each document, the answers as filtered by the scorer's own `apply_filter`, one entry per request."""
    made = _scorer_of(worker, scorer, message)
    documents = [
        [_instance(request, document, made.name) for request in document["requests"]]
        for document in message["documents"]
    ]
    instances = [instance for requests in documents for instance in requests]
    for instance in instances:
        instance.filtered_resps = {}
    made.apply_filter(instances)
    for requests in documents:
        missing = next((one for one in requests if made.name not in one.filtered_resps), None)
        if missing is not None:
            raise KeyError(
                f"`apply_filter` set no `filtered_resps[{made.name!r}]` for request {missing.idx} "
                f"of document {missing.doc_id}"
            )
        yield [instance.filtered_resps[made.name] for instance in requests]


def _reduce(worker: Worker, scorer: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yield each document's values after reduction; the scorer stores them, as well as those before it."""
    from lm_eval.scorers import ScoredDoc

    made = _scorer_of(worker, scorer, message)
    scored = {one["doc_id"]: ScoredDoc(**one) for one in message["scored"]}
    made.set_results(scored)
    reduced = made.reduced_docs
    for doc_id in scored:
        yield dict(reduced[doc_id]) if doc_id in reduced else {}


def _aggregate(worker: Worker, scorer: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yield the scores over all documents, with the number of documents."""
    from lm_eval.scorers._base import _takes

    made = _reduced(worker, scorer, message)
    iterations = message["bootstrap_iters"]
    options = {"bootstrap_iters": iterations} if _takes(made.aggregate, "bootstrap_iters") else {}
    result = made.aggregate(made.reduced_docs, **options)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Mapping)):
        raise TypeError(f"`aggregate` must return a dictionary of scores and a number of documents, not {result!r}")
    yield {"metrics": dict(result[0]), "sample_len": int(result[1])}


def _directions(worker: Worker, scorer: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yield whether higher is better, by metric."""
    yield dict(_reduced(worker, scorer, message).higher_is_better)


def _reduced(worker: Worker, scorer: Any, message: dict[str, Any]) -> Any:
    """Return the scorer, loaded with the values in the message."""
    made = _scorer_of(worker, scorer, message)
    reduced = dict(message["reduced"])
    if made.reduced_docs.keys() != reduced.keys():
        made.import_reduced(reduced)
    return made


def _score(worker: Worker, scorer: Any, message: dict[str, Any]) -> Iterator[Any]:
    """Yield the scores of each document, in order."""
    made = _scorer_of(worker, scorer, message)
    made.context = message["context"]
    instances = {
        document["doc_id"]: [_instance(request, document, made.name) for request in document["requests"]]
        for document in message["documents"]
    }
    if message["batch"]:
        scored = made.score_instances(instances)
        unknown = [doc_id for doc_id in scored if doc_id not in instances]
        if unknown:
            raise KeyError(f"`score_instances` returned scores for unknown documents: {unknown[:5]}")
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
    """Return the parts of a `ScoredDoc` that the engine needs; a bare value is its document's only one."""
    scores = scored.scores
    if not isinstance(scores, Mapping):
        raise TypeError(f"scores must be a dictionary of metrics, not a value of type `{type(scores).__name__}`")
    lists = {name: list(v) if isinstance(v, list) else [v] for name, v in scores.items()}
    return {"reference": scored.reference, "scores": lists}


OPERATIONS = {
    "registered": _find,
    "resample": _resample,
    "scorer": _scorer,
    "apply_filter": _apply_filter,
    "score": _score,
    "reduce": _reduce,
    "aggregate": _aggregate,
    "directions": _directions,
}
