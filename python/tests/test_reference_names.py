"""Every public name of the released reference exists here, or is listed in `docs/differences.md`."""

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
from pathlib import Path
from typing import Any

from tests import engine

ELSEWHERE = ("lm_eval.models",)
"""Modules that have their own tests."""

OTHERS = ("lm_eval.api.", "lm_eval.config.")
"""Modules of which only names are compared here: their methods and arguments have their own tests."""

PASSING = {"annotations", "TYPE_CHECKING", "eval_logger", "logger", "log", "T", "D"}
"""Names that are internal to modules."""

WALK = """
import importlib, inspect, json, os, sys
import lm_eval
root = os.path.dirname(lm_eval.__file__)
found = {}
for folder, _, files in os.walk(root):
    inside = [] if folder == root else os.path.relpath(folder, root).split(os.sep)
    if len(inside) > 1 and inside[0] == "tasks":
        continue
    for file in files:
        if not file.endswith(".py") or (inside[:1] == ["tasks"] and len(inside) == 2):
            continue
        module = ".".join(["lm_eval", *inside, *([] if file == "__init__.py" else [file[:-3]])])
        try:
            names = vars(importlib.import_module(module))
        except BaseException as error:
            found[module] = None
            continue
        found[module] = [
            name for name, value in names.items()
            if not name.startswith("_") and not inspect.ismodule(value)
            and getattr(value, "__module__", module) == module
        ]
        for name in list(found[module]):
            value = names[name]
            if inspect.isclass(value):
                members = [key for key in vars(value) if not key.startswith("_") and callable(getattr(value, key))]
                found[module] += [name + "." + key for key in members]
            elif inspect.isfunction(value):
                arguments = [key for key in inspect.signature(value).parameters if not key.startswith("_")]
                found[module] += [name + "(" + key for key in arguments]
sys.stdout.write("\\n" + json.dumps([lm_eval.__file__, found]))
"""


class Reference(unittest.TestCase):
    """The public names of the released reference."""

    def test_every_name(self) -> None:
        """Each exists in this package, or is in the table of differences."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", WALK],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode and "No module named 'lm_eval'" in done.stderr:
            self.skipTest("the reference is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        file, found = json.loads(done.stdout.splitlines()[-1])
        if Path(file).resolve().is_relative_to(engine.REPOSITORY / "python"):
            self.skipTest("the reference is not installed")
        self.assertGreater(len(found), 60)
        listed = documented()
        missing = []
        for module, names in sorted(found.items()):
            if module.startswith(ELSEWHERE) or module in listed:
                continue
            wanted = [
                name for name in names or () if name not in PASSING and f"{module}.{name}" not in listed
            ]
            if module.startswith(OTHERS):
                wanted = [name for name in wanted if "." not in name and "(" not in name]
            of_listed = tuple(
                f"{name}{end}" for name in names or () if f"{module}.{name}" in listed for end in ".("
            )
            wanted = [name for name in wanted if not name.startswith(of_listed)]
            missing += [f"{module}.{name}" for name in wanted if not has(module, name)]
            if not has(module, None):
                missing.append(module)
        self.assertEqual(missing, [])

    def test_table(self) -> None:
        """Names in the table do not exist here."""
        named = documented()
        self.assertGreater(len(named), 20)
        # Modules whose names only point to a replacement can be imported.
        speaking = {"lm_eval.decontamination.archiver", "lm_eval.decontamination.decontaminate"}
        for name in sorted(named - speaking):
            module, _, attribute = name.rpartition(".")
            with self.subTest(name):
                self.assertFalse(has(module, attribute), name)


def documented() -> set[str]:
    """Return the names in the section about missing names."""
    text = (engine.REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
    section = text.partition("## Names of 0.4.13 that are not here\n")[2].partition("\n## ")[0]
    names = set()
    for row in section.splitlines():
        if row.startswith("| `"):
            module, cell = (part.strip() for part in row.split("|")[1:3])
            module = module.strip("`")
            attributes = re.findall(r"`([\w.]+)`", cell)
            names.update({f"{module}.{attribute}" for attribute in attributes} or {module})
    return names


def has(module: str, name: str | None) -> bool:
    """Return whether this package has a module, and in it a name, a `Class.method` or a `function(argument`."""
    try:
        found: Any = importlib.import_module(module)
        if name is None:
            return True
        function, _, argument = name.partition("(")
        for part in function.split("."):
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return not argument or argument in inspect.signature(found).parameters
    except ImportError:
        return False


if __name__ == "__main__":
    unittest.main()
