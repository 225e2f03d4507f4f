"""Runs the tests of modules, or all: `python -m tests [MODULE ...]`. With `CI=true`, a skipped test is a failure."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path


def main() -> int:
    """Run the tests, and name those that were skipped."""
    folder = Path(__file__).parent
    loader = unittest.defaultTestLoader
    if sys.argv[1:]:
        suite = loader.loadTestsFromNames([f"tests.{name}" for name in sys.argv[1:]])
    else:
        suite = loader.discover(str(folder), top_level_dir=str(folder.parent))
    result = unittest.TextTestRunner(verbosity=1, buffer=False).run(suite)
    skipped = [(str(test), reason) for test, reason in result.skipped if ELSEWHERE not in reason]
    for test, reason in skipped:
        print(f"SKIPPED {test}: {reason}", file=sys.stderr)
    if skipped and os.environ.get("CI") == "true":
        print("error: with `CI=true`, no test may be skipped", file=sys.stderr)
        return 1
    return 0 if result.wasSuccessful() else 1


ELSEWHERE = "`scripts/test` runs these tests in `.torchenv`"
"""How the reason ends for tests that have a run of their own."""

if __name__ == "__main__":
    sys.exit(main())
