"""Metrics over generations."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from lm_eval.api.registry import register_metric

__all__ = ["exact_match_fn"]

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WITHOUT_DIGITS = str.maketrans("", "", string.digits)


@register_metric(metric="exact_match", output_type="generate_until", aggregation="mean", reduction="pass@k")
def exact_match_fn(
    references: list[str] | list[list[str]],
    predictions: list[str],
    multiple_targets: bool = False,
    **kwargs: Any,
) -> dict[str, list[int]]:
    """Return, for each prediction, 1 if it equals the reference or one of several references.

    Options: `regexes_to_ignore`, `ignore_case`, `ignore_punctuation`, `ignore_numbers`.
    """
    several = bool(len(references)) and isinstance(references[0], (list, tuple))
    if multiple_targets or several:
        targets = list(references[0]) if several else list(references)
        prepared = _prepare(targets, **kwargs)
        found = _prepare(predictions, **kwargs)
        return {"exact_match": [int(any(_equal(one, target) for target in prepared)) for one in found]}
    wanted = _prepare(references, **kwargs)
    found = _prepare(predictions, **kwargs)
    if len(wanted) == 1:
        wanted = wanted * len(found)
    elif len(found) == 1:
        found = found * len(wanted)
    if len(wanted) != len(found):
        raise ValueError(f"Cannot compare {len(found)} predictions with {len(wanted)} references")
    return {"exact_match": [int(_equal(one, other)) for one, other in zip(found, wanted)]}


def _prepare(
    values: Sequence[Any],
    *,
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> list[Any]:
    """Return one side of the comparison with everything removed that is to be ignored."""
    column = _column(values)
    if regexes_to_ignore:
        column = [str(value) for value in column]
        for pattern in regexes_to_ignore:
            column = [re.sub(pattern, "", text) for text in column]
    if ignore_case:
        column = _lowered(column)
    if ignore_punctuation:
        column = [str(value).translate(_WITHOUT_PUNCTUATION) for value in column]
    if ignore_numbers:
        column = [str(value).translate(_WITHOUT_DIGITS) for value in column]
    return column


def _column(values: Sequence[Any]) -> list[Any]:
    """Return the values as a column of one type: numbers mixed with strings become strings."""
    column = list(values)
    has_text = any(isinstance(value, str) for value in column)
    if has_text and all(isinstance(value, (str, int, float)) for value in column):
        return [str(value) for value in column]
    return column


def _lowered(column: list[Any]) -> list[str]:
    """Return the strings in lower case."""
    if not all(isinstance(value, str) for value in column):
        raise TypeError("`ignore_case` needs strings, not numbers")
    # Reference: a string column has a fixed width, so a longer lower-case form is cut off.
    width = max((len(text) for text in column), default=0)
    return [text.lower()[:width] for text in column]


def _equal(left: Any, right: Any) -> bool:
    """Compare two cells; a string never equals a number, and trailing NUL characters are ignored."""
    if isinstance(left, str) != isinstance(right, str):
        return False
    if isinstance(left, str):
        return left.rstrip("\0") == right.rstrip("\0")
    return bool(left == right)
