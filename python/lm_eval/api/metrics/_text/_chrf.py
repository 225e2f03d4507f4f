"""chrF: shared character n-grams and, for chrF++, word n-grams."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence

CHARACTER_ORDER = 6

_PUNCTUATION = frozenset(string.punctuation)


def _words(text: str) -> list[str]:
    """Return the words, with one punctuation mark at the end or else at the start of a word split off."""
    words = []
    for word in text.split():
        if len(word) > 1 and word[-1] in _PUNCTUATION:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in _PUNCTUATION:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words


def _counts(text: str, word_order: int) -> list[Counter[object]]:
    """Return the n-grams of each order."""
    characters = "".join(text.split())
    counts: list[Counter[object]] = [
        Counter(characters[start : start + order] for start in range(len(characters) - order + 1))
        for order in range(1, CHARACTER_ORDER + 1)
    ]
    words = _words(text) if word_order else []
    for order in range(1, word_order + 1):
        counts.append(Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1)))
    return counts


def corpus_chrf(segments: Sequence[tuple[str, list[str]]], word_order: int) -> float:
    """Return the score over all segments."""
    totals = [0] * 3 * (CHARACTER_ORDER + word_order)
    for prediction, references in segments:
        for position, number in enumerate(_best_statistics(prediction, references, word_order)):
            totals[position] += number
    return _score(totals)


def _best_statistics(prediction: str, references: list[str], word_order: int) -> list[int]:
    """Return n-gram counts of prediction, reference and their overlap, for the best-matching reference."""
    predicted = _counts(prediction, word_order)
    best: list[int] = []
    highest = -1.0
    for reference in references:
        numbers = []
        for found, wanted in zip(predicted, _counts(reference, word_order)):
            total = sum(wanted.values())
            shared = sum(min(count, wanted[ngram]) for ngram, count in found.items())
            numbers += [sum(found.values()) if total else 0, total, shared]
        score = _score(numbers)
        if score > highest:
            best, highest = numbers, score
    return best


def _score(totals: Sequence[int]) -> float:
    precision = recall = 0.0
    orders = 0
    for position in range(0, len(totals), 3):
        predicted, reference, shared = totals[position : position + 3]
        if predicted > 0 and reference > 0:
            precision += shared / predicted
            recall += shared / reference
            orders += 1
    if orders == 0:
        return 0.0
    precision /= orders
    recall /= orders
    if precision + recall == 0:
        return 0.0
    return 100 * (5 * precision * recall / (4 * precision + recall))
