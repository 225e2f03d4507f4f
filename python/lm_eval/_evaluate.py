"""The module that `import evaluate` finds in a worker.

Metrics that run generated code, and those that need no package, are ours; for all others the installed package
`evaluate` is imported on first use.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any

from lm_eval._code import CodeEval

NAME = "evaluate"


class ExactMatch:
    """The metric `exact_match`: the share of predictions that equal their references."""

    name = "exact_match"

    def compute(self, *, predictions: Any, references: Any, **options: Any) -> dict[str, float]:
        """Return the share, after removing from both sides what the options say to ignore."""
        from lm_eval.api.metrics import exact_match_fn
        from lm_eval.api.metrics._numeric import pairwise_sum

        matches = exact_match_fn(list(references), list(predictions), **options)["exact_match"]
        return {"exact_match": pairwise_sum(matches) / len(matches) if matches else float("nan")}


_OWN: dict[str, type] = {"code_eval": CodeEval, "exact_match": ExactMatch}


class _Module(types.ModuleType):
    """Replaces the package until something other than our metrics is used."""

    __lm_eval__ = True

    def __getattr__(self, name: str) -> Any:
        # The import system looks for submodules in `__path__`, even before `load` exists.
        if name.startswith("__") and (name != "__path__" or "load" not in self.__dict__):
            raise AttributeError(name)
        package = _package()
        if package is None:
            raise AttributeError(f"`{NAME}.{name}` needs the package `{NAME}`", name=name, obj=self)
        return getattr(package, name)


def load(path: str, *arguments: Any, **options: Any) -> Any:
    """Return the metric of a name."""
    if path in _OWN:
        return _OWN[path]()
    package = _package()
    if package is None:
        raise ModuleNotFoundError(f"The metric `{path}` needs the package `{NAME}`", name=NAME)
    return package.__lm_eval_load__(path, *arguments, **options)


def find(name: str) -> Any:
    """Return a metric as the installed package computes it; `None` without the package or the metric's files.

    Nothing is downloaded: the metric must be a local script, or in the cache.
    """
    package = None if name in _OWN else _package()
    if package is None:
        return None
    try:
        with _offline(package):
            module = package.__lm_eval_load__(name, keep_in_memory=True)
    except FileNotFoundError:
        return None
    from lm_eval.api.metrics.metric import RegisteredMetric

    label = name.rstrip("/").rpartition("/")[2].removesuffix(".py")

    def compute(references: Any, predictions: Any, **options: Any) -> Any:
        """Return the score of one document."""
        wanted, answers = _listed(references), _listed(predictions)
        if len(wanted) != len(answers):
            if len(answers) != 1 or not _takes_several(module):
                raise ValueError(
                    f"The metric `{name}` of the package `{NAME}` takes one reference per answer but got "
                    f"{len(wanted)} for {len(answers)}; choose one in a task function: "
                    "`metric: !function module.name`"
                )
            wanted = [wanted]
        computed = module.compute(references=wanted, predictions=answers, **options)
        if not isinstance(computed, dict):
            return computed
        if label in computed:
            return computed[label]
        if len(computed) == 1:
            return next(iter(computed.values()))
        raise ValueError(
            f"The metric `{name}` of the package `{NAME}` returns {', '.join(map(repr, computed))}, none of which "
            "is named like the metric; pick one in a task function: `metric: !function module.name`"
        )

    return RegisteredMetric(
        name=name,
        fn=compute,
        higher_is_better=None,  # type: ignore[arg-type]
        aggregation=None,
        reduction=None,
        output_type=frozenset({"generate_until"}),
    )


def _takes_several(module: Any) -> bool:
    """Whether a metric takes a list of references for each answer."""
    features = module.features if isinstance(module.features, list) else [module.features]
    kinds = (type(feature.get("references")).__name__ for feature in features)
    return any(kind in ("Sequence", "List", "LargeList", "list") for kind in kinds)


@contextlib.contextmanager
def _offline(package: Any) -> Iterator[None]:
    """Keep the package, and the hub client it uses, off the network meanwhile."""
    settings = [(package.config, "HF_EVALUATE_OFFLINE")]
    if "huggingface_hub.constants" in sys.modules:
        settings.append((sys.modules["huggingface_hub.constants"], "HF_HUB_OFFLINE"))
    before = [(module, name, getattr(module, name, False)) for module, name in settings]
    for module, name in settings:
        setattr(module, name, True)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _package() -> Any:
    """Return the installed package with `load` replaced by ours; `None` if it is not installed."""
    present = sys.modules.get(NAME)
    if present is not None and not isinstance(present, _Module):
        if not hasattr(present, "__lm_eval_load__"):
            present.__lm_eval_load__ = present.load  # type: ignore[attr-defined]
        return present
    sys.modules.pop(NAME, None)
    _FINDER.is_active = False
    try:
        if importlib.util.find_spec(NAME) is None:
            return None
        package: Any = importlib.import_module(NAME)
    finally:
        _FINDER.is_active = True
        if NAME not in sys.modules and present is not None:
            sys.modules[NAME] = present
    package.__lm_eval_load__ = package.load
    package.load = load
    return package


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds our module before the package."""

    is_active = True

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == NAME and self.is_active else None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["load"] = load


_FINDER = _Finder()


def install() -> None:
    """Make code that is imported from now on use our metrics."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
