"""Model classes by name, imported on first use.

The classes of the engine's own models are served by the engine. `hf` runs on torch in this process.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from lm_eval.api.registry import model_registry
from lm_eval.models import _table

__all__ = ["MODEL_MAPPING"]

MODEL_MAPPING = _table.mapping()
"""The module and class of each name."""

_table.install()
model_registry.add_builtins(MODEL_MAPPING)


def __getattr__(name: str) -> ModuleType:
    """Import a module of this package when it is first used as an attribute."""
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
