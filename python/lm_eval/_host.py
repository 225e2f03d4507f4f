"""Services of the surrounding process: loading datasets, rendering templates, aggregating values.

A worker sets them to functions that call the engine. Otherwise values are aggregated by an engine started for them, and for
the rest third-party packages are used, if installed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

DatasetLoader = Callable[..., Any]
"""A function `(path, name, **options)` that returns the splits of a dataset by name."""

TemplateRenderer = Callable[[str, dict[str, Any]], str]
"""A function `(template, document)` that returns the rendered string."""


class EngineError(RuntimeError):
    """The engine could not do what was requested."""


Judge = Callable[..., "list[str]"]
"""A function `(role, prompts, system, samples, generation)` that returns the answers of a judge."""

Aggregator = Callable[..., float]
"""A function `(name, values, resamples)` that returns a score, or its standard error."""

_aggregator: Aggregator | None = None
_dataset_loader: DatasetLoader | None = None
_judge: Judge | None = None
_template_renderer: TemplateRenderer | None = None


def set_dataset_loader(loader: DatasetLoader | None) -> None:
    """Load datasets with this function from now on."""
    global _dataset_loader
    _dataset_loader = loader


def set_template_renderer(renderer: TemplateRenderer | None) -> None:
    """Render templates with this function from now on."""
    global _template_renderer
    _template_renderer = renderer


def set_judge(judge: Judge | None) -> None:
    """Ask judges with this function from now on."""
    global _judge
    _judge = judge


def set_aggregator(aggregator: Aggregator | None) -> None:
    """Aggregate values with this function from now on."""
    global _aggregator
    _aggregator = aggregator


def aggregate(name: str, values: list[Any], resamples: int | None = None) -> float:
    """Return the score of values by an aggregation of the engine, or its standard error over resamples."""
    question = {"name": name, "values": values, "resamples": resamples}
    try:
        return aggregate_elsewhere(**question) if _aggregator is None else _aggregator(**question)
    except EngineError as error:
        raise ValueError(str(error)) from None


def aggregate_elsewhere(**question: Any) -> float:
    """Start an engine that aggregates values."""
    from lm_eval import _engine

    score: float = _engine.call("aggregate_values", **question)
    return score


def ask_judge(role: str, prompts: list[str], **question: Any) -> list[str]:
    """Return the answers of the judge that the run bound to a role."""
    if _judge is None:
        raise EngineError("A judge can only be asked by a scorer, filter or metric while a run scores its answers")
    return _judge(role, prompts, **question)


def is_served() -> bool:
    """Whether an engine is waiting for this process, which therefore cannot start another one."""
    return _template_renderer is not None and not getattr(_template_renderer, "starts_engines", False)


def load_dataset(path: str | None, name: str | None = None, **options: Any) -> Any:
    """Return the splits of a dataset by name."""
    if _dataset_loader is not None:
        try:
            return _dataset_loader(path, name, **options)
        except EngineError:
            library = _library()
            if library is None:
                raise
            # The engine does not have these loaders.
            return library.load_dataset(path=path, name=name, **options)
    try:
        import datasets
    except ImportError as error:
        raise ImportError(f"Loading the dataset `{path}` in Python needs the package `datasets`") from error
    return datasets.load_dataset(path=path, name=name, **options)


def _library() -> Any:
    """Return the library `datasets`, or `None` where it is not installed."""
    try:
        import datasets
    except ImportError:
        return None
    return None if getattr(datasets, "__lm_eval__", False) else datasets


def render_template(template: str, doc: dict[str, Any]) -> str:
    """Render a template with the fields of a document."""
    if _template_renderer is not None:
        return _template_renderer(template, doc)
    return str(template_environment().from_string(template).render(**doc))


@functools.cache
def template_environment() -> Any:
    """Return a `jinja2` environment that renders as the engine does."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("Rendering a template in Python needs the package `jinja2`") from error
    from lm_eval.utils import regex_replace

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = regex_replace
    environment.globals["zip"] = zip
    return environment
