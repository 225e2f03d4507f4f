"""The package as a whole: light, documented, and importable without other packages."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM

PACKAGE = Path(__file__).resolve().parents[1] / "lm_eval"
OTHERS = {"_worker.py", "_protocol.py", "_dataset.py", "_loader.py"}


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules of the package with their files."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name not in OTHERS:
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path


class Package(unittest.TestCase):
    """Properties of all modules."""

    def test_imports_only_the_standard_library(self) -> None:
        """Every module imports with only the standard library installed, and imports nothing else.

        The one exception is imported after a Ray cluster was reached.
        """
        names = [name for name, _ in modules() if name != "lm_eval.ray._fleet"]
        code = (
            f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
            "known = sys.stdlib_module_names | {'lm_eval', '__main__', 'sitecustomize'}\n"
            "print(sorted({name.split('.')[0] for name in sys.modules} - set(known)))"
        )
        environment = {"PYTHONPATH": str(PACKAGE.parent), "PATH": os.environ.get("PATH", "")}
        done = subprocess.run(
            [sys.executable, "-S", "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((done.stdout.strip(), done.stderr), ("[]", ""))

    def test_syntax_of_the_oldest_python(self) -> None:
        """No module uses syntax that Python 3.10 lacks."""
        for name, path in modules():
            with self.subTest(name):
                ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))

    def test_public_items_are_documented(self) -> None:
        """Modules, classes and functions have docstrings."""
        for name, path in modules():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            self.assertTrue(ast.get_docstring(tree), name)
            for node in _public(tree):
                self.assertTrue(ast.get_docstring(node), f"{name}.{node.name}")

    def test_the_package_is_typed(self) -> None:
        """Type checkers read its annotations."""
        self.assertTrue((PACKAGE / "py.typed").is_file())

    def test_libraries_of_tasks(self) -> None:
        """Modules are imported from the folders of the variable and of the function."""
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            for folder, name in ((one, "first"), (two, "second")):
                path = Path(folder, name)
                path.mkdir()
                (path / "utils.py").write_text(f"NAME = {name!r}\n", encoding="utf-8")
            code = (
                "import lm_eval.tasks\nfrom lm_eval.tasks.first import utils\nprint(utils.NAME)\n"
                f"lm_eval.tasks._add_library({two!r})\n"
                "from lm_eval.tasks.second.utils import NAME\nprint(NAME)\n"
            )
            environment = {"PYTHONPATH": str(PACKAGE.parent), "LMEVAL_TASK_LIBRARY": one}
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(done.stdout.split(), ["first", "second"], done.stderr)


def _public(tree: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            setter = any(isinstance(decorator, ast.Attribute) for decorator in node.decorator_list)
            if not setter:
                yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)


class Words(TemplateLM):
    """A model over words, to encode pairs."""

    eot_token_id = 0

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: object) -> list[int]:
        """Return one token per character."""
        return [ord(character) for character in string]

    def _loglikelihood_tokens(self, requests: list[Any], **kwargs: object) -> list[Any]:
        return [(context, continuation) for _, context, continuation in requests]

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        """Return nothing."""
        return []

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        """Return nothing."""
        return []


class Models(unittest.TestCase):
    """Encoding of contexts and continuations."""

    def test_encodes_pairs(self) -> None:
        """Spaces at the boundary belong to the continuation; an empty context is the prefix token."""
        model = Words()
        for context, continuation, expected in (
            ("Hello \n ", "x", ("Hello", " \n x")),
            ("", "ab", ("\0", "ab")),
            ("", "\0ab", ("\0", "ab")),
        ):
            request: Instance[Any, Any] = Instance("loglikelihood", {}, (context, continuation))
            found: Any = model.loglikelihood([request])[0]
            self.assertEqual(tuple("".join(map(chr, tokens)) for tokens in found), expected)


if __name__ == "__main__":
    unittest.main()
