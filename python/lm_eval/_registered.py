"""Finds the classes and functions registered by Python code, and describes them to the engine.

The reference `registry:KIND/NAME` names a registry entry, `registry:KIND@PATH/NAME` an attribute, item or key below
it, such as `registry:metric@aggregation/my_metric`. The folder of a reference is that of the task whose code
registers the name; an empty folder means a plug-in.
"""

from __future__ import annotations

import logging
import os
import re
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

    found = table._entry(name, None)
    return None if found is None or _is_builtin(found) and name not in table._assigned else found


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


OPERATIONS = {"registered": _find}
