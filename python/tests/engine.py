"""The engine for tests, and helpers that several of them use."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lm_eval import _engine
from lm_eval.api.model import LM

from tests.binary import binary

REPOSITORY = Path(__file__).resolve().parents[2]


def binary_path() -> str:
    """Return the path of the binary."""
    return str(binary())


def set_up() -> None:
    """Make this process and its children use the binary, with only the built-in tasks."""
    os.environ[_engine.BINARY_VARIABLE] = binary_path()
    os.environ["LM_EVAL_HOME"] = tempfile.mkdtemp(prefix="lm-eval-home-")


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the binary."""
    return subprocess.run(
        [binary_path(), *arguments], capture_output=True, text=True, timeout=120, check=True, **options
    )


class Lengths(LM):
    """Scores strings by their length, and answers every question with the same string."""

    def __init__(self, answer: str = "4", **kwargs: Any) -> None:
        super().__init__()
        self.answer = answer
        self.arguments = kwargs
        self.calls: list[tuple[str, int]] = []

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Return the negative length of each continuation."""
        self.calls.append(("loglikelihood", len(requests)))
        return [(-float(len(request.args[1])), False) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
        """Return the negative length of each string."""
        self.calls.append(("loglikelihood_rolling", len(requests)))
        return [-float(len(request.args[-1])) for request in requests]

    def generate_until(self, requests: list[Any]) -> list[str]:
        """Return the same answer to every request."""
        self.calls.append(("generate_until", len(requests)))
        return [self.answer for _ in requests]


def sums(**kwargs: Any) -> dict[str, list[dict[str, Any]]]:
    """Return a small dataset."""
    return {
        "train": [{"q": f"{n}+1", "a": str(n + 1)} for n in range(5)],
        "test": [
            {"q": "2+2", "a": "4"},
            {"q": "3+3", "a": "6"},
            {"q": "1+3", "a": "4"},
            {"q": "9+9", "a": "18"},
        ],
    }


def sums_task(**fields: Any) -> dict[str, Any]:
    """Return an inline definition of a task about sums."""
    return {
        "task": "sums",
        "custom_dataset": sums,
        "test_split": "test",
        "fewshot_split": "train",
        "output_type": "generate_until",
        "doc_to_text": "{{q}} =",
        "doc_to_target": "a",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        **fields,
    }


def scores(results: dict[str, Any], task: str) -> dict[str, Any]:
    """Return the scores of a task, without its alias and its standard errors."""
    entry = results["results"][task]
    return {key: value for key, value in entry.items() if "," in key and "stderr" not in key}
