"""TER: the edits between words, where moving a run of words is one edit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

MAXIMUM_RUN = 10
MAXIMUM_DISTANCE = 50
MAXIMUM_CANDIDATES = 1000
BAND = 25

_MATCH, _SUBSTITUTION, _DELETION, _INSERTION, _NOTHING = range(5)
_OUTSIDE = (10**16, _NOTHING)

Row = list[tuple[int, int]]


def corpus_ter(segments: Sequence[tuple[str, list[str]]]) -> float:
    """Return the edits per hundred words of reference."""
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
    """Return the edits from words to reference; the best shift is made as long as it helps."""
    if not reference:
        return len(words)
    shifts = candidates = 0
    while True:
        matrix = _matrix(words, reference)
        distance = matrix[-1][-1][0]
        best, tried = _best_shift(words, reference, matrix, candidates)
        candidates = tried
        # Reference: once too many shifts were tried, the one just found is dropped.
        if best is None or candidates >= MAXIMUM_CANDIDATES or best[0] <= 0:
            return shifts + distance
        shifts += 1
        words = best[4]


def _matrix(words: list[str], reference: list[str]) -> list[Row]:
    """Return the distances of all prefixes, within a band around the diagonal."""
    rows: list[Row] = [[(column, _INSERTION) for column in range(len(reference) + 1)]]
    for number in range(1, len(words) + 1):
        rows.append(_next_row(rows[-1], number, words, reference))
    return rows


def _next_row(above: Row, number: int, words: list[str], reference: list[str]) -> Row:
    ratio = len(reference) / len(words)
    width = math.ceil(ratio / 2 + BAND) if ratio / 2 > BAND else BAND
    diagonal = math.floor(number * ratio)
    end = len(reference) + 1
    if number != len(words):
        end = min(diagonal + width, end)
    cells: Row = [_OUTSIDE] * (len(reference) + 1)
    word = words[number - 1]
    for column in range(max(diagonal - width, 0), end):
        if column == 0:
            cells[0] = (above[0][0] + 1, _DELETION)
            continue
        match = word == reference[column - 1]
        best = _OUTSIDE
        for candidate in (
            (above[column - 1][0] + (not match), _MATCH if match else _SUBSTITUTION),
            (above[column][0] + 1, _DELETION),
            (cells[column - 1][0] + 1, _INSERTION),
        ):
            if candidate[0] < best[0]:
                best = candidate
        cells[column] = best
    return cells


def _alignment(matrix: list[Row]) -> tuple[list[int], list[bool], list[bool]]:
    """Return where each reference word stands among the words, and which words of both are wrong."""
    operations = []
    row, column = len(matrix) - 1, len(matrix[0]) - 1
    while row > 0 or column > 0:
        operation = matrix[row][column][1]
        operations.append(operation)
        if operation in (_MATCH, _SUBSTITUTION):
            row, column = row - 1, column - 1
        elif operation == _INSERTION:
            column -= 1
        else:
            row -= 1
    positions, word_errors, reference_errors = [], [], []
    position = -1
    for operation in reversed(operations):
        if operation != _INSERTION:
            position += 1
            word_errors.append(operation != _MATCH)
        if operation != _DELETION:
            positions.append(position)
            reference_errors.append(operation != _MATCH)
    return positions, word_errors, reference_errors


Candidate = tuple[int, int, int, int, list[str]]


def _best_shift(
    words: list[str], reference: list[str], matrix: list[Row], candidates: int
) -> tuple[Candidate | None, int]:
    """Return the shift that gains most, and how many shifts were tried so far."""
    before = matrix[-1][-1][0]
    positions, word_errors, reference_errors = _alignment(matrix)
    best: Candidate | None = None
    for start, reference_start, length in _common_runs(words, reference):
        if (
            not any(word_errors[start : start + length])
            or not any(reference_errors[reference_start : reference_start + length])
            or start <= positions[reference_start] < start + length
        ):
            continue
        previous = None
        for offset in range(-1, length):
            place = reference_start + offset
            target = 0 if place == -1 else positions[place] + 1
            if target == previous:
                continue
            previous = target
            shifted = _shift(words, start, length, target)
            gain = before - _distance(words, shifted, reference, matrix)
            candidates += 1
            candidate = (gain, length, -start, -target, shifted)
            if best is None or candidate > best:
                best = candidate
        if candidates >= MAXIMUM_CANDIDATES:
            break
    return best, candidates


def _distance(words: list[str], shifted: list[str], reference: list[str], matrix: list[Row]) -> int:
    """Return the distance of shifted words; rows of the words before the shift are known already."""
    same = next((number for number, pair in enumerate(zip(words, shifted)) if pair[0] != pair[1]), len(words))
    row = matrix[same]
    for number in range(same + 1, len(shifted) + 1):
        row = _next_row(row, number, shifted, reference)
    return row[-1][0]


def _common_runs(words: list[str], reference: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield each run of equal words: its start in both lists and its length, shorter ones first."""
    for start in range(len(words)):
        first = max(start - MAXIMUM_DISTANCE, 0)
        for reference_start in range(first, min(start + MAXIMUM_DISTANCE + 1, len(reference))):
            for length in range(1, MAXIMUM_RUN + 1):
                last, reference_last = start + length - 1, reference_start + length - 1
                if last >= len(words) or reference_last >= len(reference):
                    break
                if words[last] != reference[reference_last]:
                    break
                yield start, reference_start, length


def _shift(words: list[str], start: int, length: int, target: int) -> list[str]:
    """Return the words with a run moved to another place."""
    end = start + length
    run = words[start:end]
    if target < start:
        return words[:target] + run + words[target:start] + words[end:]
    if target <= end:
        # Within the run, the target counts the words that follow it.
        target = length + target
    return words[:start] + words[end:target] + run + words[target:]
