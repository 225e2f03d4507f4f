"""Random numbers of functions depend only on their arguments."""

from __future__ import annotations

import pathlib
import random
import sys
import tempfile
import types
import unittest

from lm_eval import _random


def _module(folder: str, name: str, source: str) -> types.ModuleType:
    path = pathlib.Path(folder, f"{name}.py")
    path.write_text(source)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


class Drawing(unittest.TestCase):
    """Draws of functions, in two orders of calls."""

    def _check(self, source: str, helper: str | None = None) -> _random.Draws:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
            if helper is not None:
                _module(elsewhere, "_test_library", helper)
            function = _module(folder, "_test_task", source).draw
            draws = _random.Draws()
            ways = []
            for order in (range(6), reversed(range(6))):
                random.random()
                ways.append({number: draws.run(function, [number]) for number in order})
            self.assertEqual(ways[0], ways[1])
        return draws

    def test_a_function_that_draws(self) -> None:
        self._check("import random\ndef draw(number):\n    return random.random()")

    def test_a_function_that_draws_sometimes(self) -> None:
        self._check("import random\ndef draw(number):\n    return random.random() if number == 3 else 0")

    def test_a_library_that_draws(self) -> None:
        source = "import _test_library\ndef draw(number):\n    return _test_library.pick() if number > 2 else 0"
        self._check(source, "import random\ndef pick():\n    return random.random()")

    def test_a_function_that_draws_nothing_is_called_once(self) -> None:
        draws = self._check(
            "seen = []\ndef draw(number):\n    seen.append(number)\n    return seen.count(number) // 2 * 0"
        )
        self.assertEqual(sorted(sys.modules["_test_task"].seen), sorted([*range(6)] * 2))
        self.assertEqual(list(draws._draws.values()), [False])

    def test_a_library_that_draws_does_not_repeat_calls(self) -> None:
        source = (
            "import _test_library\nseen = []\ndef draw(number):\n    seen.append(number)\n"
            "    return _test_library.pick() if number > 2 else 0"
        )
        self._check(source, "import random\ndef pick():\n    return random.random()")
        self.assertEqual(sys.modules["_test_task"].seen, [*range(6), *reversed(range(6))])

    def test_arguments_that_are_changed(self) -> None:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
            _module(elsewhere, "_test_library", "import random\ndef mix(items):\n    random.shuffle(items)")
            source = (
                "import _test_library\ndef draw(doc):\n    doc['options'].append(doc['answer'])\n"
                "    _test_library.mix(doc['options'])\n    return sorted(doc['options'])"
            )
            function = _module(folder, "_test_task", source).draw
            draws = _random.Draws()
            for _ in range(2):
                self.assertEqual(draws.run(function, [{"options": ["b", "c"], "answer": "a"}]), ["a", "b", "c"])

    def test_what_may_draw(self) -> None:
        harmless = (
            "import re, json as j",
            "from collections import Counter; import math",
            "import numpy as np\nimport datasets",
            "from lm_eval.api.filter import Filter",
        )
        drawing = (
            "from sklearn.utils import resample",
            "import re; import sympy",
            "try: import sympy\nexcept ImportError: pass",
            "import re, \\\n    sympy",
            "def f():\n    from lm_eval.tasks.other.utils import pick",
            "from .later import pick",
            "from ..other import pick",
            "import numpy as np\nprint(np.random)",
            "import importlib",
        )
        for sources, expected in ((harmless, False), (drawing, True)):
            for source in sources:
                with self.subTest(source), tempfile.NamedTemporaryFile("w", suffix=".py") as file:
                    file.write(source)
                    file.flush()
                    self.assertIs(_random._source_may_draw(file.name, {}), expected)


if __name__ == "__main__":
    unittest.main()
