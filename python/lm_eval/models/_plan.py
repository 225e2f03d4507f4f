"""Plans the sequences that a causal model must process to score all requests.

A request is scored from the logits at the positions just before the tokens of its continuation. So requests with the
same input share a row, like the one-letter options of a question, and rows with the same context form a family whose
context is computed only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Target(NamedTuple):
    """A continuation that a row scores: the index of its request, and its tokens."""

    request: int
    tokens: tuple[int, ...]


class Row:
    """An input of the model, and the continuations that it scores."""

    def __init__(self, tokens: tuple[int, ...]) -> None:
        self.tokens = tokens
        self.targets: list[Target] = []

    @property
    def scored(self) -> int:
        """The number of positions at the end whose logits are needed."""
        return max(len(target.tokens) for target in self.targets)


class Family:
    """The rows that begin with the same context."""

    def __init__(self, context: tuple[int, ...]) -> None:
        self.context = context
        self.rows: list[Row] = []

    def tail(self, row: Row) -> tuple[int, ...]:
        """Return the tokens of a row after the context."""
        return row.tokens[len(self.context) :]

    @property
    def saved(self) -> int:
        """The number of tokens saved by computing the context once."""
        return len(self.context) * (len(self.rows) - 1)


def families(pairs: list[tuple[list[int], list[int]]], max_length: int, share: bool = True) -> list[Family]:
    """Return the rows to compute for `(context, continuation)` pairs, longest first.

    An input that is longer than the model allows is truncated on the left. Without `share`, each request has its own
    row and family.
    """
    rows: dict[Any, Row] = {}
    for number, (context, continuation) in enumerate(pairs):
        tokens = tuple((context + continuation)[-(max_length + 1) : -1])
        row = rows.setdefault(tokens if share else number, Row(tokens))
        row.targets.append(Target(number, tuple(continuation)))
    found: dict[Any, Family] = {}
    for key, row in rows.items():
        # The longest continuation decides: one sequence may be split at several positions, and the rows of a family
        # have logits from the last token of its context on.
        head = row.tokens[: len(row.tokens) - row.scored + 1]
        found.setdefault(head if share else key, Family(head)).rows.append(row)
    return sorted(
        found.values(), key=lambda family: (-max(len(row.tokens) for row in family.rows), family.context)
    )


def batches(items: list, size: Callable[[int], int]) -> Iterator[list]:
    """Yield consecutive items in batches of `size(index of the first)`."""
    start = 0
    while start < len(items):
        end = start + max(1, size(start))
        yield items[start:end]
        start = end
