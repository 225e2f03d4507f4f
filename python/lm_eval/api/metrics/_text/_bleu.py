"""BLEU: shared token n-grams up to length four."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

ORDER = 4

_ENTITIES = {"&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}

# The tokenizer of NIST's mteval-v13a. All ASCII punctuation is a separate token, except an apostrophe and punctuation
# within numbers: a period or comma is separate unless it has a digit on both sides, a hyphen only after a digit.
_PUNCTUATION = str.maketrans({mark: f" {mark} " for mark in set(string.punctuation) - set("',-.")})
# These match two characters at a time, from the left, and a character belongs to one pair only: of the two periods in
# "..5" the second has no partner before it, and stays with the number.
_PAIRS = (
    (re.compile("[^0-9][.,]"), "{} {} "),
    (re.compile("[.,][^0-9]"), " {} {}"),
    (re.compile("[0-9]-"), "{} {} "),
)


def tokenize_13a(text: str) -> list[str]:
    """Tokenize a segment: punctuation becomes separate tokens, except within numbers."""
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES.items():
        text = text.replace(entity, character)
    text = f" {text.translate(_PUNCTUATION)} "
    for pair, spaced in _PAIRS:
        text = _space(text, pair, spaced)
    return text.split()


def _space(text: str, pair: re.Pattern[str], spaced: str) -> str:
    return pair.sub(lambda found: spaced.format(*found[0]), text)


def _ngrams(tokens: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(tokens[start : start + order])
        for order in range(1, ORDER + 1)
        for start in range(len(tokens) - order + 1)
    )


def corpus_bleu(segments: Sequence[tuple[str, list[str]]]) -> float:
    """Return the score over all segments."""
    matches, totals = [0] * ORDER, [0] * ORDER
    predicted_length = reference_length = 0
    for prediction, references in segments:
        tokens = tokenize_13a(prediction.rstrip())
        wanted: Counter[tuple[str, ...]] = Counter()
        lengths = []
        for reference in references:
            reference_tokens = tokenize_13a(reference.rstrip())
            lengths.append(len(reference_tokens))
            wanted |= _ngrams(reference_tokens)
        predicted_length += len(tokens)
        reference_length += min(lengths, key=lambda length: (abs(length - len(tokens)), length))
        for ngram, count in _ngrams(tokens).items():
            totals[len(ngram) - 1] += count
            matches[len(ngram) - 1] += min(count, wanted[ngram])
    return _score(matches, totals, predicted_length, reference_length)


def _score(matches: list[int], totals: list[int], predicted_length: int, reference_length: int) -> float:
    if not any(matches):
        return 0.0
    brevity = 1.0
    if predicted_length < reference_length:
        brevity = math.exp(1 - reference_length / predicted_length) if predicted_length else 0.0
    smoothing = 1.0
    precisions = [0.0] * ORDER
    for order in range(ORDER):
        if totals[order] == 0:
            break
        if matches[order] == 0:
            smoothing *= 2
            precisions[order] = 100.0 / (smoothing * totals[order])
        else:
            precisions[order] = 100.0 * matches[order] / totals[order]
    logarithm = 0.0
    for precision in precisions:
        logarithm += math.log(precision) if precision else -9999999999.0
    return brevity * math.exp(logarithm / ORDER)
