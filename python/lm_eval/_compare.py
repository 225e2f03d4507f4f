"""Comparing finished runs: the command `lm-eval compare` as a function."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

from lm_eval._engine import EngineError, find_binary

__all__ = ["Comparison", "compare"]

_DECIDED = (0, 3, 4)
"""Exit statuses of comparisons that were made: gates passed, failed, or are inconclusive."""


class Comparison(list[dict[str, Any]]):
    """One dictionary per score, which `pandas.DataFrame` takes as it is."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(_rows(found))
        self.gates: list[dict[str, Any]] = found["gates"]
        """One dictionary per gate and score, with its `verdict`: `PASS`, `FAIL` or `INCONCLUSIVE`."""
        self.notes: list[str] = [note for one in found["comparisons"] for note in one["notes"]]
        """What was left out, and what to be careful about."""
        self.flips: list[dict[str, Any]] = [flip for one in found["comparisons"] for flip in one.get("flips", ())]
        """Documents whose score changed, if `flips` was given."""

    @property
    def passed(self) -> bool:
        """Whether every gate passes; true if there is none."""
        return all(gate["verdict"] == "PASS" for gate in self.gates)


def compare(
    base: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *more: str | os.PathLike[str],
    tasks: str | Iterable[str] | None = None,
    metrics: str | Iterable[str] | None = None,
    gate: str | Iterable[str] | None = None,
    margin: float | None = None,
    flips: int | str | None = None,
    by: str | None = None,
    cluster: str | None = None,
    cluster_correction: bool = True,
    confidence: float = 0.95,
    power: float = 0.8,
    seed: int = 0,
    allow_different_prompts: bool = False,
) -> Comparison:
    """Compare runs document by document, as `lm-eval compare` does, with the options of that command.

    A run is a results file, a samples file, or a folder. The rows are plain data:

        pandas.DataFrame(lm_eval.compare("out/base", "out/new"))

    With `by`, each score is followed by its breakdown: rows with the same keys, and the value of the field as `by`.
    Runs that cannot be compared raise `ValueError` with the message of the command.
    """
    words = [os.fspath(run) for run in (base, new, *more)]
    for path in words:
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no run at `{path}`")
    words += ["--format=json", f"--confidence={confidence}", f"--power={power}", f"--seed={seed}"]
    named = {"margin": margin, "flips": flips, "by": by, "cluster": cluster}
    words += [f"--{name}={value}" for name, value in named.items() if value is not None]
    words += [f"--gate={condition}" for condition in _listed(gate)]
    for name, values in (("tasks", tasks), ("metrics", metrics)):
        words += [f"--{name}={value}" for value in _listed(values)]
    words += [] if cluster_correction else ["--no-cluster-correction"]
    words += ["--allow-different-prompts"] if allow_different_prompts else []
    # Options first: a path may begin with a hyphen.
    runs, options = words[: 2 + len(more)], words[2 + len(more) :]
    return Comparison(_run([*options, "--", *runs]))


def _listed(given: str | Iterable[str] | None) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


def _run(words: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [find_binary(), "compare", "--color=never", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode in _DECIDED and done.stdout:
        found: dict[str, Any] = json.loads(done.stdout)
        return found
    message = done.stderr.strip().removeprefix("error: ")
    if done.returncode in (1, 2):
        raise ValueError(message)
    raise EngineError(f"`lm-eval compare` ended with status {done.returncode}: {message}")


def _rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the scores of all comparisons, each followed by its breakdown."""
    for one in found["comparisons"]:
        for score in one["scores"]:
            parts = score.pop("by", None)
            row = {"base_run": found["base"]["name"], "new_run": one["run"]["name"], **score}
            yield row if parts is None else {**row, "by": None}
            for label, part in (parts or {}).items():
                # A breakdown has no adjusted p-values and no documents of its own that only one run has.
                unknown = dict.fromkeys(("p_bh", "p_holm", "only_base", "only_new"))
                yield {**row, **unknown, **part, "by": label}
