"""Names of the 0.4 line that scripts and tasks import.

In that line the function of a corpus metric returns its arguments, and the aggregation does the computing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval.api.metrics._numeric import pairwise_sum
from lm_eval.api.metrics._text import bleu, chrf, chrfpp, ter
from lm_eval.api.metrics.generation import exact_match_fn
from lm_eval.api.metrics.stderr import mean_stderr

__all__ = [
    "acc_all",
    "acc_all_stderr",
    "acc_bytes_fn",
    "acc_fn",
    "acc_norm_fn",
    "bits_per_byte_fn",
    "bleu",
    "bleu_fn",
    "brier_score_fn",
    "byte_perplexity_fn",
    "chrf",
    "chrf_fn",
    "chrfpp",
    "chrfpp_fn",
    "combined_sample_stderr",
    "exact_match_hf_evaluate",
    "f1_fn",
    "is_non_str_iterable",
    "likelihood_fn",
    "perplexity_fn",
    "pop_stddev",
    "ter",
    "ter_fn",
    "unweighted_mean_stderr",
    "word_perplexity_fn",
]


def _passthrough(items: Any) -> Any:
    """Return the argument unchanged: the aggregation does the computing."""
    return items


acc_fn = acc_norm_fn = acc_bytes_fn = brier_score_fn = _passthrough
perplexity_fn = likelihood_fn = word_perplexity_fn = byte_perplexity_fn = bits_per_byte_fn = _passthrough
f1_fn = bleu_fn = chrf_fn = chrfpp_fn = ter_fn = _passthrough


def exact_match_hf_evaluate(
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> dict[str, float]:
    """Return the share of predictions that equal their references."""
    matches = exact_match_fn(
        references=list(references),
        predictions=list(predictions),
        regexes_to_ignore=regexes_to_ignore,
        ignore_case=ignore_case,
        ignore_punctuation=ignore_punctuation,
        ignore_numbers=ignore_numbers,
    )["exact_match"]
    return {"exact_match": pairwise_sum([float(match) for match in matches]) / len(matches)}


def acc_all(items: Iterable[tuple[Any, Mapping[str, Any]]]) -> float:
    """Return the share of questions whose answers were all judged correctly, as MultiRC defines it."""
    judged = _judged(items, ("paragraph", "question"))
    return pairwise_sum([float(all(answers)) for answers in judged]) / len(judged)


def acc_all_stderr(items: Iterable[tuple[Any, Mapping[str, Any]]]) -> float:
    """Return the standard error of `acc_all`; questions with the same id are merged, even across paragraphs."""
    return mean_stderr([float(all(answers)) for answers in _judged(items, ("question",))])


def _judged(items: Iterable[tuple[Any, Mapping[str, Any]]], keys: tuple[str, ...]) -> list[list[bool]]:
    """Return the correctness of each judgement, by question."""
    judged: dict[tuple[Any, ...], list[bool]] = defaultdict(list)
    for prediction, doc in items:
        judged[tuple(doc["idx"][key] for key in keys)].append((doc["label"] == 1) == prediction)
    return list(judged.values())


def pop_stddev(arr: Sequence[float]) -> float:
    """Return the population standard deviation."""
    mean = pairwise_sum(list(arr)) / len(arr)
    return (pairwise_sum([(value - mean) ** 2 for value in arr]) / len(arr)) ** 0.5


def is_non_str_iterable(obj: Any) -> bool:
    """Return whether a value is iterable and not a string."""
    return isinstance(obj, Iterable) and not isinstance(obj, str)


def unweighted_mean_stderr(stderrs: Sequence[float]) -> float:
    """Return the standard error of the unweighted mean of scores with these standard errors."""
    return sum(error**2 for error in stderrs) ** 0.5 / len(stderrs)


def combined_sample_stderr(
    stderrs: Sequence[float], sizes: Sequence[int], metrics: Sequence[float] | None = None
) -> float:
    """Return the standard error of the mean over the union of several sample sets with these means."""
    if metrics is None:
        raise AssertionError("`metrics`, the means of the sets, is required")
    if not len(stderrs) == len(sizes) == len(metrics):
        raise AssertionError("`stderrs`, `sizes` and `metrics` must have the same length")
    # Reference: the size stays that of the first set, and distances are to the mean that includes the next set.
    total, variance, mean = sizes[0], stderrs[0] ** 2, metrics[0]
    for error, size, other in zip(stderrs[1:], sizes[1:], metrics[1:], strict=True):
        both = total + size
        mean = (mean * total + other * size) / both
        variance = ((total - 1) * variance + (size - 1) * error**2) / (both - 1) + total * size / (
            both * (both - 1)
        ) * (other - mean) ** 2
    return variance**0.5
