"""Runs all tests or those of some modules: `python -m tests [MODULE ...]`, where `test_hflm*` is a pattern.

All tests together run in one process per module, as many at once as there are CPU cores: most of the time they wait for the
binary. With `CI=true`, a skipped test is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> int:
    """Run the tests, and list those that were skipped."""
    folder = Path(__file__).parent
    if not sys.argv[1:]:
        return _run_all(_modules(folder, "test_*"))
    names = [name for pattern in sys.argv[1:] for name in _modules(folder, pattern)]
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"tests.{name}" for name in names])
    result = unittest.TextTestRunner(verbosity=1, buffer=False).run(suite)
    skipped = [(str(test), reason) for test, reason in result.skipped if not reason.endswith(ELSEWHERE)]
    for test, reason in skipped:
        print(f"SKIPPED {test}: {reason}", file=sys.stderr)
    if skipped and os.environ.get("CI") == "true":
        print("error: with `CI=true`, no test may be skipped", file=sys.stderr)
        return 1
    return 0 if result.wasSuccessful() else 1


def _run_all(names: list[str]) -> int:
    """Run modules in processes of their own; print the output of each when it ends."""

    def run(name: str) -> bool:
        child = subprocess.run(
            [sys.executable, "-m", "tests", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(f"{name}\n{child.stdout}", file=sys.stderr, flush=True)
        return child.returncode == 0

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        failed = [name for name, passed in zip(names, pool.map(run, names), strict=True) if not passed]
    print(f"{len(names)} modules, failed: {', '.join(failed) or 'none'}", file=sys.stderr)
    return 1 if failed else 0


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
