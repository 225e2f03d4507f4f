"""Recorded values and how they are compared."""

from __future__ import annotations

import json
import math
import unittest
from pathlib import Path
from typing import Any

UNITS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "units"

_TEXTS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def cases(name: str) -> list[dict[str, Any]]:
    """Return the recorded cases of one part."""
    return json.loads((UNITS / f"{name}.json").read_text(encoding="utf-8"))


class GoldenTestCase(unittest.TestCase):
    """Compares with recorded values and counts the comparisons."""

    compared = 0

    def assert_recorded(self, actual: Any, expected: Any, message: str) -> None:
        """Check one recorded value; numbers may differ by a relative error of 1e-12."""
        type(self).compared += 1
        self.assertTrue(_same(actual, expected), f"{message}: {actual!r} is not {expected!r}")

    @classmethod
    def tearDownClass(cls) -> None:
        """Print how many values were compared."""
        print(f"{cls.__name__}: {cls.compared} recorded values are equal")


def _same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(_same, actual, expected))
    if isinstance(expected, dict):
        return list(actual) == list(expected) and all(_same(actual[key], expected[key]) for key in expected)
    if isinstance(actual, float) and isinstance(expected, str):
        expected = _TEXTS[expected]
    if isinstance(actual, (int, float)) and isinstance(expected, (int, float)):
        if math.isnan(expected):
            return math.isnan(actual)
        return math.isclose(actual, expected, rel_tol=1e-12, abs_tol=0.0)
    return type(actual) is type(expected) and actual == expected
