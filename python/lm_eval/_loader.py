"""Resolves the functions that task files name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from lm_eval import _scope
from lm_eval._code import RUNNER

_LIBRARY = os.sep + os.path.join("lm_eval", "tasks")


_FOLDER = "_lm_eval_folder_"


def plain(text: str) -> str:
    """Return the string with module names as the folder knows them, without the internal package prefix."""
    if _FOLDER not in text:
        return text
    import re

    return re.sub(rf"{_FOLDER}[0-9a-f]+\.", "", text)


def _stamp(path: str) -> Any:
    """Return what changes with the content of a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


class Loader:
    """Imports modules of task folders so that equal names in different folders do not clash.

    While code of a folder runs, the folder comes first on the import path and its modules are the ones that imports
    find; both change with the folder.
    """

    def __init__(self, task_roots: list[str]) -> None:
        self._roots = task_roots
        self._known: dict[tuple[str, str], Any] = {}
        self._folder = ""
        self._own_modules: dict[str, dict[str, types.ModuleType]] = {}
        self._files: dict[str, dict[str, Any]] = {}
        self.schemes: dict[str, Callable[[str, str], Any]] = {}
        """Resolvers of references `SCHEME:REST`, called with the folder and the rest."""

    def resolve(self, directory: str, reference: str) -> Any:
        """Return the object of `!function reference` in a file of the folder."""
        known = self._known.get((directory, reference))
        if known is None:
            with RUNNER.uncounted():
                known = self._known[directory, reference] = self._find(directory, reference)
        self.enter(directory)
        return known

    def forget_changed(self) -> None:
        """Forget the modules of folders with files that were changed since their import."""
        for folder, files in list(self._files.items()):
            if all(_stamp(path) == stamp for path, stamp in files.items()):
                continue
            for name, module in list(sys.modules.items()):
                if getattr(module, "__file__", None) in files:
                    del sys.modules[name]
            del self._files[folder]
            self._own_modules.pop(folder, None)
            self._known = {key: known for key, known in self._known.items() if key[0] != folder}

    def _find(self, directory: str, reference: str) -> Any:
        scheme, colon, rest = reference.partition(":")
        if colon and scheme in self.schemes:
            self.enter(directory)
            return self.schemes[scheme](directory, rest)
        name, dot, attribute = reference.rpartition(".")
        if not dot or not name:
            raise ValueError(f"`{reference}` does not name a module: write `module.name`")
        path = os.path.join(directory, *name.split(".")) + ".py" if directory else ""
        self.enter(directory)
        if path and os.path.isfile(path):
            self._files.setdefault(directory, {}).setdefault(os.path.abspath(path), _stamp(path))
            module = self._load(os.path.abspath(path), os.path.abspath(directory))
        else:
            module = importlib.import_module(name)
        return getattr(module, attribute)

    def enter(self, directory: str) -> None:
        """Make imports find the modules of the folder."""
        if directory == self._folder:
            return
        left = self._folder
        if left:
            if left in sys.path:
                sys.path.remove(left)
            inside = os.path.join(os.path.abspath(left), "")
            own = self._own_modules.setdefault(left, {})
            for name, module in list(sys.modules.items()):
                file = getattr(module, "__file__", None)
                private = name.startswith(("lm_eval.", _FOLDER))
                if not private and isinstance(file, str) and file.startswith(inside):
                    own[name] = sys.modules.pop(name)
                    self._files.setdefault(left, {}).setdefault(file, _stamp(file))
        self._folder = directory
        _scope.folder = os.path.abspath(directory) if directory else ""
        if directory:
            self._add_root(directory)
            sys.path.insert(0, directory)
            sys.modules.update(self._own_modules.get(directory, {}))

    def _add_root(self, directory: str) -> None:
        """Make `lm_eval.tasks` import from the library that contains the folder."""
        path = os.path.abspath(directory)
        end = (path + os.sep).rfind(_LIBRARY + os.sep)
        root = path[: end + len(_LIBRARY)]
        if end >= 0 and root not in self._roots:
            self._roots.append(root)

    def _load(self, path: str, directory: str) -> types.ModuleType:
        name = self._module_name(path, directory)
        present = sys.modules.get(name)
        if present is not None and getattr(present, "__file__", None) == path:
            return present
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot import `{path}`")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module

    def _module_name(self, path: str, directory: str) -> str:
        for root in self._roots:
            inside = os.path.relpath(path[: -len(".py")], root).split(os.sep)
            if not any("." in part for part in inside):
                importlib.import_module("lm_eval.tasks")
                return ".".join(["lm_eval.tasks", *inside])
        package = f"{_FOLDER}{abs(hash(directory)):x}"
        if package not in sys.modules:
            holder = types.ModuleType(package)
            holder.__path__ = [directory]
            sys.modules[package] = holder
        inside = os.path.relpath(path[: -len(".py")], directory).split(os.sep)
        return ".".join([package, *inside])
