"""The metric that runs generated code, and the module that `import evaluate` finds."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

from lm_eval import _code, _evaluate
from lm_eval._loader import Loader


def _outcome(result: str, **limits: bool) -> dict[str, Any]:
    states = {name: {"in_force": state, "limit" if state else "reason": ""} for name, state in limits.items()}
    return {"result": result, "limits": states}


class PassAtK(unittest.TestCase):
    """`pass@k` of made-up outcomes."""

    def setUp(self) -> None:
        def start(program: str, timeout: float) -> dict[str, Any]:
            return _outcome("passed" if program.startswith("good") else "failed: bad", time=True)

        patch = mock.patch.object(_code.RUNNER, "_start", side_effect=start)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_solution_cannot_swallow_its_first_test(self) -> None:
        program = _code.joined("if 0: \\", "assert False")
        self.assertRaises(SyntaxError, compile, program, "", "exec")
        # What this is for: the plain sum of the two runs no test.
        exec(compile("if 0: \\\nassert False", "", "exec"), {})
        self.assertEqual(_code.joined("x = 1", "assert x"), "x = 1\nassert x")

    def test_scores_and_results_have_the_form_of_the_metric(self) -> None:
        scores, results = _code.CodeEval().compute(
            predictions=[["good", "bad", "bad"], ["bad", "bad", "bad"]], references=["t", "t"], k=[1, 2, 3, 4]
        )
        self.assertEqual(list(scores), ["pass@1", "pass@2", "pass@3"])
        self.assertAlmostEqual(scores["pass@1"], 1 / 6)
        self.assertAlmostEqual(scores["pass@2"], 1 / 3)
        self.assertEqual(scores["pass@3"], 0.5)
        self.assertEqual([index for index, _ in results[0]], [0, 1, 2])
        self.assertEqual(
            results[0][0][1], {"task_id": 0, "passed": True, "result": "passed", "completion_id": 0}
        )
        self.assertEqual(results[1][2][1]["result"], "failed: bad")

    def test_one_number_for_k(self) -> None:
        scores, _ = _code.CodeEval().compute(predictions=[["good"]], references=[""], k=1)
        self.assertEqual(scores, {"pass@1": 1.0})

    def test_programs_of_one_problem_need_no_list(self) -> None:
        for references in ("t", ["t"]):
            scores, results = _code.CodeEval().compute(predictions=["good", "bad"], references=references, k=[1, 2])
            self.assertEqual(scores, {"pass@1": 0.5, "pass@2": 1.0})
            self.assertEqual(len(results), 1)
        with self.assertRaises(ValueError):
            _code.CodeEval().compute(predictions=["a", "b", "c"], references=["t", "u"])

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
    def test_the_estimate_has_the_digits_of_numpy(self) -> None:
        import numpy

        for total in range(1, 70):
            for correct in range(total + 1):
                for size in (1, 2, 5, 8, 10, 32, 64):
                    if total - correct < size:
                        expected = 1.0
                    else:
                        expected = 1.0 - numpy.prod(1.0 - size / numpy.arange(total - correct + 1, total + 1))
                    self.assertEqual(_code._pass_at(total, correct, size), expected, (total, correct, size))


class Limits(unittest.TestCase):
    """Recorded limits, and the flag that allows running code."""

    def test_programs_of_imports_do_not_count(self) -> None:
        source = (
            "from lm_eval._code import RUNNER\nRUNNER.run('self-test', 1)\n"
            "def score():\n    return RUNNER.run('program', 1)\n"
        )
        runner = _code.RUNNER
        state = mock.patch.multiple(runner, programs=0, limits={}, _start=lambda *_: _outcome("passed", time=True))
        with state, tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "counted.py").write_text(source)
            loader = Loader([])
            self.addCleanup(loader.enter, "")
            function = loader.resolve(folder, "counted.score")
            self.assertEqual((runner.programs, runner.limits), (0, {}))
            self.assertEqual((function(), runner.programs, list(runner.limits)), ("passed", 1, ["time"]))

    def test_the_weakest_report_counts(self) -> None:
        seen: dict[str, Any] = {}
        _code._weaker(seen, _outcome("", time=True, network=True)["limits"])
        _code._weaker(seen, _outcome("", time=True, network=False)["limits"])
        _code._weaker(seen, _outcome("", time=True, network=True)["limits"])
        self.assertTrue(seen["time"]["in_force"])
        self.assertFalse(seen["network"]["in_force"])

    def test_nothing_runs_without_permission(self) -> None:
        runner = _code.Runner()
        runner.configure("/bin/false", False)
        with mock.patch.dict("os.environ"):
            _code.os.environ.pop("HF_ALLOW_CODE_EVAL", None)
            with self.assertRaisesRegex(PermissionError, "confirm_run_unsafe_code"):
                runner.run("pass", 3.0)

    def test_a_program_that_cannot_start_is_an_error(self) -> None:
        runner = _code.Runner()
        runner.configure("/bin/false", True)
        with self.assertRaisesRegex(RuntimeError, "Cannot run a program"):
            runner.run("pass", 3.0)


class StandIn(unittest.TestCase):
    """The module that `import evaluate` finds."""

    def setUp(self) -> None:
        saved = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "evaluate"}
        _evaluate.install()

        def restore() -> None:
            sys.meta_path.remove(_evaluate._FINDER)
            for name in [name for name in sys.modules if name.split(".")[0] == "evaluate"]:
                del sys.modules[name]
            sys.modules.update(saved)

        self.addCleanup(restore)

    def test_our_metrics_need_no_package(self) -> None:
        evaluate = importlib.import_module("evaluate")
        self.assertIsInstance(evaluate.load("code_eval"), _code.CodeEval)
        score = evaluate.load("exact_match").compute(
            predictions=["A.", "b", "x"], references=["a", "b", "c"], ignore_case=True, ignore_punctuation=True
        )
        self.assertEqual(score, {"exact_match": 2 / 3})
        self.assertFalse("evaluate.module" in sys.modules, "the package was imported")

    def test_without_the_package_other_metrics_name_it(self) -> None:
        evaluate = importlib.import_module("evaluate")
        with mock.patch.object(importlib.util, "find_spec", return_value=None):
            with self.assertRaises(ModuleNotFoundError) as caught:
                evaluate.load("rouge")
            self.assertEqual(caught.exception.name, "evaluate")
            with self.assertRaises(AttributeError):
                _ = evaluate.combine

    @unittest.skipUnless(importlib.util.find_spec("evaluate"), "needs evaluate")
    def test_the_rest_is_the_package(self) -> None:
        evaluate = importlib.import_module("evaluate")
        self.assertTrue(callable(evaluate.combine))
        package = importlib.import_module("evaluate")
        self.assertIsInstance(package.load("code_eval"), _code.CodeEval)
        self.assertIsInstance(evaluate.load("code_eval"), _code.CodeEval)
        from evaluate import load

        self.assertIsInstance(load("code_eval"), _code.CodeEval)


if __name__ == "__main__":
    unittest.main()
