"""BLEU, chrF and TER over `(references, prediction)` pairs, with the defaults of sacrebleu. The engine computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lm_eval import _host
from lm_eval.api.registry import register_aggregation

__all__ = ["bleu", "chrf", "chrfpp", "ter"]

Pairs = Sequence[tuple[Any, Any]]


@register_aggregation("bleu")
def bleu(items: Pairs) -> float:
    """Return corpus BLEU, from 0 to 100."""
    return _host.aggregate("bleu", _plain(items))


@register_aggregation("chrf")
def chrf(items: Pairs) -> float:
    """Return corpus chrF over characters, from 0 to 100."""
    return _host.aggregate("chrf", _plain(items))


@register_aggregation("chrf++")
def chrfpp(items: Pairs) -> float:
    """Return corpus chrF over characters and word bigrams, from 0 to 100."""
    return _host.aggregate("chrf++", _plain(items))


@register_aggregation("ter")
def ter(items: Pairs) -> float:
    """Return the translation edit rate, in edits per hundred words."""
    return _host.aggregate("ter", _plain(items))


def stderr(score: Callable[..., Any], items: Any, resamples: int) -> float | None:
    """Return the bootstrapped standard error of one of these functions; `None` for all others."""
    functions = {"bleu": bleu, "chrf": chrf, "chrf++": chrfpp, "ter": ter}
    name = next((name for name, function in functions.items() if function is score), None)
    return None if name is None else _host.aggregate(name, _plain(items), resamples)


def _plain(items: Pairs) -> list[tuple[list[Any], list[str]]]:
    """Return all references and predictions as lists, whichever of the accepted forms they have."""
    return [(_references(references), [_prediction(predictions)]) for references, predictions in items]


def _prediction(predictions: Any) -> str:
    if not isinstance(predictions, str):
        if len(predictions) != 1:
            raise ValueError(f"A document must have one prediction, not {len(predictions)}")
        predictions = predictions[0]
    if not isinstance(predictions, str):
        raise TypeError(f"A prediction must be a string, not {predictions!r}")
    return predictions


def _references(references: Any) -> list[Any]:
    if isinstance(references, str):
        return [references]
    if len(references) == 1 and isinstance(references[0], (list, tuple)):
        references = references[0]
    for reference in references:
        if not (reference is None or isinstance(reference, str)):
            raise TypeError(f"A reference must be a string, not {reference!r}")
    return list(references)
