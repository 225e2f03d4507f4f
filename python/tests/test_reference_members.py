"""The public members of the reference's tasks, groups and requests exist here, or are listed as differences."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any

from tests import engine

CLASSES = (
    ("lm_eval.api.task", "Task"),
    ("lm_eval.api.task", "ConfigurableTask"),
    ("lm_eval.api.task", "MultipleChoiceTask"),
    ("lm_eval.api.task", "PerplexityTask"),
    ("lm_eval.api.task", "TaskConfig"),
    ("lm_eval.api.instance", "Instance"),
    ("lm_eval.api.filter", "Filter"),
    ("lm_eval.api.filter", "FilterEnsemble"),
    ("lm_eval.api.group", "Group"),
    ("lm_eval.api.group", "ConfigurableGroup"),
    ("lm_eval.api.group", "GroupConfig"),
    ("lm_eval.api.group", "AggMetricConfig"),
    ("lm_eval.api.samplers", "ContextSampler"),
    ("lm_eval.tasks", "TaskManager"),
)

FUNCTIONS = (
    ("lm_eval.tasks", "get_task_dict"),
    ("lm_eval.tasks", "get_task_name_from_config"),
    ("lm_eval.tasks", "get_task_name_from_object"),
    ("lm_eval.filters", "build_filter_ensemble"),
    ("lm_eval.filters", "get_filter"),
    ("lm_eval.api.samplers", "get_sampler"),
)

REPORT = """
import importlib, inspect, json, sys

def parameters(target):
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    return [[one.name, one.kind.name] for one in signature.parameters.values()]

report = {}
for module, name in json.loads(sys.argv[1]):
    found = getattr(importlib.import_module(module), name)
    members = {"": parameters(found)}
    if isinstance(found, type):
        for member in dir(found):
            if not member.startswith("_"):
                value = getattr(found, member)
                members[member] = parameters(value) if callable(value) else None
    report[module + "." + name] = members
print(json.dumps(report))
"""



class Members(unittest.TestCase):
    """Comparison of `dir` and `inspect.signature`."""

    def setUp(self) -> None:
        """Query the reference."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", REPORT, json.dumps([*CLASSES, *FUNCTIONS])],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        if "No module named 'lm_eval'" in done.stderr:
            self.skipTest("the reference is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.reference: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        text = (engine.REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
        self.named = set(re.findall(r"`([^`\s(]+)[^`]*`", text))

    def test_members(self) -> None:
        """Each public member exists here, or is in the list of differences."""
        missing = []
        for name, members in self.reference.items():
            ours = _found(name)
            own = name.rpartition(".")[2]
            for member in members:
                if member and not _has(ours, member) and not self._is_named(ours, member):
                    missing.append(f"{own}.{member}")
        self.assertEqual(missing, [])

    def test_signatures(self) -> None:
        """A call that the reference accepts is accepted here, or in the list of differences."""
        different = []
        for name, members in self.reference.items():
            ours = _found(name)
            own = name.rpartition(".")[2]
            for member, expected in members.items():
                target = ours if not member else getattr(ours, member, None)
                if expected is None or not callable(target):
                    continue
                if not self._is_named(ours, member) and not _takes(target, expected):
                    different.append(f"{own}.{member}{inspect.signature(target)} does not take {expected}")
        self.assertEqual(different, [])

    def _is_named(self, ours: Any, member: str) -> bool:
        """Whether the differences list a member, of this class or of a base class."""
        owners = [base.__name__ for base in getattr(ours, "__mro__", [ours])]
        return any((f"{owner}.{member}" if member else owner) in self.named for owner in owners)


def _found(name: str) -> Any:
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(module), own)


def _has(ours: Any, member: str) -> bool:
    return hasattr(ours, member) or member in getattr(ours, "__dataclass_fields__", {})


def _takes(target: Any, expected: list[list[str]]) -> bool:
    """Whether a function accepts the names and positions of another function's parameters."""
    parameters = list(inspect.signature(target).parameters.values())
    names = {parameter.name for parameter in parameters}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    for name, kind in expected:
        if kind in ("VAR_KEYWORD", "VAR_POSITIONAL", "POSITIONAL_ONLY"):
            continue
        if name not in names and not takes_all:
            return False
    positions = [name for name, kind in expected if kind == "POSITIONAL_OR_KEYWORD"]
    ours = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.POSITIONAL_ONLY)]
    return all(ours[index] == name for index, name in enumerate(positions) if index < len(ours) and name in names)


if __name__ == "__main__":
    unittest.main()
