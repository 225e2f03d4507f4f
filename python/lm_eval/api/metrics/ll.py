"""Metrics over log-likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lm_eval.api.metrics._numeric import argmax, divide, exp, floats, log_add_exp, pairwise_sum, softmax
from lm_eval.api.metrics.results import LLResults
from lm_eval.api.registry import register_metric

__all__ = [
    "acc",
    "acc_bytes",
    "acc_mutual_info_fn",
    "acc_norm",
    "bpb",
    "brier_score",
    "bypass",
    "choice_logprob_fn",
    "choice_logprob_norm_fn",
    "choice_prob_norm_fn",
    "exact_match_mc",
    "logprob_fn",
]

NAT_TO_BIT = 1.0 / math.log(2)
"""Bits per nat."""

_NO_TARGET = -100


def _is_target(chosen: int, references: Any) -> int:
    """Return 1 if the chosen option is the target or one of the targets."""
    if isinstance(references, (list, tuple)):
        return int(any(not isinstance(target, str) and target == chosen for target in references))
    return int(int(references) == chosen)


def _index(references: Any) -> int:
    """Return the index of the only target."""
    if isinstance(references, (list, tuple)):
        if len(references) != 1:
            raise ValueError(f"The metric takes one target, not {len(references)}")
        return int(references[0])
    return int(references)


def _per_length(values: Sequence[float], lengths: Sequence[float]) -> list[float]:
    return [divide(value, length) for value, length in zip(floats(values), floats(lengths), strict=True)]


@register_metric(metric="acc", output_type=["loglikelihood", "multiple_choice"], aggregation="mean")
def acc(references: int | list[int], predictions: LLResults, multiple_targets: bool = False) -> int:
    """Return 1 if the most likely option is correct; with a single option, 1 if greedy decoding yields it."""
    if len(predictions.lls) == 1:
        return int(predictions.is_greedy[0])
    return _is_target(argmax(floats(predictions.lls)), references)


@register_metric(metric="acc_norm", output_type="multiple_choice", aggregation="mean")
def acc_norm(references: int | list[int], predictions: LLResults, multiple_targets: bool = False) -> int:
    """Return 1 if the option with the highest likelihood per character is correct."""
    return _is_target(argmax(_per_length(predictions.lls, predictions.option_char_len())), references)


@register_metric(metric="acc_bytes", output_type="multiple_choice", aggregation="mean")
def acc_bytes(references: int | list[int], predictions: LLResults, multiple_targets: bool = False) -> int:
    """Return 1 if the option with the highest likelihood per byte is correct."""
    return _is_target(argmax(_per_length(predictions.lls, predictions.option_byte_len())), references)


@register_metric(metric="acc_mutual_info", output_type="multiple_choice", aggregation="mean")
def acc_mutual_info_fn(
    references: int | list[int], predictions: LLResults, multiple_targets: bool = False
) -> int:
    """Return 1 if the option whose likelihood gains most from the context is correct."""
    return _is_target(argmax(floats(predictions.lls_mutual_info)), references)


@register_metric(metric="exact_match_mc", output_type="multiple_choice", aggregation="mean")
def exact_match_mc(references: int | list[int], predictions: LLResults) -> int:
    """Return 1 if greedy decoding yields the correct option, or one of them."""
    targets = references if isinstance(references, (list, tuple)) else [references]
    return int(any(predictions.is_greedy[int(target)] for target in targets if int(target) != _NO_TARGET))


@register_metric(
    metric="bpb", higher_is_better=False, output_type=["loglikelihood", "multiple_choice"], aggregation="mean"
)
def bpb(references: int, predictions: LLResults) -> float:
    """Return the bits per byte of the correct option."""
    target = _index(references)
    return divide(-float(predictions.lls[target]), float(predictions.byte_len()[target])) * NAT_TO_BIT


@register_metric(metric="logprob", output_type=["loglikelihood", "multiple_choice"], aggregation="mean")
def logprob_fn(references: int, predictions: LLResults) -> float:
    """Return the log-likelihood of the correct option."""
    return float(predictions.lls[_index(references)])


@register_metric(metric="choice_logprob", output_type="multiple_choice", aggregation="mean")
def choice_logprob_fn(references: int, predictions: LLResults) -> float:
    """Return the log-probability of the correct option among all options."""
    lls = floats(predictions.lls)
    return lls[_index(references)] - log_add_exp(lls)


@register_metric(metric="choice_prob_norm", output_type="multiple_choice", aggregation="mean")
def choice_prob_norm_fn(references: int, predictions: LLResults) -> float:
    """Return the byte-normalised probability of the correct option among all options."""
    return exp(choice_logprob_norm_fn(references, predictions))


@register_metric(metric="choice_logprob_norm", output_type="multiple_choice", aggregation="mean")
def choice_logprob_norm_fn(references: int, predictions: LLResults) -> float:
    """Return the byte-normalised log-probability of the correct option among all options."""
    weights = _per_length(predictions.lls, predictions.byte_len())
    return weights[_index(references)] - log_add_exp(weights)


@register_metric(
    metric="brier_score", higher_is_better=False, output_type="multiple_choice", aggregation="mean"
)
def brier_score(references: int, predictions: LLResults) -> float:
    """Return the squared error of the options' probabilities."""
    probabilities = softmax(floats(predictions.lls))
    expected = [0.0] * len(probabilities)
    for target in references if isinstance(references, (list, tuple)) else [references]:
        expected[int(target)] = 1.0
    return pairwise_sum([(probability - wanted) ** 2 for probability, wanted in zip(probabilities, expected)])


@register_metric(
    metric="bypass", output_type=["loglikelihood", "multiple_choice", "generate_until"], aggregation="bypass"
)
def bypass(references: Any = None, predictions: Any = None, **kwargs: Any) -> int:
    """Return -1, the value of every document in a predict-only run."""
    return -1
