"""Registries: make Python code available to task files by name.

Each kind (model, filter, metric, aggregation, reduction, scorer, sampler) has one registry and one decorator::

    @register_metric(metric="my_metric", higher_is_better=True, output_type="generate_until", aggregation="mean")
    def my_metric(references, predictions, **kwargs):
        return 1.0 if predictions == references else 0.0
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lm_eval import _patches, _scope

if TYPE_CHECKING:
    from lm_eval.api.filter import Filter
    from lm_eval.api.metrics.metric import Metric, RegisteredMetric
    from lm_eval.api.model import LM

logger = logging.getLogger(__name__)

T = TypeVar("T")
Decorated = TypeVar("Decorated")

_MISSING: Any = object()
_BUILTIN_MODULES = (
    "lm_eval.api.",
    "lm_eval.filters.",
    "lm_eval.scorers.",
    "lm_eval.scorers",
    "lm_eval.models",
)


def _definition(target: Any) -> tuple[str | None, str | None]:
    """Return the module and qualified name of an object."""
    return getattr(target, "__module__", None), getattr(target, "__qualname__", None)


def _short_name(target: Any) -> str | None:
    """Return the name under which an object is defined, without the scopes around it."""
    qualified_name = _definition(target)[1]
    return None if qualified_name is None else qualified_name.rpartition(".")[2]


def _is_builtin(target: Any) -> bool:
    """Whether an object, or a reference to one, belongs to this package and is as the package defines it."""
    return _is_of_package(target) and not _is_changed(target)


def _is_changed(target: Any) -> bool:
    """Whether a script has changed a class of this package, so that the engine's own version differs from it."""
    if isinstance(target, str):
        module, _, name = target.partition(":")
        # A module that is not imported yet can only inherit changes, those of models.
        if module not in sys.modules and module.startswith("lm_eval.models.") and _patches.has_changed_models():
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        target = getattr(sys.modules.get(module), name, None)
    target = getattr(target, "fn", target)
    kind = target if isinstance(target, type) else type(target)
    return bool(_patches.changed_names(kind) or _patches.changed_helpers(kind))


def _is_of_package(target: Any) -> bool:
    """Whether an object, or a reference to one, belongs to this package."""
    module = target.partition(":")[0] if isinstance(target, str) else _definition(target)[0]
    if module is None:
        module = type(target).__module__
    return module.startswith(_BUILTIN_MODULES)


def _home(target: Any) -> str | None:
    """Return the folder of the file that defines an object."""
    module = sys.modules.get(_definition(target)[0] or "")
    file = getattr(module, "__file__", None)
    return os.path.dirname(os.path.abspath(file)) if isinstance(file, str) else None


