"""Helpers shared by loggers: names of scores, and facts about the machine and the model."""

from __future__ import annotations

import copy
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lm_eval

__all__ = [
    "add_env_info",
    "add_tokenizer_info",
    "get_commit_from_path",
    "get_git_commit_hash",
    "remove_none_pattern",
]

_SHOWN = ("name", "alias")


def remove_none_pattern(input_string: str) -> tuple[str, bool]:
    """Return the name of a score without the filter `none`, and whether it had that filter."""
    name = input_string.removesuffix(",none")
    return name, name != input_string


def get_git_commit_hash() -> str | None:
    """Return the commit of the current folder, if it is a Git checkout."""
    return _git(".", "describe", "--always")


def get_commit_from_path(repo_path: Path | str) -> str | None:
    """Return the full commit hash of a checkout."""
    return _git(repo_path, "rev-parse", "HEAD")


def _git(folder: Path | str, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def add_env_info(storage: dict[str, Any]) -> None:
    """Add facts about this machine and its packages to results."""
    from importlib import metadata

    facts = [f"Python {platform.python_version()}", platform.platform()]
    try:
        transformers = metadata.version("transformers")
    except metadata.PackageNotFoundError as error:
        transformers = str(error)
    if "torch" in sys.modules:
        facts.append(f"torch {getattr(sys.modules['torch'], '__version__', '')}")
    storage.update(
        {
            "pretty_env_info": "\n".join(facts),
            "transformers_version": transformers,
            "lm_eval_version": lm_eval.__version__,
            "upper_git_hash": get_commit_from_path(Path.cwd().parent),
        }
    )


def add_tokenizer_info(storage: dict[str, Any], lm: Any) -> None:
    """Add the special tokens of a model to results; no effect for a model without a tokenizer."""
    tokenizer = getattr(lm, "tokenizer", None)
    if tokenizer is None:
        return
    for kind in ("pad", "eos", "bos"):
        text, number = (getattr(tokenizer, f"{kind}_token{end}", None) for end in ("", "_id"))
        storage[f"tokenizer_{kind}_token"] = [str(text), str(number)]
    storage["eot_token_id"] = getattr(lm, "eot_token_id", None)
    storage["max_length"] = getattr(lm, "max_length", None)


class _ResultsLogger:
    """Base class of loggers: holds the results to log."""

    def post_init(self, results: Mapping[str, Any]) -> None:
        """Set the results to log."""
        self.results = copy.deepcopy({name: part for name, part in results.items() if name != "samples"})
        self.task_names = list(results.get("results", {}))
        self.group_names = list(results.get("groups", {}))
        self.task_configs = self.results.get("configs", {})


def _flat(results: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the string and the numeric scores, as `task/metric`."""
    strings: dict[str, str] = {}
    numbers: dict[str, Any] = {}
    for task, scores in results["results"].items():
        for name, value in scores.items():
            key = f"{task}/{remove_none_pattern(name)[0]}"
            if isinstance(value, str):
                strings[key] = value
            else:
                numbers[key] = value
    return strings, numbers


def _rows(results: Mapping[str, Any], part: str) -> list[tuple[Any, ...]]:
    """Return a table of the scores of tasks (`results`) or groups: one row per metric and filter."""
    rows: list[tuple[Any, ...]] = []
    for task, scores in results.get(part, {}).items():
        about = (task, results["versions"].get(task, "N/A")), results["n-shot"].get(task, "N/A")
        for name, value in scores.items():
            metric, _, chosen = name.partition(",")
            if name in _SHOWN or metric.endswith("_stderr"):
                continue
            error = scores.get(f"{metric}_stderr,{chosen}", "")
            rows.append((*about[0], chosen, about[1], metric, str(value), str(error)))
    return rows


def _artifact_name(task: str) -> str:
    """Return the name of a task's artifact: a group member is named `group::task`, which trackers do not allow."""
    return re.sub(r"[^\w.-]", "_", task, flags=re.ASCII)


COLUMNS = ("Tasks", "Version", "Filter", "num_fewshot", "Metric", "Value", "Stderr")
"""The columns of score tables."""


def _sample_table(records: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of a table of a task's samples."""
    metrics = list(records[0].get("metrics", ())) if records else []
    columns = ["id", "data", "filter", "labels", "raw_predictions", "filtered_predictions", *metrics]
    rows = []
    for record in records:
        arguments = record["arguments"]
        first = next(iter(arguments.values() if isinstance(arguments, dict) else arguments), ())
        prompt = next(iter(first.values() if isinstance(first, dict) else first), "")
        about = [record["doc_id"], str(prompt), record.get("filter", ""), str(record["target"])]
        answers = [str(record["resps"]), str(record["filtered_resps"])]
        rows.append([*about, *answers, *(_cell(record.get(metric)) for metric in metrics)])
    return columns, rows


def _cell(value: Any) -> float | str | None:
    """Return a score for a table: trackers refuse columns of lists, and of integers mixed with other numbers."""
    if value is None or isinstance(value, str):
        return value
    return float(value) if isinstance(value, (bool, int, float)) else str(value)
