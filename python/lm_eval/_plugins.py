"""Plug-ins: modules that register metrics, filters, scorers, samplers or models when they are imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

GROUP = "lm_eval.plugins"
"""The entry point group under which installed packages name their plug-ins."""


class PluginError(ImportError):
    """A plug-in cannot be imported."""


def load(plugins: list[str]) -> list[str]:
    """Import the given plug-ins, then the installed ones, and return their names."""
    loaded = []
    for plugin in plugins:
        try:
            _import(plugin)
        except BaseException as error:
            raise _failed(f"the plug-in `{plugin}`", error) from error
        loaded.append(plugin)
    for entry in _entry_points():
        try:
            entry.load()
        except BaseException as error:
            raise _failed(f"the installed plug-in `{entry.name}` ({entry.value})", error) from error
        loaded.append(entry.name)
    return loaded


def _failed(what: str, error: BaseException) -> PluginError:
    return PluginError(f"cannot import {what}: {type(error).__name__}: {error}")


def _import(plugin: str) -> None:
    """Import a file, or a module of the import path or of the current folder."""
    if plugin.endswith(".py") or os.sep in plugin:
        _import_file(os.path.abspath(plugin))
        return
    try:
        importlib.import_module(plugin)
    except ModuleNotFoundError as error:
        here = os.getcwd()
        if error.name != plugin.partition(".")[0] or here in sys.path:
            raise
        # As for `python -m`, but after all installed packages.
        sys.path.append(here)
        importlib.invalidate_caches()
        importlib.import_module(plugin)


def _import_file(path: str) -> None:
    if os.path.isdir(path):
        path = os.path.join(path, "__init__.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such file: `{path}`")
    folder, file = os.path.split(path)
    name = os.path.basename(folder) if file == "__init__.py" else file.removesuffix(".py")
    if name in sys.modules:
        if getattr(sys.modules[name], "__file__", None) == path:
            return
        name = f"_lm_eval_plugin_{len(sys.modules)}_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import `{path}`")
    if folder not in sys.path:
        # Modules next to the file are importable, after all installed packages.
        sys.path.append(os.path.dirname(folder) if file == "__init__.py" else folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise


def _entry_points() -> list[Any]:
    """Return the entry points of the group, by name."""
    # Reading the few `entry_points.txt` files takes a millisecond; importing `importlib.metadata` takes many.
    if not any(_has_entry_points(folder) for folder in sys.path):
        return []
    from importlib import metadata

    return sorted(metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def _has_entry_points(folder: str) -> bool:
    """Whether a package installed in the folder has a plug-in."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return False
    for entry in entries:
        if entry.endswith((".dist-info", ".egg-info")):
            try:
                with open(os.path.join(folder, entry, "entry_points.txt"), encoding="utf-8") as file:
                    if f"[{GROUP}]" in file.read():
                        return True
            except (OSError, UnicodeDecodeError):
                continue
    return False