class Registry(Generic[T]):
    """A table of named objects of one kind.

    An entry may be the string `module:attribute`, imported on first use. Names registered by the code of a task
    folder are visible only while code of that folder runs, and hide nothing from others.
    """

    def __init__(
        self,
        kind: str,
        *,
        builtins: tuple[str, ...] = (),
        lazy_module: str | None = None,
        keeps_builtins: bool = False,
        present: Callable[[Any], T] | None = None,
    ) -> None:
        """Make an empty table.

        `builtins` are modules that register entries when they are imported, on the first lookup; `lazy_module` is
        one that is imported only if the table is still empty by then. With `keeps_builtins`, a user cannot register
        a built-in name for something else. `present` turns a stored entry into what `get` returns.
        """
        self.kind = kind
        self._builtin_modules = builtins
        self._lazy_module = lazy_module
        self._keeps_builtins = keeps_builtins
        self._present = present
        self._entries: Any = {}
        self._assigned: set[str] = set()
        self._of_folders: dict[str, dict[str, Any]] = {}
        self._lock = threading.RLock()
        self._loaded = not builtins

    def register(self, *names: str, target: Any = None) -> Callable[[Decorated], Decorated]:
        """Return a decorator that registers an object, or register `target` directly under a single name."""
        if target is not None:
            if len(names) != 1:
                raise ValueError(f"Registering a {self.kind} without decorating it takes exactly one name")
            self._store(names[0], target)
            return lambda decorated: decorated

        def decorate(decorated: Decorated) -> Decorated:
            for name in names or (getattr(decorated, "__name__", str(decorated)),):
                self._store(name, decorated)
            return decorated

        return decorate

    def _store(self, name: str, target: Any) -> None:
        """Store an object under a name; a name never silently changes its meaning."""
        with self._lock:
            if isinstance(self._entries, MappingProxyType):
                raise TypeError(f"The {self.kind} registry is frozen")
            builtin = _is_of_package(target)
            if not builtin:
                # A user's registration must not depend on whether the built-in entries are loaded yet.
                self._load_builtins()
            # A task folder may be the first to import this package; built-in entries are visible to everyone.
            known = (self._entries if builtin else self._table(name)).get(name)
            if known is not None and known is not target and known != target:
                self._check_replacement(name, known, target)
            if builtin or not _scope.folder:
                self._entries[name] = target
                return
            # The folder that contains shared code knows the name, too.
            for folder in {_scope.folder, _home(target) or _scope.folder}:
                self._of_folders.setdefault(folder, {})[name] = target

    def add_builtins(self, references: dict[str, str]) -> None:
        """Add references to this package's own entries; names that a user has taken stay the user's."""
        with self._lock:
            for name, reference in references.items():
                self._entries.setdefault(name, reference)

    def _table(self, name: str) -> Any:
        """Return the table to look a name up in: that of the running code's folder, if it has the name."""
        own = self._of_folders.get(_scope.folder, {})
        return own if name in own else self._entries

    def _names(self) -> list[str]:
        """Return all names visible to the running code."""
        return list(dict.fromkeys([*self._entries, *self._of_folders.get(_scope.folder, ())]))

    def _check_replacement(self, name: str, known: Any, target: Any) -> None:
        """Raise unless `target` may replace `known`."""
        module, qualified_name = _definition(target)
        if isinstance(known, str) and known in (
            f"{module}:{qualified_name}",
            f"{module}:{getattr(target, '__name__', None)}",
        ):
            return
        if _is_of_package(known) and not _is_of_package(target):
            if _scope.folder:
                # It is not known here whether a task of the folder uses the name; the lookup warns.
                return
            if self._keeps_builtins and _short_name(known) != _short_name(target):
                raise ValueError(
                    f"The {self.kind} `{name}` is already registered: it is built in. Register `{qualified_name}` "
                    f"under another name, and use that name in the task"
                )
            logger.warning("The %s `%s` from `%s` replaces the built-in one", self.kind, name, module)
            return
        # The same file imported under two module names, or reloaded, defines the same thing again; so do identical
        # copies of a helper in several task folders.
        if qualified_name is not None and _definition(known)[1] == qualified_name:
            logger.info("The %s `%s` is registered again from `%s`", self.kind, name, module)
            return
        raise ValueError(
            f"The {self.kind} `{name}` is already registered ({known!r}) and differs from {target!r}"
        )

    def _load(self) -> None:
        """Import the modules that fill this registry."""
        self._load_builtins()
        lazy_module, self._lazy_module = self._lazy_module, None
        if lazy_module is not None and not self._entries:
            importlib.import_module(lazy_module)

    def _load_builtins(self) -> None:
        """Import the modules that register the built-in entries."""
        if not self._loaded:
            self._loaded = True
            for module in self._builtin_modules:
                importlib.import_module(module)

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """Return the object of a name, or `default`, if given, for an unknown name."""
        found = self._entry(name, default)
        return found if self._present is None or found is default else self._present(found)

    def _entry(self, name: str, default: Any = _MISSING) -> Any:
        """Return the stored entry of a name, imported if it is a reference."""
        with self._lock:
            self._load()
            table = self._table(name)
            found = table.get(name, _MISSING)
            if found is _MISSING:
                if default is not _MISSING:
                    return default
                raise KeyError(self._unknown(name))
            if isinstance(found, str):
                found = _import_reference(found)
                if not isinstance(table, MappingProxyType):
                    table[name] = found
            return found

    def _unknown(self, name: str) -> str:
        """Return the error message for an unknown name."""
        known = sorted(self._names())
        query = str(name).lower()
        near = [other for other in known if query in other.lower() or query[:3] == other.lower()[:3]][:3]
        message = f"`{name}` is not a known {self.kind}"
        if near:
            message += f", did you mean {' or '.join(f'`{other}`' for other in near)}?"
        else:
            message += "."
        more = "…" if len(known) > 20 else ""
        return f"{message} Known names: {', '.join(known[:20])}{more}"

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __setitem__(self, name: str, target: Any) -> None:
        """Replace an entry, whatever it was: scripts assign to `MODEL_REGISTRY[…]`."""
        with self._lock:
            if isinstance(self._entries, MappingProxyType):
                raise TypeError(f"The {self.kind} registry is frozen")
            self._load()
            if self.kind == "metric":
                from lm_eval.api.metrics.metric import RegisteredMetric

                target = RegisteredMetric.replacing(name, target, self._entries.get(name))
            self._entries[name] = target
            self._assigned.add(name)

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._table(str(name))

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._names())

    def __len__(self) -> int:
        self._load()
        return len(self._names())

    def keys(self) -> list[str]:
        """Return the registered names."""
        return list(self)

    def values(self) -> list[Any]:
        """Return the registered objects."""
        return [self.get(name) for name in self]

    def items(self) -> list[tuple[str, Any]]:
        """Return names and objects."""
        return [(name, self.get(name)) for name in self]

    def origin(self, name: str) -> str | None:
        """Return where the object of a name is defined, as `module:qualified name`."""
        target = self._entry(name)
        module, qualified_name = _definition(target)
        if qualified_name is None:
            module, qualified_name = type(target).__module__, type(target).__qualname__
        return f"{module}:{qualified_name}"

    def freeze(self) -> None:
        """Refuse further registrations."""
        self._load()
        self._entries = MappingProxyType(dict(self._entries))


