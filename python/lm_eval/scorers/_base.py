"""Scorers: filter → score → reduce → aggregate."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar

from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.api.metrics.aggregations import mean
from lm_eval.api.metrics.metric import Metric
from lm_eval.api.metrics.reduce import take_first
from lm_eval.api.metrics.results import LLResults
from lm_eval.api.metrics.stderr import stderr_for_metric
from lm_eval.api.metrics.utils import parse_metric
from lm_eval.api.registry import DEFAULT_METRIC_REGISTRY, get_filter, get_scorer
from lm_eval.config.task import normalize_step
from lm_eval.scorers._types import MetricKey, ReducedDoc, ScoredDoc

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.config.task import ScorerConfig

logger = logging.getLogger(__name__)

ScorerType = TypeVar("ScorerType", bound="Scorer")

__all__ = ["GenScorer", "LLScorer", "Scorer", "build_scorer"]

_NOT_AVAILABLE = "N/A"


class _ScorerCfgRequired(TypedDict):
    name: str


class _ScorerCfg(_ScorerCfgRequired, total=False):
    """The configuration of a pipeline, as passed to `Scorer.from_dict`."""

    filter: list[Any]
    metric_list: list[Any]


@dataclass(kw_only=True)
class Scorer:
    """Base class: a named filter chain with metrics.

    A subclass may set `default_filter_cfg` and `default_metric_cfg`, used when a task names no filters or metrics,
    and must define `score_doc` or `score_instances`.
    """

    name: str
    filter: FilterEnsemble
    metrics: list[Metric[Any, Any]] | None = None
    context: dict[str, Any] = field(default_factory=dict)

    default_filter_cfg: ClassVar[list[dict[str, Any] | type[Filter]] | None] = None
    default_metric_cfg: ClassVar[list[dict[str, Any] | Metric[Any, Any]] | None] = None

    _raw_docs: dict[int, ScoredDoc] = field(default_factory=dict, init=False, repr=False)
    _reduced_docs: dict[int, ReducedDoc] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def from_dict(
        cls: type[ScorerType], cfg: Mapping[str, Any], output_type: str | None = None, **kwargs: Any
    ) -> ScorerType:
        """Make the scorer of a pipeline; `kwargs` go to the constructor."""
        name = cfg.get("name", "none")
        own: Sequence[Any] | None = cls.default_filter_cfg
        steps: Sequence[Any] = cfg.get("filter") or own or ["noop"]
        return cls(
            name=name,
            filter=FilterEnsemble(name=name, filters=[_filter_factory(step) for step in steps]),
            metrics=cls._build_metrics(cfg.get("metric_list"), output_type),
            **kwargs,
        )

    @classmethod
    def default_scorer(
        cls: type[ScorerType], name: str = "none", output_type: str | None = None, **kwargs: Any
    ) -> ScorerType:
        """Make the scorer with the filters and metrics of its class."""
        return _from_dict(cls, {"name": name}, output_type, kwargs)

    @classmethod
    def _build_metrics(
        cls, configured: Sequence[Any] | None, output_type: str | None
    ) -> list[Metric[Any, Any]]:
        entries: Sequence[Any] = configured or ()
        if not entries:
            if cls.default_metric_cfg is not None:
                entries = cls.default_metric_cfg
            else:
                entries = [{"metric": name} for name in DEFAULT_METRIC_REGISTRY.get(output_type or "", ())]
        return [parse_metric(entry, output_type) for entry in entries]

    @property
    def raw_docs(self) -> Mapping[int, ScoredDoc]:
        """The scores of each document before reduction."""
        return self._raw_docs

    @property
    def reduced_docs(self) -> Mapping[int, ReducedDoc]:
        """The values of each document, ready for aggregation."""
        return self._reduced_docs

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """Whether higher is better, for each metric and for the values its reduction returns."""
        directions = {metric.name: metric.higher_is_better for metric in self.metrics or ()}
        for name in next(iter(self._reduced_docs.values()), {}):
            parent = MetricKey(name, self.name).parent_metric
            if name not in directions and parent in directions:
                directions[name] = directions[parent]
        return directions

    def apply_filter(self, instances: Sequence[Instance[Any, Any]]) -> None:
        """Run the filter chain over all requests."""
        self.filter.apply(instances)

    def score_instances(self, instances: Mapping[int, list[Instance[Any, Any]]]) -> dict[int, ScoredDoc]:
        """Score all documents; override it to score them in batches."""
        return {doc_id: self.score_doc(doc_id, requests) for doc_id, requests in instances.items()}

    def score_doc(self, doc_id: int, doc_instances: list[Instance[Any, Any]]) -> ScoredDoc:
        """Score one document."""
        raise NotImplementedError(
            f"`{type(self).__name__}` defines neither `score_doc` nor `score_instances`"
        )

    def _dispatch_metrics(
        self, references: Any, predictions: Any, metric_kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the values of all metrics; a metric that returns a mapping yields several."""
        options = {**self.context, **(metric_kwargs or {})}
        scores: dict[str, Any] = {}
        for metric in self.metrics or ():
            value = metric.compute(references, predictions, **options)
            scores.update(value if isinstance(value, dict) else {metric.name: value})
        return scores

    def reduce(self, scored_docs: Mapping[int, ScoredDoc]) -> dict[int, ReducedDoc]:
        """Reduce the repeats of each document."""
        return {doc_id: self._reduce_doc(scored) for doc_id, scored in scored_docs.items()}

    def _reduce_doc(self, scored: ScoredDoc) -> ReducedDoc:
        reduced: ReducedDoc = {}
        for name, values in scored.scores.items():
            if len(values) == 1:
                reduced[name] = values[0]
                continue
            metric = self._find_metric(name)
            reduction = None if metric is None else metric.reduction
            if reduction is None:
                logger.warning("`%s` has %d values per document and no reduction; using the first", name, len(values))
                reduction = take_first
            value = reduction(scored.reference, values)
            if isinstance(value, dict):
                reduced.update({f"{part}({name})": number for part, number in value.items()})
            else:
                reduced[name] = value
        return reduced

    def aggregate(
        self,
        reduced_docs: Mapping[int, ReducedDoc],
        bootstrap_iters: int | None = 100000,
        aggregation_overrides: Mapping[str, Callable[..., Any]] | None = None,
    ) -> tuple[dict[str, Any], int]:
        """Return the results by key, and the largest number of values of a metric."""
        columns: dict[str, list[Any]] = {}
        for reduced in reduced_docs.values():
            for name, value in reduced.items():
                columns.setdefault(name, []).append(value)
        results: dict[str, Any] = {}
        for name, values in columns.items():
            aggregation = self._aggregation(name, aggregation_overrides or {})
            stderr = stderr_for_metric(aggregation, bootstrap_iters)
            results[str(MetricKey(name, self.name))] = aggregation(values)
            results[str(MetricKey(name, self.name, is_stderr=True))] = (
                _NOT_AVAILABLE if stderr is None or len(values) < 2 else stderr(values)
            )
        return results, max((len(values) for values in columns.values()), default=0)

    def _aggregation(self, name: str, overrides: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
        metric = self._find_metric(name) or self._find_metric(MetricKey(name, self.name).parent_metric)
        if metric is not None and metric.aggregation is not None:
            return metric.aggregation
        if name in overrides:
            return overrides[name]
        logger.error("`%s` has no aggregation; using the mean", name)
        return mean

    def _find_metric(self, name: str | None) -> Metric[Any, Any] | None:
        return next((metric for metric in self.metrics or () if metric.name == name), None)

    def export_reduced(self) -> dict[int, ReducedDoc]:
        """Return the values of all documents, to be merged with those of other processes."""
        return dict(self._reduced_docs)

    def import_reduced(self, doc_data: Mapping[int, ReducedDoc]) -> None:
        """Take the merged values of all processes."""
        self._raw_docs = {}
        self._reduced_docs = dict(doc_data)

    def set_results(
        self, scored_docs: dict[int, ScoredDoc], reduced_docs: Mapping[int, ReducedDoc] | None = None
    ) -> None:
        """Store the scores of all documents and their reduction, which is computed unless given."""
        self._raw_docs = scored_docs
        self._reduced_docs = self.reduce(self._raw_docs) if reduced_docs is None else dict(reduced_docs)


def _filter_factory(step: Any) -> Callable[[], Filter]:
    """Return the class or factory of a filter step: a name, a class or a mapping."""
    if isinstance(step, str) or callable(step):
        return get_filter(step)
    if not isinstance(step, Mapping):
        raise TypeError(f"A filter must be a name, a class or a mapping, not {step!r}")
    normal = normalize_step(step)
    return partial(get_filter(normal["function"]), **normal["kwargs"])


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function accepts an argument of this name."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return True
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return name in parameters and parameters[name].kind in by_name


def _from_dict(
    scorer: type[ScorerType], cfg: Mapping[str, Any], output_type: str | None, kwargs: Mapping[str, Any]
) -> ScorerType:
    """Call `from_dict` of a class that may define its own, with another signature."""
    known = {"output_type": output_type} if _takes(scorer.from_dict, "output_type") else {}
    return scorer.from_dict(cfg, **known, **kwargs)


@dataclass(kw_only=True)
class GenScorer(Scorer):
    """Scorer of generations.

    From least to most work: set the default filters and metrics; override `score`; override `score_instances`.
    """

    def score_doc(self, doc_id: int, doc_instances: list[Instance[Any, Any]]) -> ScoredDoc:
        """Score one document with `score`."""
        reference, predictions, metric_kwargs = self._extract_inputs(doc_instances)
        # A user's `score` may not accept options.
        options = {"metric_kwargs": metric_kwargs} if _takes(self.score, "metric_kwargs") else {}
        scores = self.score(reference, predictions, **options)
        return ScoredDoc(doc_id=doc_id, reference=reference, scores=scores)

    def score(
        self, reference: Any, predictions: list[str], metric_kwargs: dict[str, Any] | None = None
    ) -> dict[str, list[Any]]:
        """Return for each metric a list with one value per prediction."""
        scores = self._dispatch_metrics([reference], predictions, metric_kwargs)
        # Anything but a list with one value per prediction, or with a single value, is the document's only value.
        counts = (1, len(predictions))
        return {
            name: value if isinstance(value, list) and len(value) in counts else [value]
            for name, value in scores.items()
        }

    def _extract_inputs(
        self, doc_instances: list[Instance[Any, Any]]
    ) -> tuple[Any, list[str], dict[str, Any]]:
        """Return reference, predictions and metric options of a document."""
        first = doc_instances[0]
        return first.target, first.filtered_resps[self.name], first.metadata.get("metric_kwargs") or {}


@dataclass(kw_only=True)
class LLScorer(Scorer):
    """Scorer of log-likelihoods; each metric has one value per document."""

    def score_doc(self, doc_id: int, doc_instances: list[Instance[Any, Any]]) -> ScoredDoc:
        """Score one document."""
        results = LLResults.from_instances(doc_instances, self.name)
        options = doc_instances[0].metadata.get("metric_kwargs")
        scores = self._dispatch_metrics(results.targets, results, options)
        return ScoredDoc(
            doc_id=doc_id,
            reference=results.targets,
            scores={name: [value] for name, value in scores.items()},
        )


_BY_OUTPUT_TYPE: dict[str, type[Scorer]] = {
    "generate_until": GenScorer,
    "loglikelihood": LLScorer,
    "loglikelihood_rolling": LLScorer,
    "multiple_choice": LLScorer,
}


def build_scorer(
    cfg: _ScorerCfg | None = None,
    output_type: str | None = None,
    scorer_type: str | ScorerConfig | None = None,
) -> Scorer:
    """Make the scorer of a pipeline.

    `scorer_type` is the name of a scorer, or a mapping with its name under `type` and the arguments of its class next
    to it or under `kwargs`, which takes precedence; by default the output type decides.
    """
    arguments: dict[str, Any] = {}
    name = "none"
    if scorer_type is None:
        if output_type not in _BY_OUTPUT_TYPE:
            raise ValueError(f"There is no scorer for the output type `{output_type}`")
        scorer_class = _BY_OUTPUT_TYPE[output_type]
    else:
        if isinstance(scorer_type, str):
            name = scorer_type
        else:
            name = scorer_type["type"]
            arguments = {key: value for key, value in scorer_type.items() if key not in ("type", "kwargs")}
            arguments.update(scorer_type.get("kwargs") or {})
        scorer_class = get_scorer(name)
    return _from_dict(scorer_class, {"name": name} if cfg is None else cfg, output_type, arguments)
