"""The `Metric` class, and how it is made from a registry entry or a task file."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from lm_eval import _scope
from lm_eval.api.metrics._numeric import argmax, floats
from lm_eval.api.metrics._single import single_string
from lm_eval.api.metrics._types import _K, _T, AggregationFn, MetricFn, ReductionFn
from lm_eval.api.metrics.reduce import take_first
from lm_eval.api.metrics.results import LLResults
from lm_eval.api.registry import _is_builtin, get_aggregation, get_reduction, metric_registry

logger = logging.getLogger(__name__)

__all__ = ["METRIC_KEYS", "AggregationFn", "Metric", "MetricFn", "ReductionFn", "RegisteredMetric"]

METRIC_KEYS = frozenset({"metric", "aggregation", "reduction", "higher_is_better", "kwargs"})
"""The keys of an entry of `metric_list` that are not options of the metric."""

_NOT_GIVEN: Any = object()


@dataclass(frozen=True)
class Metric(Generic[_T, _K]):
    """One metric: `fn` scores a document, `reduction` combines repeats, `aggregation` combines documents."""

    name: str
    fn: MetricFn[_T]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    aggregation: AggregationFn[_K] | None = None
    higher_is_better: bool = True
    output_type: set[str] = field(default_factory=lambda: {"multiple_choice"})
    reduction: ReductionFn[_T, _K] | None = take_first
    _calling: _Calling = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("A metric needs a name")
        for part in ("fn", "aggregation", "reduction"):
            given = getattr(self, part)
            if not callable(given) and (part == "fn" or given is not None):
                raise TypeError(f"`{part}` of the metric `{self.name}` must be a function, not {given!r}")
        object.__setattr__(self, "_calling", _Calling.of(self.fn))
        types = self.output_type
        object.__setattr__(self, "output_type", {types} if isinstance(types, str) else set(types))
        if self.reduction is None:
            object.__setattr__(self, "reduction", take_first)

    def __call__(self, *args: Any, **kwargs: Any) -> _T:
        """Call the metric's function with these arguments unchanged."""
        return self.fn(*args, **kwargs)

    def resolve(self) -> Metric[_T, _K]:
        """Return the metric itself, as a registered one does."""
        return self

    def compute(self, references: Any, predictions: Any = _NOT_GIVEN, **kwargs: Any) -> _T:
        """Score one document with the metric's options, overridden by `kwargs`.

        A function without `**kwargs` receives only the options that it names. A function with a single parameter
        receives the pair of reference and prediction, like pass-through metrics of v0.4. A single argument goes to
        the function as it is.
        """
        calling, options = self._calling, {**self.kwargs, **kwargs}
        if calling.options is not None:
            options = {key: value for key, value in options.items() if key in calling.options}
        if predictions is _NOT_GIVEN:
            return self.fn(references, **options)
        if calling.pair:
            return self.fn(_pair(references, predictions), **options)
        references, predictions = single_string(references), single_string(predictions)
        if calling.named:
            return self.fn(**{**options, "references": references, "predictions": predictions})
        return self.fn(references, predictions, **options)

    def aggregate(self, values: Sequence[_K]) -> float:
        """Return the score over all documents."""
        if self.aggregation is None:
            raise ValueError(f"The metric `{self.name}` has no aggregation")
        return self.aggregation(values)

    @classmethod
    def from_dict(cls, cfg: Mapping[str, Any], output_type: str | None = None) -> Metric[Any, Any]:
        """Make the metric described by an entry of `metric_list`."""
        if "metric" not in cfg:
            raise ValueError(f"An entry of `metric_list` needs the key `metric`: {dict(cfg)!r}")
        options = {key: value for key, value in cfg.items() if key not in METRIC_KEYS}
        options.update(cfg.get("kwargs", {}))
        base = _base(cfg["metric"], output_type)
        aggregation: Any = base.aggregation
        if "aggregation" in cfg:
            aggregation = _named("aggregation", cfg["aggregation"], get_aggregation)
        if aggregation is None:
            from lm_eval.api.metrics.aggregations import mean

            logger.warning("The metric `%s` has no aggregation; the mean is used", base.name)
            aggregation = mean
        reduction: Any = base.reduction
        if "reduction" in cfg:
            reduction = _named("reduction", cfg["reduction"], get_reduction)
        higher_is_better = cfg.get("higher_is_better", base.higher_is_better)
        return cls(
            name=base.name,
            fn=base.fn,
            kwargs=options,
            aggregation=aggregation,
            higher_is_better=True if higher_is_better is None else bool(higher_is_better),
            output_type=base.output_type,
            reduction=reduction,
        )


@dataclass(frozen=True)
class _Calling:
    """The calling convention of a metric's function."""

    pair: bool = False
    named: bool = False
    options: frozenset[str] | None = None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _Calling:
        """Derive the convention from the parameters of a function."""
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return cls()
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names = frozenset(name for name, parameter in parameters.items() if parameter.kind in by_name)
        # Some functions have the two parameters in reverse order.
        named = names >= {"references", "predictions"}
        kinds = [parameter.kind for parameter in parameters.values()]
        if inspect.Parameter.VAR_KEYWORD in kinds:
            return cls(named=named)
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        pair = sum(kind in by_position for kind in kinds) == 1 and inspect.Parameter.VAR_POSITIONAL not in kinds
        return cls(pair=pair, named=named, options=names)


