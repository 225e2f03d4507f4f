"""Random numbers that functions of tasks draw: they depend on what a function is called with, and on nothing else.

Seeding before each call would do, and costs more than all else that a call costs. So it is done for functions whose modules
speak of `random`; of all others it is only looked, after the call, whether they have drawn after all.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable
from typing import Any

_SOURCES = ("random", "numpy.random")


class Draws:
    """Calls functions so that their random numbers do not depend on the calls before."""

    def __init__(self) -> None:
        self._draws: dict[int, bool] = {}
        self._twins: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {}

    def start(self) -> None:
        """To be called before the first of several calls: others may have drawn in between."""
        self._twins.clear()

    def run(self, function: Any, arguments: list[Any]) -> Any:
        """What the function gives for the arguments."""
        draws = self._draws.get(id(function))
        if draws is None:
            draws = self._draws[id(function)] = _speaks_of_random(function)
        if draws:
            return self._seeded(function, arguments)
        for name in _SOURCES:
            if name in sys.modules and name not in self._twins:
                self._twins[name] = _twin(name)
        value = function(*arguments)
        if self._has_drawn():
            # A library that the function uses draws: the call is repeated with the right numbers.
            self._draws[id(function)] = True
            return self._seeded(function, arguments)
        return value

    def _seeded(self, function: Any, arguments: list[Any]) -> Any:
        self._twins.clear()
        seed(arguments)
        return function(*arguments)

    def _has_drawn(self) -> bool:
        """Whether a source has moved on; twins draw what it would draw if it has not."""
        for name in _SOURCES:
            twin = self._twins.get(name)
            if (twin is None and name in sys.modules) or (twin is not None and twin[0]() != twin[1]()):
                return True
        return False


def _twin(name: str) -> tuple[Callable[[], float], Callable[[], float]]:
    module: Any = sys.modules[name]
    module.seed(0)
    if name == "random":
        return module.random, module.Random(0).random
    return module.random_sample, module.RandomState(0).random_sample


def _speaks_of_random(function: Any) -> bool:
    """Whether a module in the folder of the function does; if nobody knows, it might."""
    while hasattr(function, "func"):
        function = function.func
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not os.path.isfile(file):
        return True
    folder = os.path.join(os.path.dirname(file), "")
    for other in list(sys.modules.values()):
        path = getattr(other, "__file__", None)
        if isinstance(path, str) and path.startswith(folder) and path.endswith(".py"):
            try:
                with open(path, "rb") as source:
                    if b"random" in source.read():
                        return True
            except OSError:
                return True
    return False


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
