"""Everything that the task files of the original library import from `lm_eval` exists.

The environment variable `LM_EVAL_TEST_LIBRARY` names the library's folder.
"""

from __future__ import annotations

import ast
import importlib
import os
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import lm_eval.tasks

LIBRARY = os.environ.get("LM_EVAL_TEST_LIBRARY")

Site = tuple[str, str | None]


def task_files(library: Path) -> Iterator[Path]:
    """Yield the Python files of tasks, without those of the harness next to the task folders."""
    for path in sorted(library.rglob("*.py")):
        if path.parent != library:
            yield path


def import_sites(path: Path) -> Iterator[Site]:
    """Yield module and name of each import from `lm_eval` in a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            if node.module.split(".")[0] == "lm_eval":
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "lm_eval")


@unittest.skipUnless(LIBRARY, "`LM_EVAL_TEST_LIBRARY` is not set")
class LibraryImports(unittest.TestCase):
    """Imports of the task files resolve against this package."""

    def setUp(self) -> None:
        """Make `lm_eval.tasks` import from the library."""
        assert LIBRARY is not None
        self.library = Path(LIBRARY).resolve()
        self.path = list(lm_eval.tasks.__path__)
        self.addCleanup(lm_eval.tasks.__path__.__setitem__, slice(None), self.path)
        lm_eval.tasks._add_library(self.library)

    def test_every_import_resolves(self) -> None:
        """Each import names a module and an attribute that exist."""
        sites: Counter[Site] = Counter()
        for path in task_files(self.library):
            sites.update(import_sites(path))
        self.assertGreater(len(sites), 30)
        unresolved = []
        for site, count in sorted(sites.items(), key=str):
            resolved = self._resolves(*site)
            print(f"{count:4} {'ok' if resolved else '--'} {site[0]} {site[1] or ''}")
            if not resolved:
                unresolved.append(site)
        missing = sum(sites[site] for site in unresolved)
        print(f"{sum(sites.values()) - missing} of {sum(sites.values())} import sites resolve")
        self.assertEqual(unresolved, [])

    def test_imports_helpers_of_other_tasks(self) -> None:
        """Library modules that need nothing else can be imported."""
        for module, name in (("mmlu_prox.lang_libs", "LANG_LIBS"), ("arab_culture.prompts", "BASE_PROMPT")):
            self.assertTrue(hasattr(importlib.import_module(f"lm_eval.tasks.{module}"), name), module)

    def _resolves(self, module: str, name: str | None) -> bool:
        # Task helpers may need packages or the network when they run; their source shows what they define.
        if module.startswith("lm_eval.tasks."):
            return self._defines(module, name)
        try:
            found = importlib.import_module(module)
        except ImportError:
            return False
        return name is None or hasattr(found, name)

    def _defines(self, module: str, name: str | None) -> bool:
        """Whether the source of a library module defines a name."""
        path = self.library.joinpath(*module.split(".")[2:])
        if name is None or path.is_dir():
            target = path if name is None else path / name
            return target.is_dir() or target.with_suffix(".py").is_file()
        tree = ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.ImportFrom):
                names.update(alias.asname or alias.name for alias in node.names)
        return name in names


if __name__ == "__main__":
    unittest.main()
