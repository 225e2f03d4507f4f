"""Scorers: from filtered answers to results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval.api.registry import get_scorer, register_scorer
from lm_eval.scorers._base import GenScorer, LLScorer, Scorer
from lm_eval.scorers._builtin import ChoiceMatchScorer, FirstTokenScorer, RegexExtractionScorer
from lm_eval.scorers._types import MetricKey, ReducedDoc, ScoredDoc

__all__ = [
    "ChoiceMatchScorer",
    "FirstTokenScorer",
    "GenScorer",
    "LLScorer",
    "MetricKey",
    "ReducedDoc",
    "RegexExtractionScorer",
    "ScoredDoc",
    "Scorer",
    "build_scorer",
    "register_scorer",
]

_BY_OUTPUT_TYPE: dict[str, type[Scorer]] = {
    "generate_until": GenScorer,
    "loglikelihood": LLScorer,
    "loglikelihood_rolling": LLScorer,
    "multiple_choice": LLScorer,
}


def build_scorer(
    cfg: Mapping[str, Any] | None = None,
    output_type: str | None = None,
    scorer_type: str | Mapping[str, Any] | None = None,
) -> Scorer:
    """Make the scorer of a pipeline.

    `scorer_type` is the name of a scorer, or a mapping with its name under `type` and arguments of its class
    beside it or under `kwargs`, which wins; without it the output type decides.
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
    return scorer_class.from_dict({"name": name} if cfg is None else cfg, output_type, **arguments)
