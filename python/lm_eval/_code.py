"""Runs generated code, each program in its own process under kernel limits.

The `lm-eval` binary starts the process: it sets the limits and reports which of them were in effect.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval._worker import Worker

_MEMORY = "LM_EVAL_CODE_MEMORY"
"""The environment variable for the address space limit of a program, in mebibytes."""

_ALLOW = "HF_ALLOW_CODE_EVAL"
"""The environment variable that allows running generated code without the command line flag."""


class Runner:
    """Starts programs and records the limits they ran under."""

    def __init__(self) -> None:
        self.program: str | None = None
        self.is_allowed = True
        self.programs = 0
        """How many programs ran since the last report."""
        self.limits: dict[str, Any] = {}
        """The weakest form of each limit that a program ran under."""
        self._is_counting = True
        self._path = list(sys.path)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Do not count programs meanwhile: those that modules run during import do not score any document."""
        outer, self._is_counting = self._is_counting, False
        try:
            yield
        finally:
            self._is_counting = outer

    def configure(self, program: str | None, is_allowed: bool) -> None:
        """Set the path of the `lm-eval` binary, and whether running code is allowed."""
        self.program, self.is_allowed = program, is_allowed
        self._path = list(sys.path)

    def run(self, program: str, timeout: float) -> str:
        """Run a program; return `passed`, `timed out`, or `failed: ` and the exception."""
        outcome = self._start(program, timeout)
        if self._is_counting:
            self.programs += 1
            _weaker(self.limits, outcome["limits"])
        return str(outcome["result"])

    def _start(self, program: str, timeout: float) -> dict[str, Any]:
        if not self.is_allowed and os.environ.get(_ALLOW) != "1":
            raise PermissionError(
                "Running code that a model generated is not allowed; pass `--confirm_run_unsafe_code` to allow it"
            )
        import subprocess

        starter = self.program or shutil.which("lm-eval")
        if starter is None:
            raise FileNotFoundError("Running code under limits needs the `lm-eval` binary, which was not found")
        command = [starter, "sandbox", "-", "--json", "--time", repr(float(timeout))]
        if os.environ.get(_MEMORY):
            command += ["--memory", os.environ[_MEMORY]]
        command += ["--interpreter", self._interpreter()]
        given = program.encode("utf-8", "surrogatepass")
        done = subprocess.run(command, input=given, capture_output=True, check=False)
        try:
            outcome = json.loads(done.stdout)
        except ValueError:
            reason = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
            raise RuntimeError(f"Cannot run a program: {reason}") from None
        return dict(outcome)

    def _interpreter(self) -> str:
        """Return the folders of this Python's files, without task folders and the user's own modules."""
        prefixes = sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix})
        inside = tuple(os.path.join(prefix, "") for prefix in prefixes)
        packages = ("site-packages", "dist-packages")
        path = [
            entry for entry in self._path if entry.startswith(inside) or os.path.basename(entry) in packages
        ]
        executable = os.path.realpath(sys.executable)
        return json.dumps({"executable": executable, "read": [*prefixes, *path], "path": path})


RUNNER = Runner()
"""The runner of this process."""


def _weaker(seen: dict[str, Any], found: dict[str, Any]) -> None:
    """Merge two reports, keeping the weaker statement for each limit."""
    for name, state in found.items():
        if name not in seen or not state["in_force"]:
            seen[name] = state


class CodeEval:
    """The metric `code_eval`: the share of a problem's programs that pass its tests."""

    name = "code_eval"

    def compute(
        self,
        *,
        predictions: Sequence[str] | Sequence[Sequence[str]],
        references: str | Sequence[str],
        k: int | Sequence[int] = (1, 10, 100),
        num_workers: int = 4,
        timeout: float = 3.0,
    ) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
        """Run each program with its problem's tests; return `pass@k` for each k, and every outcome."""
        from concurrent.futures import ThreadPoolExecutor

        predictions, references = _problems(predictions, references)
        programs = [
            (problem, place, joined(candidate, tests))
            for problem, (candidates, tests) in enumerate(zip(predictions, references))
            for place, candidate in enumerate(candidates)
        ]
        # Running more at once than there are CPUs could time out programs that would otherwise pass.
        at_once = max(1, min(num_workers, os.cpu_count() or 1, len(programs)))
        with ThreadPoolExecutor(max_workers=at_once) as executor:
            outcomes = list(executor.map(lambda one: RUNNER.run(one[2], timeout), programs))
        results: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for (problem, place, _), outcome in zip(programs, outcomes):
            entry = {"task_id": problem, "passed": outcome == "passed", "result": outcome, "completion_id": place}
            results[problem].append((place, entry))
        counts = [(len(entries), sum(entry["passed"] for _, entry in entries)) for entries in results.values()]
        sizes = [k] if isinstance(k, int) else list(k)
        scores = {
            f"pass@{size}": _mean([_pass_at(total, correct, size) for total, correct in counts])
            for size in sizes
            if all(total >= size for total, _ in counts)
        }
        return scores, results


def joined(candidate: str, tests: str) -> str:
    """Return a program: a solution and the tests that follow it.

    A backslash at the end of a solution would make the first test a part of its last line, as in `if 0: \\`.
    """
    return f"{candidate}\n\n{tests}" if candidate.endswith("\\") else f"{candidate}\n{tests}"


def _problems(predictions: Any, references: Any) -> tuple[list[list[str]], list[str]]:
    """Return the programs and tests of each problem; those of a single problem need not be nested."""
    tests = [references] if isinstance(references, str) else list(references)
    if isinstance(predictions, str):
        predictions = [predictions]
    if not all(isinstance(candidates, str) for candidates in predictions):
        return [[one] if isinstance(one, str) else list(one) for one in predictions], tests
    if len(tests) == 1:
        return [list(predictions)], tests
    if len(tests) != len(predictions):
        raise ValueError(f"{len(predictions)} programs for {len(tests)} problems: write a list for each problem")
    return [[program] for program in predictions], tests


def _pass_at(total: int, correct: int, size: int) -> float:
    """Return the probability that at least one of `size` programs, drawn without replacement, passes."""
    if total - correct < size:
        return 1.0
    product = 1.0
    for count in range(total - correct + 1, total + 1):
        product *= 1.0 - size / count
    return 1.0 - product


def _mean(values: list[float]) -> float:
    from lm_eval.api.metrics._numeric import pairwise_sum

    return pairwise_sum(values) / len(values) if values else float("nan")


def _code_limits(worker: Worker, function: Any, message: dict[str, Any]) -> Iterator[Any]:
    seen = {"programs": RUNNER.programs, "limits": RUNNER.limits}
    RUNNER.programs, RUNNER.limits = 0, {}
    yield seen


OPERATIONS = {"code_limits": _code_limits}