def _import_reference(reference: str) -> Any:
    """Import `module:attribute`."""
    module, _, attribute = reference.partition(":")
    target: Any = importlib.import_module(module)
    for part in attribute.split("."):
        target = getattr(target, part)
    return target


model_registry: Registry[type[LM]] = Registry("model", builtins=("lm_eval.models",))
filter_registry: Registry[type[Filter]] = Registry("filter", builtins=("lm_eval.filters",))
metric_registry: Registry[Metric[Any, Any]] = Registry(
    "metric", builtins=("lm_eval.api.metrics",), keeps_builtins=True, present=lambda entry: entry.resolve()
)
aggregation_registry: Registry[Callable[..., float]] = Registry(
    "aggregation", builtins=("lm_eval.api.metrics",), keeps_builtins=True
)
reduction_registry: Registry[Callable[..., Any]] = Registry(
    "reduction", builtins=("lm_eval.api.metrics",), keeps_builtins=True
)
scorer_registry: Registry[type[Any]] = Registry("scorer", builtins=("lm_eval.scorers",))
sampler_registry: Registry[type[Any]] = Registry("sampler", builtins=("lm_eval.api.samplers",))

MODEL_REGISTRY = model_registry
FILTER_REGISTRY = filter_registry
METRIC_REGISTRY = metric_registry
AGGREGATION_REGISTRY = aggregation_registry



class _MetricAttribute(Mapping[str, Any]):
    """One attribute of each registered metric, by metric name."""

    def __init__(self, fact: Callable[[str], Any]) -> None:
        self._fact = fact

    def __getitem__(self, name: str) -> Any:
        if name not in metric_registry:
            raise KeyError(name)
        return self._fact(name)

    def __iter__(self) -> Iterator[str]:
        return iter(metric_registry)

    def __len__(self) -> int:
        return len(metric_registry)


metric_agg_registry = METRIC_AGGREGATION_REGISTRY = _MetricAttribute(lambda name: get_metric_aggregation(name))
higher_is_better_registry = HIGHER_IS_BETTER_REGISTRY = _MetricAttribute(lambda name: is_higher_better(name))

_REGISTRIES: dict[str, Registry[Any]] = {
    registry.kind: registry
    for registry in (
        model_registry,
        filter_registry,
        metric_registry,
        aggregation_registry,
        reduction_registry,
        scorer_registry,
        sampler_registry,
    )
}

DEFAULT_METRIC_REGISTRY: dict[str, list[str]] = {
    "loglikelihood": ["perplexity", "acc"],
    "loglikelihood_rolling": ["word_perplexity", "byte_perplexity", "bits_per_byte"],
    "multiple_choice": ["acc", "acc_norm"],
    "generate_until": ["exact_match"],
}
"""Default metrics by output type, for tasks that name none."""


def freeze_all() -> None:
    """Make all registries read-only."""
    for registry in _REGISTRIES.values():
        registry.freeze()


def register_model(*names: str) -> Callable[[Decorated], Decorated]:
    """Register a subclass of `LM` under one or more names."""

    def decorate(decorated: Any) -> Any:
        from lm_eval.api.model import LM

        if not (isinstance(decorated, type) and issubclass(decorated, LM)):
            raise TypeError(f"The model {decorated!r} must be a subclass of `LM`")
        return model_registry.register(*names)(decorated)

    return decorate


def get_model(model_name: str) -> type[LM]:
    """Return the model class of a name."""
    try:
        return model_registry.get(model_name)
    except KeyError as error:
        raise ValueError(error.args[0]) from error


def register_filter(name: str) -> Callable[[Decorated], Decorated]:
    """Register a filter class."""
    return filter_registry.register(name)


