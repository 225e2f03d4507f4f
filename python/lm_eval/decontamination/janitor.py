"""Removes passages that also occur in a set of contaminating documents."""

from __future__ import annotations

import pickle
import re
import string
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

__all__ = ["JANITOR_CPP", "Janitor", "form_ngrams", "split_indices", "word_ngrams", "word_ngrams_indices"]

T = TypeVar("T")

JANITOR_CPP = False
"""Whether there is a C++ implementation; always false here."""


def form_ngrams(sequence: Iterable[T], n: int) -> Iterator[tuple[T, ...]]:
    """Yield every run of `n` elements."""
    window: deque[T] = deque(maxlen=n)
    for element in sequence:
        window.append(element)
        if len(window) == n:
            yield tuple(window)


def word_ngrams(s: str, n: int) -> Iterator[str]:
    """Yield every run of `n` words, with one space between words."""
    return (" ".join(words) for words in form_ngrams(s.split(), n))


def split_indices(s: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each word with the indices of its first and last character."""
    for word in re.finditer(r"\S+", s):
        start, end = word.span()
        yield word[0], (start, end - 1)


def word_ngrams_indices(s: str, n: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield every run of `n` words with the indices of its first and last character."""
    for run in form_ngrams(split_indices(s), n):
        yield " ".join(word for word, _ in run), (run[0][1][0], run[-1][1][1])


@dataclass(eq=False)
class Janitor:
    """Removes the word n-grams of contaminating documents from other documents.

    Around each shared n-gram, `window_to_remove` characters are removed as well. Pieces shorter than
    `minimum_slice_length` are dropped; a document with more than `too_dirty_cutoff` shared n-grams is dropped
    entirely.
    """

    ngram_n: int = 13
    window_to_remove: int = 200
    too_dirty_cutoff: int = 10
    minimum_slice_length: int = 200
    delete_chars: str = string.punctuation
    dirt_ngrams: set[str] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        upper, lower = string.ascii_uppercase, string.ascii_lowercase
        self.translation_table = str.maketrans(upper, lower, self.delete_chars)

    def save_contamination_ngrams(self, filename: str) -> None:
        """Write the known n-grams to a file."""
        with open(filename, "wb") as file:
            pickle.dump(self.dirt_ngrams, file)

    def load_contamination_ngrams(self, filename: str) -> None:
        """Read the known n-grams from a file written by this class."""
        with open(filename, "rb") as file:
            self.dirt_ngrams = pickle.load(file)

    def normalize_string(self, s: str) -> str:
        """Return a string in lower case and without the deleted characters."""
        return s.translate(self.translation_table)

    def register_contaminant(self, dirt_string: str) -> None:
        """Add the n-grams of a contaminating document."""
        self.dirt_ngrams.update(word_ngrams(self.normalize_string(dirt_string), self.ngram_n))

    register_contaminant_python = register_contaminant

    def clean(self, dirty_string: str) -> list[str]:
        """Return the clean pieces of a document."""
        found = (
            span
            for words, span in word_ngrams_indices(dirty_string, self.ngram_n)
            if self.normalize_string(words) in self.dirt_ngrams
        )
        pieces: list[str] = []
        cuts, rest, last = 0, 0, -1
        for start, end in found:
            start = max(0, start - self.window_to_remove)
            last = min(len(dirty_string), end + self.window_to_remove)
            cuts += 1
            if start - rest > self.minimum_slice_length:
                pieces.append(dirty_string[rest:start])
            # Reference: a piece between two cuts begins with the last character of the first cut.
            rest = last
        if cuts > self.too_dirty_cutoff:
            return []
        if len(dirty_string) - last > self.minimum_slice_length:
            pieces.append(dirty_string[last + 1 :])
        return pieces

    clean_python = clean
