"""Runs all tests or those of some modules: `python -m tests [MODULE ...]`, where `test_hflm*` is a pattern.

With `CI=true`, a skipped test is a failure.
"""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path


def main() -> int:
    """Run the tests, and list those that were skipped."""
    folder = Path(__file__).parent
    loader = unittest.defaultTestLoader
    if sys.argv[1:]:
        names = [name for pattern in sys.argv[1:] for name in _modules(folder, pattern)]
        suite = loader.loadTestsFromNames([f"tests.{name}" for name in names])
    else:
        suite = loader.discover(str(folder), top_level_dir=str(folder.parent))
    result = unittest.TextTestRunner(verbosity=1, buffer=False).run(suite)
    skipped = [(str(test), reason) for test, reason in result.skipped if not reason.endswith(ELSEWHERE)]
    for test, reason in skipped:
        print(f"SKIPPED {test}: {reason}", file=sys.stderr)
    if skipped and os.environ.get("CI") == "true":
        print("error: with `CI=true`, no test may be skipped", file=sys.stderr)
        return 1
    return 0 if result.wasSuccessful() else 1


def _modules(folder: Path, pattern: str) -> list[str]:
    """Return the modules that match a pattern; any other name is taken literally."""
    if "*" not in pattern:
        return [pattern]
    found = sorted(path.stem for path in folder.glob(f"{pattern}.py"))
    if not found:
        raise SystemExit(f"No test module matches `{pattern}`")
    return found


ELSEWHERE = tuple(f"`scripts/test` runs these tests in `{folder}`" for folder in (".torchenv", ".rayenv"))
"""The ends of skip reasons of tests that run separately."""

if __name__ == "__main__":
    sys.exit(main())