def _pair(references: Any, predictions: Any) -> Any:
    """Return one reference and one prediction; of several options, the most likely."""
    if isinstance(predictions, LLResults):
        return references, argmax(floats(predictions.lls))
    # Reference: the v0.4 line passes a list of target and answer.
    return [_first(references), _first(predictions)]


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else values


def _named(kind: str, value: Any, look_up: Callable[[str], Any]) -> Any:
    """Return the function that a configured value names."""
    if isinstance(value, str):
        found = look_up(value)
        if found is None:
            raise ValueError(f"`{value}` is not a known {kind}")
        return found
    return value if callable(value) else None


def _base(metric: Any, output_type: str | None) -> Metric[Any, Any]:
    """Return the metric of a name or function, without the options of its entry."""
    if isinstance(metric, str):
        registered = metric_registry.get(metric, None)
        if registered is None:
            logger.warning("`%s` is not a known metric; its values must come from `process_results`", metric)
            return Metric(name=metric, fn=_placeholder(metric))
        base: Metric[Any, Any] = registered
        if metric == "exact_match" and output_type == "multiple_choice":
            # Reference: 0.4.13 gives `exact_match` of multiple choice the value that v0.5 calls
            # `exact_match_mc`.
            replacement = metric_registry.get("exact_match_mc")
            return Metric(metric, replacement.fn, {}, replacement.aggregation, True, replacement.output_type)
        if output_type is not None and output_type not in base.output_type:
            raise ValueError(
                f"The metric `{metric}` supports {', '.join(sorted(base.output_type))}, not {output_type}"
            )
        return base
    if isinstance(metric, RegisteredMetric):
        return metric.resolve()
    if callable(metric):
        return Metric(name=getattr(metric, "__name__", "metric(undefined)"), fn=metric)
    raise TypeError(f"A metric must be a name or a function, not {metric!r}")


def _placeholder(name: str) -> Callable[..., Any]:
    def unknown(references: Any, predictions: Any, **kwargs: Any) -> Any:
        """Raise: only `process_results` can compute the values of an unknown metric."""
        raise NotImplementedError(f"`{name}` is not a known metric")

    return unknown


@dataclass
class RegisteredMetric:
    """A registered metric; names of aggregations and reductions are looked up on first use."""

    name: str
    fn: Callable[..., Any]
    higher_is_better: bool
    aggregation: str | Callable[..., Any] | None
    reduction: str | Callable[..., Any] | None
    output_type: frozenset[str]
    corpus: bool = False
    folder: str = field(default_factory=lambda: _scope.folder, compare=False, repr=False)
    _metric: Metric[Any, Any] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        decorated: Any,
        *,
        higher_is_better: bool,
        aggregation: str | Callable[..., Any] | None,
        reduction: str | Callable[..., Any] | None,
        output_type: Any,
    ) -> RegisteredMetric:
        """Make the entry of a function, or of a class that bundles its own aggregation and reduction."""
        types = frozenset({output_type} if isinstance(output_type, str) else output_type)
        corpus = (
            isinstance(decorated, type) and hasattr(decorated, "aggregation") and hasattr(decorated, "reduce")
        )
        function = decorated
        if corpus:
            function = decorated()
            aggregation, reduction = function.aggregation, function.reduce
        record = cls(name, function, higher_is_better, aggregation, reduction, types, corpus)
        # The registry checks where an entry was defined, which is the user's code.
        record.__module__ = getattr(decorated, "__module__", "")
        record.__qualname__ = getattr(decorated, "__qualname__", name)  # type: ignore[attr-defined]
        if _is_builtin(record):
            # A task folder may be the first to import this package.
            record.folder = ""
        return record

    @classmethod
    def replacing(cls, name: str, target: Any, known: RegisteredMetric | None) -> RegisteredMetric:
        """Make the entry of a function that replaces a metric; it is aggregated like the metric."""
        if isinstance(target, RegisteredMetric):
            return target
        every = ("generate_until", "loglikelihood", "loglikelihood_rolling", "multiple_choice")
        return cls.of(
            name,
            target,
            higher_is_better=True if known is None else known.higher_is_better,
            aggregation="mean" if known is None else known.aggregation,
            reduction=None if known is None or known.corpus else known.reduction,
            output_type=every if known is None else known.output_type,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the metric's function with these arguments unchanged."""
        return self.fn(*args, **kwargs)

    def resolve(self) -> Metric[Any, Any]:
        """Return the metric."""
        if self._metric is None:
            with _scope.within(self.folder):
                aggregation = _named("aggregation", self.aggregation, get_aggregation)
                reduction = _named("reduction", self.reduction, get_reduction)
            self._metric = Metric(
                name=self.name,
                fn=self.fn,
                aggregation=aggregation,
                higher_is_better=self.higher_is_better,
                output_type=set(self.output_type),
                reduction=reduction,
            )
        return self._metric

    def facts(self) -> dict[str, Any]:
        """Return the facts that the engine needs, as JSON values."""
        return {
            "higher_is_better": self.higher_is_better,
            "output_type": sorted(self.output_type),
            "aggregation": self.aggregation if isinstance(self.aggregation, str) else None,
            "own_aggregation": callable(self.aggregation),
            "reduction": self.reduction if isinstance(self.reduction, str) else None,
            "own_reduction": callable(self.reduction),
            "corpus": self.corpus,
        }
