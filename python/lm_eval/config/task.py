"""Configuration of tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from lm_eval import _host
from lm_eval.api._types import OutputType
from lm_eval.config._callables import serialize_function
from lm_eval.defaults import default_gen_kwargs

logger = logging.getLogger(__name__)

__all__ = ["FewshotConfig", "FilterPipeline", "FilterStep", "MetricConfig", "ScorerConfig", "TaskConfig"]


class _MetricConfigRequired(TypedDict):
    metric: str | Callable[..., Any]


class MetricConfig(_MetricConfigRequired, total=False):
    """An entry of `metric_list`."""

    aggregation: str | Callable[..., Any] | None
    reduction: str | Callable[..., Any] | None
    higher_is_better: bool | None
    kwargs: dict[str, Any]


class _FilterStepRequired(TypedDict):
    function: str | Callable[..., Any]


class FilterStep(_FilterStepRequired, total=False):
    """One step of a filter pipeline."""

    kwargs: dict[str, Any]


class _ScorerConfigRequired(TypedDict):
    type: str


class ScorerConfig(_ScorerConfigRequired, total=False):
    """The scorer of a task, with the arguments of its class."""

    kwargs: dict[str, Any]


class _FilterPipelineRequired(TypedDict):
    name: str
    filter: list[FilterStep]


class FilterPipeline(_FilterPipelineRequired, total=False):
    """An entry of `filter_list`: a named chain of filters, with optional metrics of its own."""

    metric_list: list[MetricConfig]


_METRIC_KEYS = ("metric", "aggregation", "reduction", "higher_is_better")


def normalize_metric(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a metric entry with all its options under `kwargs`."""
    if "metric" not in entry:
        raise ValueError(f"An entry of `metric_list` needs the key `metric`: {dict(entry)!r}")
    if not (isinstance(entry["metric"], str) or callable(entry["metric"])):
        raise TypeError(f"A metric must be a name or a function, not {entry['metric']!r}")
    known = {key: entry[key] for key in _METRIC_KEYS if key in entry}
    return {**known, "kwargs": _merged_options(entry, _METRIC_KEYS)}


