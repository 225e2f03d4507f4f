"""BLEU, chrF and TER over `(references, prediction)` pairs, with the defaults of sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["bleu", "chrf", "chrf_plus_plus", "ter"]

Segment = tuple[str, list[str]]


def bleu(items: Sequence[tuple[Any, Any]]) -> float:
    """Return corpus BLEU, from 0 to 100."""
    from lm_eval.api.metrics._text._bleu import corpus_bleu

    return corpus_bleu(_segments(items))


def chrf(items: Sequence[tuple[Any, Any]]) -> float:
    """Return corpus chrF over characters, from 0 to 100."""
    from lm_eval.api.metrics._text._chrf import corpus_chrf

    return corpus_chrf(_segments(items), word_order=0)


def chrf_plus_plus(items: Sequence[tuple[Any, Any]]) -> float:
    """Return corpus chrF over characters and word bigrams, from 0 to 100."""
    from lm_eval.api.metrics._text._chrf import corpus_chrf

    return corpus_chrf(_segments(items), word_order=2)


def ter(items: Sequence[tuple[Any, Any]]) -> float:
    """Return the translation edit rate, in edits per hundred words."""
    from lm_eval.api.metrics._text._ter import corpus_ter

    return corpus_ter(_segments(items))


def _segments(items: Sequence[tuple[Any, Any]]) -> list[Segment]:
    """Return the prediction and the references of each document."""
    segments = [(_prediction(predictions), _references(references)) for references, predictions in items]
    if len({len(references) for _, references in segments}) > 1:
        raise ValueError("All documents need the same number of references")
    for number, (_, references) in enumerate(segments):
        if all(reference is None for reference in references):
            raise ValueError(f"Document {number} has no reference")
    return [
        (prediction, [reference for reference in references if reference is not None])
        for prediction, references in segments
    ]


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
