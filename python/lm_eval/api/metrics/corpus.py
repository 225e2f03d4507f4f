"""Corpus metrics: their per-document values are only meaningful to their own aggregation."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from lm_eval.api.metrics import _text
from lm_eval.api.metrics._numeric import argmax, floats
from lm_eval.api.metrics.aggregations import bits_per_byte, mean, perplexity, weighted_perplexity
from lm_eval.api.metrics.results import LLResults
from lm_eval.api.registry import register_aggregation, register_metric

logger = logging.getLogger(__name__)

_R = TypeVar("_R")
_T = TypeVar("_T")

__all__ = [
    "F1",
    "MCC",
    "BitsPerByte",
    "Bleu",
    "BytePerplexity",
    "Chrf",
    "ChrfPlusPlus",
    "CorpusMetric",
    "Likelihood",
    "Perplexity",
    "Ter",
    "WordPerplexity",
    "f1_score",
    "matthews_corrcoef",
]


class CorpusMetric(ABC, Generic[_R, _T]):
    """Base class of metrics that are computed over all documents at once.

    Calling it returns the value of one document; `aggregation` returns the score over all of them.
    """

    @abstractmethod
    def __call__(self, references: Any, predictions: _R, **kwargs: Any) -> _T:
        """Return the value of one document."""

    @abstractmethod
    def aggregation(self, items: Sequence[_T]) -> float:
        """Return the score over all documents."""

    def reduce(self, references: Any, predictions: Sequence[_T], **kwargs: Any) -> _T:
        """Return the value of the first repeat."""
        if len(predictions) > 1:
            logger.warning("`%s` scores only the first of %d repeats", type(self).__name__, len(predictions))
        return predictions[0]


def _one_index(references: Any) -> int:
    if isinstance(references, (list, tuple)):
        raise TypeError("The metric takes one target, not a list")
    return int(references)


@register_metric(metric="perplexity", higher_is_better=False, output_type="loglikelihood")
class Perplexity(CorpusMetric[LLResults, float]):
    """Perplexity of the correct continuations."""

    def __call__(self, references: Any, predictions: LLResults, **kwargs: Any) -> float:
        """Return the log-likelihood of the target."""
        lls = floats(predictions.lls)
        return lls[0] if len(lls) == 1 else lls[_one_index(references)]

    def aggregation(self, items: Sequence[float]) -> float:
        """Return exp of the negated mean."""
        return perplexity(items)


class _PerLength(CorpusMetric[LLResults, "tuple[float, int]"]):
    """Base class of metrics whose value is a log-likelihood with a length."""

    def _length(self, predictions: LLResults, index: int) -> int:
        return int(predictions.byte_len()[index])

    def __call__(self, references: Any, predictions: LLResults, **kwargs: Any) -> tuple[float, int]:
        """Return the log-likelihood and the length of the target."""
        index = _one_index(references)
        return float(predictions.lls[index]), self._length(predictions, index)

    def aggregation(self, items: Sequence[tuple[float, int]]) -> float:
        """Return the perplexity per unit of length."""
        return weighted_perplexity(items)


@register_metric(metric="word_perplexity", higher_is_better=False, output_type="loglikelihood_rolling")
class WordPerplexity(_PerLength):
    """Perplexity per word."""

    def _length(self, predictions: LLResults, index: int) -> int:
        return int(predictions.word_len()[index])


@register_metric(metric="byte_perplexity", higher_is_better=False, output_type="loglikelihood_rolling")
class BytePerplexity(_PerLength):
    """Perplexity per byte."""


@register_metric(metric="bits_per_byte", higher_is_better=False, output_type="loglikelihood_rolling")
class BitsPerByte(_PerLength):
    """Bits per byte."""

    def aggregation(self, items: Sequence[tuple[float, int]]) -> float:
        """Return the bits per byte over all documents."""
        return bits_per_byte(items)


@register_metric(metric="likelihood", output_type="multiple_choice")
class Likelihood(CorpusMetric[LLResults, "tuple[Any, tuple[float, ...]]"]):
    """The target with all log-likelihoods, for user-defined aggregations."""

    def __call__(
        self, references: Any, predictions: LLResults, **kwargs: Any
    ) -> tuple[Any, tuple[float, ...]]:
        """Return the target and the log-likelihoods."""
        return references, tuple(floats(predictions.lls))

    def aggregation(self, items: Sequence[tuple[Any, tuple[float, ...]]]) -> float:
        """Return the mean log-likelihood of the targets."""
        return mean([lls[target] for target, lls in items])


class _Classification(CorpusMetric[LLResults, "tuple[Any, int]"]):
    """Base class of metrics whose value is the gold and the predicted label."""

    def __call__(self, references: Any, predictions: LLResults, **kwargs: Any) -> tuple[Any, int]:
        """Return the gold label and the most likely option."""
        return references, argmax(floats(predictions.lls))


@register_aggregation("f1")
def f1_score(items: Sequence[tuple[Any, Any]]) -> float:
    """Return the F1 score of the label 1 over `(gold, prediction)` pairs."""
    golds, predictions = zip(*items)
    labels = {*golds, *predictions}
    if len(labels) > 2 or (len(labels) == 2 and 1 not in labels):
        raise ValueError(f"F1 needs two labels, one of which is 1, not {sorted(labels, key=repr)}")
    true_positives = sum(gold == 1 and predicted == 1 for gold, predicted in items)
    wrong = sum((gold == 1) != (predicted == 1) for gold, predicted in items)
    denominator = 2 * true_positives + wrong
    return 2 * true_positives / denominator if denominator else 0.0


@register_aggregation("matthews_corrcoef")
def matthews_corrcoef(items: Sequence[tuple[Any, Any]]) -> float:
    """Return the Matthews correlation coefficient of `(gold, prediction)` pairs."""
    golds, predictions = zip(*items)
    gold_counts, predicted_counts = Counter(golds), Counter(predictions)
    total = len(golds)
    correct = sum(gold == predicted for gold, predicted in items)
    covariance = correct * total - sum(
        count * predicted_counts[label] for label, count in gold_counts.items()
    )
    spread = (total**2 - sum(count**2 for count in predicted_counts.values())) * (
        total**2 - sum(count**2 for count in gold_counts.values())
    )
    return covariance / math.sqrt(spread) if spread else 0.0


@register_metric(metric="f1", output_type="multiple_choice")
class F1(_Classification):
    """F1 score of the most likely options."""

    def aggregation(self, items: Sequence[tuple[Any, int]]) -> float:
        """Return the F1 score of the label 1."""
        return f1_score(items)


@register_metric(metric="mcc", output_type="multiple_choice", aggregation="matthews_corrcoef")
def mcc_fn(items: Any) -> Any:
    """Return the pair of gold and predicted label: the aggregation does the computing.

    A function, as in the documentation's example of a metric with its own aggregation, which defines it again.
    """
    return items


class MCC(_Classification):
    """Matthews correlation coefficient of the most likely options."""

    def aggregation(self, items: Sequence[tuple[Any, int]]) -> float:
        """Return the Matthews correlation coefficient."""
        return matthews_corrcoef(items)


class _SacrebleuCorpusMetric(CorpusMetric["list[str]", "tuple[Any, Any]"]):
    """Base class of metrics that compare all generations with all references."""

    score: ClassVar[Any]

    def __call__(self, references: Any, predictions: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return references and predictions unchanged."""
        return references, predictions

    def aggregation(self, items: Sequence[tuple[Any, Any]]) -> float:
        """Return the score over all documents."""
        return type(self).score(items)

    def reduce(
        self, references: Any, predictions: Sequence[tuple[Any, Any]], **kwargs: Any
    ) -> tuple[Any, Any]:
        """Return the first value with its first prediction."""
        wanted, found = super().reduce(references, predictions)
        return wanted, found if isinstance(found, str) else found[:1]


def corpus_score(aggregation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that an aggregation calls, if it is the method of such a metric, else the aggregation."""
    is_plain = getattr(aggregation, "__func__", None) is _SacrebleuCorpusMetric.aggregation
    return type(aggregation.__self__).score if is_plain else aggregation  # type: ignore[attr-defined]


@register_metric(metric="bleu", output_type="generate_until")
class Bleu(_SacrebleuCorpusMetric):
    """BLEU, from 0 to 100."""

    score = staticmethod(_text.bleu)


@register_metric(metric="chrf", output_type="generate_until")
class Chrf(_SacrebleuCorpusMetric):
    """chrF over characters, from 0 to 100."""

    score = staticmethod(_text.chrf)


@register_metric(metric="chrf++", output_type="generate_until")
class ChrfPlusPlus(_SacrebleuCorpusMetric):
    """chrF over characters and word bigrams, from 0 to 100."""

    score = staticmethod(_text.chrfpp)


@register_metric(metric="ter", higher_is_better=False, output_type="generate_until")
class Ter(_SacrebleuCorpusMetric):
    """Translation edit rate: the edits per hundred reference words."""

    score = staticmethod(_text.ter)