def normalize_step(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter step with all its options under `kwargs`."""
    return {"function": step["function"], "kwargs": _merged_options(step, ("function",))}


def normalize_pipeline(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter pipeline with normalised steps and metrics."""
    normal: dict[str, Any] = {
        "name": pipeline["name"],
        "filter": [normalize_step(step) for step in pipeline["filter"]],
    }
    if "metric_list" in pipeline:
        normal["metric_list"] = [normalize_metric(entry) for entry in pipeline["metric_list"] or ()]
    return normal


def _merged_options(entry: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of an entry; those under `kwargs` override those next to it."""
    flat = {key: value for key, value in entry.items() if key not in (*known, "kwargs")}
    return {**flat, **entry.get("kwargs", {})}


@dataclass
class FewshotConfig:
    """The source and form of few-shot examples, where they differ from the task."""

    sampler: Any = "default"
    split: str | None = None
    process_docs: Callable[..., Any] | None = None
    fewshot_indices: list[int] | None = None
    samples: Any = None
    doc_to_text: Any = None
    doc_to_choice: Any = None
    doc_to_target: Any = None
    gen_prefix: Any = None
    fewshot_delimiter: str | None = None
    target_delimiter: str | None = None

    def __post_init__(self) -> None:
        if self.split is not None and self.samples is not None:
            logger.warning("`fewshot_config` has both a split and samples; using the split")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


_is_formatted: ContextVar[bool] = ContextVar("_is_formatted", default=False)
"""Whether the configuration that is being made has its prompt format already; scripts replace `__post_init__(self)`."""

_INHERITED = (
    "process_docs",
    "fewshot_delimiter",
    "target_delimiter",
    "gen_prefix",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
)


@dataclass
class TaskConfig:
    """A task as defined in its file; fields can also be read and set as dictionary items."""

    task: str | None = None
    task_alias: str | None = None
    formats: Any = None
    output_type: OutputType = "generate_until"
    tag: str | list[str] | None = field(default_factory=list)
    custom_dataset: Callable[..., Any] | None = None
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] | None = field(default_factory=dict)
    training_split: str | None = None
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None
    process_docs: Callable[..., Any] | None = None
    description: Any = ""
    doc_to_text: Any = None
    doc_to_choice: Any = None
    doc_to_target: Any = None
    gen_prefix: Any = None
    doc_to_image: Any = None
    doc_to_audio: Any = None
    process_results: Callable[..., Any] | str | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    fewshot_config: Any = None
    num_fewshot: int | None = None
    generation_kwargs: dict[str, Any] | None = field(default_factory=dict)
    metric_list: Any = field(default_factory=list)
    filter_list: Any = field(default_factory=list)
    scorer: Any = None
    repeats: int = 1
    unsafe_code: bool = False
    use_prompt: str | None = None
    multiple_inputs: bool = False
    multiple_targets: bool = False
    should_decontaminate: bool = False
    doc_to_decontamination_query: str | None = None
    metadata: dict[str, Any] | None = field(default_factory=dict)
    _formats_selection: str | None = None
    _qualified_name: str | None = None

    def __post_init__(self) -> None:
        self._unformatted: dict[str, Any] = {}
        is_formatted = _is_formatted.get()
        if not is_formatted:
            self._resolve_formats()
        self._normalize_generation()
        self._normalize_fewshot()
        self._normalize_scoring_config(is_formatted)

    @classmethod
    def _of_engine(cls, fields: Mapping[str, Any]) -> TaskConfig:
        """Make a configuration that the engine has loaded: it has applied the prompt format."""
        token = _is_formatted.set(True)
        try:
            return cls(**fields)
        finally:
            _is_formatted.reset(token)

    def _resolve_formats(self) -> None:
        """Apply the prompt format that `formats` or `task@format` names."""
        selection = self._formats_selection
        if selection is None and isinstance(self.task, str) and "@" in self.task:
            selection = self._formats_selection = self.task.rpartition("@")[2]
        formats = selection if self.formats is None else self.formats
        # The engine applies the format of a class that it made in a worker.
        if formats is None or _host.is_served():
            return
        from lm_eval.config.formats import _fields_set_by

        given = {name: getattr(self, name) for name in ("doc_to_text", "doc_to_choice", "doc_to_target")}
        made = _fields_set_by(formats, selection, given)
        before = {name: getattr(self, name) for name in ("formats", *made)}
        self.formats = formats
        for name, value in made.items():
            if value is not None or name not in ("gen_prefix", "scorer"):
                setattr(self, name, value)
        self._unformatted = {name: (value, getattr(self, name)) for name, value in before.items()}

    def _definition(self) -> dict[str, Any]:
        """Return the fields that are set, as they were before a prompt format was applied.

        If a field set by the format was changed later, the format is omitted instead.
        """
        written = {**self.to_dict(keep_callable=True), "filter_list": self._pipelines()}
        if not self._unformatted:
            return written
        now = {name: getattr(self, name) for name in self._unformatted}
        if all(now[name] == after or name == "scorer" for name, (_, after) in self._unformatted.items()):
            own = {name: before for name, (before, _) in self._unformatted.items()}
            # A format known only to this process has no name in the engine, which takes its parts.
            from lm_eval.config.formats import _is_foreign

            if not _is_foreign(self.formats, self._formats_selection, self.task):
                written = {**written, **own}
                return {name: value for name, value in written.items() if value is not None}
        written["task"] = (self.task or "").partition("@")[0] or self.task
        return {name: value for name, value in written.items() if name not in ("formats", "_formats_selection")}

    def _normalize_generation(self) -> None:
        settings = self.generation_kwargs
        if not settings:
            generates = self.output_type == "generate_until"
            self.generation_kwargs = default_gen_kwargs(self.fewshot_delimiter) if generates else {}
            return
        if not isinstance(settings, dict):
            raise TypeError(f"`generation_kwargs` must be a mapping, not {settings!r}")
        if "temperature" in settings:
            settings["temperature"] = float(settings["temperature"])
        settings.setdefault("until", [self.fewshot_delimiter])

    def _normalize_fewshot(self) -> None:
        given = self.fewshot_config
        if given is None or isinstance(given, dict):
            inherited = {name: getattr(self, name) for name in _INHERITED}
            self.fewshot_config = FewshotConfig(**{**inherited, "split": self.fewshot_split, **(given or {})})

    def _normalize_scoring_config(self, is_loaded: bool = False) -> None:
        """Expand the short forms of `scorer`, `metric_list` and `filter_list`.

        A pipeline without its own metrics takes those of the task. The engine has already expanded them in a
        configuration that it loaded, so equal lists are taken for the task's.
        """
        self.scorer = {"type": self.scorer} if isinstance(self.scorer, str) else self.scorer
        shared = self.metric_list = [normalize_metric(entry) for entry in self.metric_list or ()]
        named = self.filter_list or [{"name": "none", "filter": []}]
        pipelines = self.filter_list = [normalize_pipeline(pipeline) for pipeline in named]
        unset = [
            pipeline
            for pipeline in pipelines
            if "metric_list" not in pipeline or is_loaded and pipeline["metric_list"] == shared
        ]
        for pipeline in unset:
            pipeline["metric_list"] = list(shared)
        # `_pipelines` checks by identity which lists follow when the metrics of the task are changed.
        self._inherited: list[Any] = [pipeline["metric_list"] for pipeline in unset]

    def _pipelines(self) -> list[dict[str, Any]]:
        """Return the pipelines with their current metrics, their own or those of the task."""
        inherited = [normalize_metric(entry) for entry in self.metric_list or ()]
        return [
            {**pipeline, "metric_list": inherited}
            if any(pipeline.get("metric_list", ()) is known for known in self._inherited)
            else {"metric_list": inherited, **normalize_pipeline(pipeline)}
            for pipeline in self.filter_list
        ]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and hasattr(self, name)

    def serialize_function(self, value: Any, keep_callable: bool = False) -> Any:
        """Return the source of a function, or its `str` where there is none."""
        return serialize_function(value, keep_callable)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or `default` if there is none of that name."""
        return getattr(self, name, default)

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """Return all fields that are set, with functions as their source."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: _written(value, keep_callable) for name, value in named.items() if value is not None}


def _written(value: Any, keep_callable: bool) -> Any:
    """Return a value with all functions in it replaced by their source."""
    if isinstance(value, FewshotConfig):
        value = value.to_dict()
    if isinstance(value, dict):
        return {key: _written(item, keep_callable) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(item, keep_callable) for item in value]
    return serialize_function(value, keep_callable) if callable(value) else value
