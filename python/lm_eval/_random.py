"""Reproducible random numbers in task functions: they depend only on the arguments of a call.

Seeding costs about as much as the rest of a call. It is skipped for functions that cannot draw random numbers: no
module in their folder mentions `random`, and everything those modules import is known not to draw.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import zlib
from typing import Any

from lm_eval import _media

_WITHOUT_DRAWS = (sys.stdlib_module_names - {"importlib", "runpy", "statistics"}) | {"datasets", "numpy"}
"""Modules that draw no random numbers unless the word `random` appears where they are used."""

_IMPORT = re.compile(rb"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]*import\b|import[ \t]+([^#\n;]+))", re.MULTILINE)

_UNCLEAR = (b"random", b"shuffle", b"__import__", b"exec(", b"\\\n")
"""Words in the source that may mean a draw, or an import that the pattern above does not find."""


class Draws:
    """Calls functions so that their random numbers do not depend on earlier calls."""

    def __init__(self) -> None:
        self._draws: dict[int, bool] = {}

    def run(self, function: Any, arguments: list[Any]) -> Any:
        """Call the function, exactly once since it may change its arguments, and return its value."""
        draws = self._draws.get(id(function))
        if draws is None:
            draws = self._draws[id(function)] = _may_draw(function)
            if draws and "numpy" in sys.modules:
                # numpy imports this module on first use, which would be too late for the seed.
                importlib.import_module("numpy.random")
        if draws:
            seed(arguments)
        return function(*arguments)


def _may_draw(function: Any) -> bool:
    """Whether any module in the function's folder may draw random numbers; true if that cannot be determined."""
    while hasattr(function, "func"):
        function = function.func
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not os.path.isfile(file):
        return True
    folder = os.path.join(os.path.dirname(file), "")
    inside = {
        name: path
        for name, path in ((name, getattr(other, "__file__", None)) for name, other in list(sys.modules.items()))
        if isinstance(path, str) and path.startswith(folder)
    }
    return any(_source_may_draw(path, inside) for path in inside.values())


def _source_may_draw(path: str, inside: dict[str, str]) -> bool:
    """Whether a module mentions `random`, or imports a module that may draw."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError:
        return True
    if not path.endswith(".py") or any(word in source for word in _UNCLEAR):
        return True
    for origin, names in _IMPORT.findall(source):
        for name in [origin] if origin else names.split(b","):
            words = name.decode("utf-8", "replace").split()
            if not words or not _is_harmless(words[0], inside):
                return True
    return False


def _is_harmless(name: str, inside: dict[str, str]) -> bool:
    """Whether a module is known not to draw, or is itself checked."""
    if name.startswith("."):
        return any(known.endswith(name) for known in inside)
    first = name.partition(".")[0]
    if first == "lm_eval":
        return not name.startswith("lm_eval.tasks")
    return name in inside or first in _WITHOUT_DRAWS


def seed(arguments: Any) -> None:
    """Seed the global generators from the arguments."""
    random = sys.modules.get("random")
    numpy = sys.modules.get("numpy.random")
    if random is None and numpy is None:
        return
    if "PIL.Image" in sys.modules:
        arguments = _media.plain(arguments)
    number = zlib.crc32(repr(arguments).encode("utf-8", "surrogatepass"))
    if random is not None:
        random.seed(number)
    if numpy is not None:
        numpy.seed(number)


DRAWS = Draws()
"""The state of this process: which functions may draw."""