def get_filter(filter_name: str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter class of a name; a callable is returned unchanged."""
    return filter_name if callable(filter_name) else filter_registry.get(filter_name)


def register_scorer(*names: str) -> Callable[[Decorated], Decorated]:
    """Register a scorer class under one or more names."""
    return scorer_registry.register(*names)


def get_scorer(name: str) -> type[Any]:
    """Return the scorer class of a name."""
    return scorer_registry.get(name)


def register_sampler(*names: str) -> Callable[[Decorated], Decorated]:
    """Register a class that draws few-shot examples under one or more names."""
    return sampler_registry.register(*names)


def register_aggregation(name: str) -> Callable[[Decorated], Decorated]:
    """Register an aggregation: a function that combines the values of all documents into one number."""
    return aggregation_registry.register(name)


def get_aggregation(name: str) -> Callable[..., float] | None:
    """Return the aggregation of a name; an unknown name logs a warning and gives `None`."""
    found = aggregation_registry.get(name, None)
    if found is None:
        logger.warning("`%s` is not a known aggregation", name)
    return found


def register_reduction(name: str) -> Callable[[Decorated], Decorated]:
    """Register a reduction: a function `(reference, values)` that combines the values of all repeats into one."""
    return reduction_registry.register(name)


def get_reduction(name: str) -> Callable[..., Any] | None:
    """Return the reduction of a name; an unknown name logs a warning and gives `None`."""
    found = reduction_registry.get(name, None)
    if found is None:
        logger.warning("`%s` is not a known reduction", name)
    return found


def register_metric(
    name: str | None = None,
    *,
    metric: str | None = None,
    higher_is_better: bool = True,
    aggregation: str | Callable[..., float] | None = None,
    reduction: str | Callable[..., Any] | None = None,
    output_type: str | list[str] | set[str] | tuple[str, ...] = "multiple_choice",
) -> Callable[[Decorated], Decorated]:
    """Register a metric: a function, or a class with the methods `aggregation` and `reduce`.

    The name may be given as `metric`. Aggregation and reduction are functions or registered names, which are looked
    up on first use.
    """

    def decorate(decorated: Any) -> Any:
        from lm_eval.api.metrics.metric import RegisteredMetric

        label = metric or name or decorated.__name__
        metric_registry.register(
            label,
            target=RegisteredMetric.of(
                label,
                decorated,
                higher_is_better=higher_is_better,
                aggregation=aggregation,
                reduction=reduction,
                output_type=output_type,
            ),
        )
        return decorated

    return decorate


def get_metric(name: str, hf_evaluate_metric: bool = False) -> Metric[Any, Any] | None:
    """Return the metric of a name, callable like its function; an unknown name logs a warning.

    A name that is not registered, and any name with `hf_evaluate_metric`, is looked up in the package `evaluate`.
    """
    # `exact_match` is that of the package.
    is_own = not hf_evaluate_metric or name == "exact_match"
    found = metric_registry.get(name, None) if is_own else None
    if found is None:
        found = _from_evaluate(name)
    if found is None:
        logger.warning("`%s` is not a known metric", name)
        return None
    return found


def _from_evaluate(name: str) -> Metric[Any, Any] | None:
    """Return a metric of the package `evaluate`, if it is installed and has the metric's files."""
    try:
        importlib.import_module("evaluate")
    except ImportError:
        return None
    from lm_eval import _evaluate

    found: RegisteredMetric | None = _evaluate.find(name)
    return None if found is None else found.resolve()


def get_metric_aggregation(name: str) -> Callable[..., float] | None:
    """Return the default aggregation of a metric."""
    found = metric_registry.get(name, None)
    if found is None:
        logger.warning("`%s` is not a known metric", name)
        return None
    aggregation: Callable[..., float] | None = found.aggregation
    return aggregation


def is_higher_better(metric_name: str) -> bool | None:
    """Return whether higher values of a metric are better; `None` for an unknown metric."""
    found = metric_registry._entry(metric_name, None)
    return None if found is None else found.higher_is_better


def _facts(kind: str, name: str) -> dict[str, Any]:
    """Return the facts about one entry, as JSON values."""
    registry = _REGISTRIES[kind]
    entry = registry._table(name)[name]
    builtin = _is_builtin(entry) and name not in registry._assigned
    if isinstance(entry, str):
        return {"origin": entry, "builtin": builtin}
    facts: dict[str, Any] = {"origin": registry.origin(name), "builtin": builtin}
    if kind == "metric":
        facts.update(entry.facts())
    return facts


def _dump(builtins: bool = False) -> dict[str, dict[str, dict[str, Any]]]:
    """Return kind → name → facts of everything that users registered; with `builtins`, of everything."""
    dump: dict[str, dict[str, dict[str, Any]]] = {}
    if _patches.has_changed_models():
        # A built-in name then means the changed class, whether its module was imported yet or not.
        model_registry._load()
    for kind, registry in _REGISTRIES.items():
        names = list(registry) if builtins else registry._names()
        facts = {name: _facts(kind, name) for name in names}
        dump[kind] = {name: fact for name, fact in facts.items() if builtins or not fact["builtin"]}
    return dump
