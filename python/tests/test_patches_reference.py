"""The methods of 0.4.13 that scripts can override are called here, too, or overriding them is refused."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from lm_eval import _patches

from tests import engine

CLASSES = {
    "api/model.py": ("LM", "TemplateLM"),
    "api/task.py": ("Task", "ConfigurableTask", "MultipleChoiceTask", "PerplexityTask"),
    "api/group.py": ("Group",),
    "api/filter.py": ("Filter", "FilterEnsemble"),
    "api/samplers.py": ("ContextSampler",),
    "api/instance.py": ("Instance",),
    "config/group.py": ("GroupConfig",),
    "config/task.py": ("TaskConfig", "FewshotConfig"),
    "models/utils.py": ("Collator",),
    "models/api_models.py": ("TemplateAPI",),
    "models/huggingface.py": ("HFLM",),
    "models/openai_completions.py": ("LocalCompletionsAPI", "LocalChatCompletion", "OpenAIChatCompletion"),
    "models/anthropic_llms.py": ("AnthropicChat",),
    "models/sglang_generate_API.py": ("SGLANGGENERATEAPI",),
    "models/gguf.py": ("GGUFLM",),
    "tasks/manager.py": ("TaskManager",),
}
"""The classes that scripts derive from or change, by file of the reference."""

FOR_SCRIPTS = {
    "all_gather",
    "barrier",
    "has_aggregation",
    "list_all_tasks",
    "load_task_or_group",
    "_process_doc",
}
"""Methods that an evaluation does not need: scripts and subclasses call them."""


def reference() -> Path:
    """Return the folder of the installed reference."""
    program = "import importlib.util; print(importlib.util.find_spec('lm_eval').submodule_search_locations[0])"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise unittest.SkipTest("the reference is not installed")
    return Path(done.stdout.strip())


def methods(file: Path, name: str) -> set[str]:
    """Return the methods that a class of a file defines."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            return {item.name for item in node.body if isinstance(item, kinds) and not item.name.startswith("__")}
    raise AssertionError(f"`{file}` defines no class `{name}`")


def read_names() -> set[str]:
    """Return the attributes that code of this package reads, and the strings in it."""
    names: set[str] = set()
    for file in (engine.REPOSITORY / "python" / "lm_eval").rglob("*.py"):
        if file.name in ("_patches.py", "_refusals.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    return names


class Reference(unittest.TestCase):
    """The table of methods that nothing here calls."""

    def test_uncalled_methods_are_refused(self) -> None:
        """Every overridable method of the reference is called, or known not to be."""
        folder = reference()
        read = read_names()
        missing = []
        for file, names in CLASSES.items():
            module = importlib.import_module(f"lm_eval.{file.removesuffix('.py').replace('/', '.')}")
            for name in names:
                cls = getattr(module, name)
                own = {attribute for base in cls.__mro__ for attribute in vars(base)}
                for method in sorted(methods(folder / file, name)):
                    is_called = method in read and (method in own or not name.startswith(("Anthropic", "SGLANG", "GGUF")))
                    if not is_called and method not in FOR_SCRIPTS | _patches.uncalled(cls):
                        missing.append(f"{name}.{method}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
