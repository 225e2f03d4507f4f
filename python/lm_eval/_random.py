"""Random numbers that functions of tasks draw: they depend on what a function is called with, and on nothing else.

Seeding before each call costs about as much as all else that a call costs. So it is left out for functions that cannot
draw: neither they nor any module in their folder speak of `random`, and all that those import is known not to draw.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import zlib
from typing import Any

_WITHOUT_DRAWS = (sys.stdlib_module_names - {"importlib", "runpy", "statistics"}) | {"datasets", "numpy"}
"""What draws nothing unless the word `random` stands where it is used."""

_IMPORT = re.compile(rb"(?:^|[;:])[ \t]*(?:from[ \t]+([\w.]+)[ \t]*import\b|import[ \t]+([^#\n;]+))", re.MULTILINE)

_UNCLEAR = (b"random", b"shuffle", b"__import__", b"exec(", b"\\\n")
"""What may draw, or may import without a line that says so."""


class Draws:
    """Calls functions so that their random numbers do not depend on the calls before."""

    def __init__(self) -> None:
        self._draws: dict[int, bool] = {}

    def run(self, function: Any, arguments: list[Any]) -> Any:
        """What the function gives for the arguments; it is called once, since it may change them."""
        draws = self._draws.get(id(function))
        if draws is None:
            draws = self._draws[id(function)] = _may_draw(function)
            if draws and "numpy" in sys.modules:
                # It loads this part when it is first used, which is too late for the seed.
                importlib.import_module("numpy.random")
        if draws:
            seed(arguments)
        return function(*arguments)


def _may_draw(function: Any) -> bool:
    """Whether a module in the folder of the function may draw; if nobody knows, it might."""
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
    """Whether a module speaks of `random`, or imports one that may draw."""
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
    """Whether a module draws nothing, or is itself looked at."""
    if name.startswith("."):
        return any(known.endswith(name) for known in inside)
    first = name.partition(".")[0]
    if first == "lm_eval":
        return not name.startswith("lm_eval.tasks")
    return name in inside or first in _WITHOUT_DRAWS


def seed(arguments: Any) -> None:
    """Makes what is drawn from now on depend on the arguments alone."""
    random = sys.modules.get("random")
    numpy = sys.modules.get("numpy.random")
    if random is None and numpy is None:
        return
    number = zlib.crc32(repr(arguments).encode("utf-8", "surrogatepass"))
    if random is not None:
        random.seed(number)
    if numpy is not None:
        numpy.seed(number)


DRAWS = Draws()
"""The draws of this process."""
