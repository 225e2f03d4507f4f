"""TER: word edits, where moving a run of words is one edit.

The measure is that of Snover et al. (AMTA 2006), with sacrebleu's choices where the paper leaves them open.
`crates/lmeval-metrics/src/generation/ter_edits.rs` lists these choices; rule numbers below refer to that list.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

LONGEST_RUN = 10
FARTHEST_RUN = 50
MOST_TRIALS = 1000
HALF_BAND = 25

_FAR = 1 << 40


def corpus_ter(segments: Sequence[tuple[str, list[str]]]) -> float:
    """Return the edits per hundred reference words."""
    edits = length = 0.0
    for prediction, references in segments:
        words = prediction.rstrip().lower().split()
        all_references = [reference.rstrip().lower().split() for reference in references]
        edits += min(count_edits(words, reference) for reference in all_references)
        length += sum(len(reference) for reference in all_references) / len(all_references)
    if length > 0:
        return 100.0 * (edits / length)
    return 100.0 if edits > 0 else 0.0


def count_edits(words: list[str], reference: list[str]) -> int:
    """Return the number of edits from the words to the reference."""
    if not reference:
        return len(words)
    search = _Search(words, reference)
    moves = 0
    while search.improve():
        moves += 1
    return moves + search.distance


class _Grid:
    """The shape of a distance table: one row per word, one column per reference word."""

    def __init__(self, height: int, reference: list[str]) -> None:
        self.height = height
        self.reference = reference
        slope = len(reference) / height if height else 1.0
        half = HALF_BAND + math.ceil(slope / 2) if slope / 2 > HALF_BAND else HALF_BAND
        # Rule 2: the columns of each row that are computed.
        diagonals = [math.floor(row * slope) for row in range(height + 1)]
        self.bands = [(max(at - half, 0), min(at + half, len(reference) + 1)) for at in diagonals]
        self.bands[height] = (self.bands[height][0], len(reference) + 1)

    def first_row(self) -> list[int]:
        return list(range(len(self.reference) + 1))

    def rows(self, above: list[int], done: int, words: list[str]) -> Iterator[list[int]]:
        """Yield the rows after row `done`, which is `above`."""
        for row in range(done + 1, self.height + 1):
            start, end = self.bands[row]
            word, left = words[row - 1], _FAR
            cells = [_FAR] * start
            if start == 0:
                left = above[0] + 1
                cells.append(left)
            for column in range(len(cells), end):
                paired = above[column - 1] + (word != self.reference[column - 1])
                left = min(paired, above[column] + 1, left + 1)
                cells.append(left)
            cells += [_FAR] * (len(self.reference) + 1 - end)
            yield cells
            above = cells


class _Search:
    """Moves runs of words as long as that reduces the edits."""

    def __init__(self, words: list[str], reference: list[str]) -> None:
        self.words = words
        self.reference = reference
        self.grid = _Grid(len(words), reference)
        self.trials = 0
        self.distance = 0
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(reference):
            self.places[word].append(place)

    def improve(self) -> bool:
        """Make the best move; return whether any move helped."""
        first = self.grid.first_row()
        rows = [first, *self.grid.rows(first, 0, self.words)]
        self.distance = rows[-1][-1]
        consumed, wrong_words, wrong_reference = self._align(rows)
        best = None
        for start, place, length in self._runs():
            if (
                True not in wrong_words[start : start + length]
                or True not in wrong_reference[place : place + length]
                or start < consumed[place + 1] <= start + length
            ):
                continue
            targets = consumed[place : place + length + 1]
            for number, target in enumerate(targets):
                if number and target == targets[number - 1]:
                    continue
                moved, unchanged = _moved(self.words, start, length, target)
                *_, last = rows[unchanged], *self.grid.rows(rows[unchanged], unchanged, moved)
                self.trials += 1
                candidate = (self.distance - last[-1], length, -start, -target, moved)
                best = candidate if best is None else max(best, candidate)
            # Rule 9: a round that reaches the limit moves nothing.
            if self.trials >= MOST_TRIALS:
                return False
        if best is None or best[0] <= 0:
            return False
        self.words = best[-1]
        return True

    def _align(self, rows: list[list[int]]) -> tuple[list[int], list[bool], list[bool]]:
        """Trace back through the rows by rule 3.

        Returns how many words are consumed up to each reference word, and which words of both lists are misaligned.
        """
        row, column = len(self.words), len(self.reference)
        consumed = [0] * (column + 1)
        wrong_words, wrong_reference = [True] * row, [True] * column
        while row or column:
            cost = rows[row][column]
            wrong = not (row and column) or self.words[row - 1] != self.reference[column - 1]
            if row and column and rows[row - 1][column - 1] + wrong == cost:
                consumed[column] = row
                row, column = row - 1, column - 1
                wrong_words[row] = wrong_reference[column] = wrong
            elif row and rows[row - 1][column] + 1 == cost:
                row -= 1
            else:
                consumed[column] = row
                column -= 1
        return consumed, wrong_words, wrong_reference

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield the runs of rule 5: start among the words, start in the reference, length."""
        words, reference = self.words, self.reference
        for start, word in enumerate(words):
            places = self.places.get(word, [])
            low, high = bisect_left(places, start - FARTHEST_RUN), bisect_right(places, start + FARTHEST_RUN)
            for place in places[low:high]:
                for length in range(1, min(LONGEST_RUN, len(words) - start, len(reference) - place) + 1):
                    if words[start + length - 1] != reference[place + length - 1]:
                        break
                    yield start, place, length


def _moved(words: list[str], start: int, length: int, target: int) -> tuple[list[str], int]:
    """Return the words with a run moved, and how many leading words are certainly unchanged."""
    rest = words[:start] + words[start + length :]
    # Rule 7: a target position after the run is an index into the words; any other excludes the run.
    if target > start + length:
        target -= length
    return rest[:target] + words[start : start + length] + rest[target:], min(start, target)
