"""Standard errors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lm_eval.api.metrics import _text
from lm_eval.api.metrics._numeric import plain_sum
from lm_eval.api.metrics.aggregations import mean
from lm_eval.api.metrics.corpus import corpus_score

T = TypeVar("T")

__all__ = [
    "aggregate_subtask_metrics",
    "bootstrap_stderr",
    "mean_stderr",
    "pooled_sample_stderr",
    "sample_stddev",
    "stderr_for_metric",
]

_CHUNK = 1000


def sample_stddev(arr: Sequence[float]) -> float:
    """Return the sample standard deviation."""
    middle = mean(arr)
    return math.sqrt(plain_sum([(value - middle) ** 2 for value in arr]) / (len(arr) - 1))


def mean_stderr(arr: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return sample_stddev(arr) / math.sqrt(len(arr))


def bootstrap_stderr(f: Callable[[Sequence[T]], float], xs: Sequence[T], iters: int) -> float:
    """Return the standard deviation of `f` over resamples of `xs`.

    The resamples are drawn in chunks of at most 1000, each seeded with the chunk's index; a remainder is dropped.
    """
    by_engine = _text.stderr(corpus_score(f), xs, iters)
    if by_engine is not None:
        return by_engine
    chunk = min(_CHUNK, iters)
    replicates: list[float] = []
    for seed in range(iters // chunk):
        generator = random.Random(seed)
        replicates.extend(f(generator.choices(xs, k=len(xs))) for _ in range(chunk))
    return sample_stddev(replicates)


def stderr_for_metric(
    metric: Callable[[Sequence[T]], float], bootstrap_iters: int | None
) -> Callable[[Sequence[T]], float] | None:
    """Return the standard error function of an aggregation; `None` without bootstrap iterations.

    The registered `mean` has a closed form; all others are bootstrapped.
    """
    if not isinstance(bootstrap_iters, int) or bootstrap_iters <= 0:
        return None
    if metric is mean:
        return mean_stderr  # type: ignore[return-value]
    iterations = bootstrap_iters

    def bootstrapped(xs: Sequence[Any]) -> float:
        return bootstrap_stderr(metric, xs, iterations)

    return bootstrapped


def pooled_sample_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the standard error of a group from its members' standard errors and sizes."""
    total = plain_sum(sizes)
    variance = plain_sum(
        [(size - 1) * stderr**2 * size for size, stderr in zip(sizes, stderrs, strict=True)]
    ) / (total - len(sizes))
    return math.sqrt(variance / total)


def aggregate_subtask_metrics(
    metrics: Sequence[float], sizes: Sequence[int], weight_by_size: bool = True
) -> float:
    """Return the mean of a group's members, weighted by their sizes unless told otherwise."""
    weights = sizes if weight_by_size else [1] * len(sizes)
    return plain_sum([value * weight for value, weight in zip(metrics, weights, strict=True)]) / plain_sum(
        weights
    )
