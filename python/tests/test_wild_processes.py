"""Models distributed over several processes, and metrics of the package `evaluate`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import unittest
from typing import Any
from unittest import mock

from tests import engine
from tests.wild import COMMON, PLAIN, Script


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Processes(Script):
    """Models distributed over several processes."""

    PROGRAM = """
        import os, pickle, socket, time
        import lm_eval

        class Shared(Base):
            def __init__(self):
                super().__init__()
                self._rank, self._world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
                self.asked = self.turn = 0

            def gather_object(self, obj, dst=0):
                self.turn += 1
                with open(f"turn{self.turn}.{self._rank}.part", "wb") as file:
                    pickle.dump(obj, file)
                os.rename(file.name, file.name.removesuffix(".part"))
                if self._rank != dst:
                    return None
                parts = []
                for rank in range(self._world_size):
                    path = f"turn{self.turn}.{rank}"
                    while not os.path.exists(path):
                        time.sleep(0.01)
                    parts.append(pickle.load(open(path, "rb")))
                return parts

            def generate_until(self, requests):
                self.asked += len(requests)
                return ["4" if self._rank == 0 else "6" for _ in requests]

        if __name__ == "__main__":
            lm = Shared()
            manager = lm_eval.TaskManager(include_path="tasks")
            results = lm_eval.simple_evaluate(model=lm, tasks=["wild_sums"], task_manager=manager)
            print(lm.asked, None if results is None else [s["resps"][0][0] for s in results["samples"]["wild_sums"]])
    """

    def _start(self, program: str, size: int) -> list[subprocess.Popen[str]]:
        path = self.write("program.py", COMMON + textwrap.dedent(program))
        shared = {**os.environ, "PYTHONPATH": str(engine.REPOSITORY / "python"), "WORLD_SIZE": str(size)}
        return [
            subprocess.Popen(
                [sys.executable, str(path)],
                env={**shared, "RANK": str(rank)},
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]

    def test_requests_are_shared(self) -> None:
        """The first process evaluates, all answer, and each makes the same number of calls."""
        ended = [(process, *process.communicate(timeout=120)) for process in self._start(self.PROGRAM, 3)]
        for process, _, errors in ended:
            self.assertEqual(process.returncode, 0, errors)
        printed = [lines.splitlines()[-1] for _, lines, _ in ended]
        self.assertEqual(printed, ["2 ['4', '6', '6', '4']", "2 None", "2 None"])

    def test_error_reaches_first_process(self) -> None:
        """An exception of another process ends the evaluation everywhere."""
        program = self.PROGRAM.replace(
            "self.asked += len(requests)", "assert self._rank != 1, 'of another process'"
        )
        ended = [(process, *process.communicate(timeout=120)) for process in self._start(program, 2)]
        self.assertEqual([process.returncode for process, _, _ in ended], [1, 0])
        self.assertIn("of another process", ended[0][2])

    def test_command_line(self) -> None:
        """A script with its own command line can also be started by a launcher."""
        program = (
            self.PROGRAM.partition("if __name__")[0]
            + """
        if __name__ == "__main__":
            from lm_eval.__main__ import cli_evaluate
            from lm_eval.api.registry import register_model

            class Registered(Shared):
                def __init__(self, **kwargs):
                    super().__init__()

            register_model("shared")(Registered)
            words = "--model shared --tasks wild_sums --include_path tasks --format json --output_path out -s"
            sys.argv = ["program.py", *words.split()]
            cli_evaluate()
        """
        )
        ended = [(process, *process.communicate(timeout=120)) for process in self._start(program, 2)]
        for process, _, errors in ended:
            self.assertEqual(process.returncode, 0, errors)
        results = json.loads(ended[0][1])
        self.assertEqual(results["results"]["wild_sums"]["exact_match,none"], 0.75)
        self.assertEqual(ended[1][1], "")
        self.assertEqual(len(list(self.folder.glob("out/*/results_*.json"))), 1)

    def test_rejects_models_that_cannot_gather(self) -> None:
        """A model whose processes cannot gather answers is rejected before any work."""
        program = """
            import lm_eval
            lm = Base()
            lm._world_size = 2
            lm.generate_until = lambda requests: print("asked")
            manager = lm_eval.TaskManager(include_path="tasks")
            lm_eval.simple_evaluate(model=lm, tasks=["wild_sums"], task_manager=manager)
        """
        done = self.start(program)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("gather_object", done.stderr)

    def test_back_ends_run_in_the_first_process(self) -> None:
        """A backend of the engine is evaluated only once, not in each process of a launcher."""
        program = """
            import lm_eval
            manager = lm_eval.TaskManager(include_path="tasks")
            lm_eval.simple_evaluate(model="dummy", tasks=["wild_sums"], task_manager=manager)
        """
        self.assertEqual(self.start(program, RANK="0", WORLD_SIZE="2").returncode, 0)
        done = self.start(program, RANK="1", WORLD_SIZE="2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("data_parallel", done.stderr)
        words = ["--model", "dummy", "--tasks", "wild_sums", "--include_path", "tasks"]
        for later, status in (("0", 0), ("1", 1)):
            environment = {
                **os.environ,
                "PYTHONPATH": str(engine.REPOSITORY / "python"),
                "WORLD_SIZE": "2",
                "RANK": later,
            }
            command = [sys.executable, "-m", "lm_eval", *words]
            self.assertEqual(
                subprocess.run(
                    command, cwd=self.folder, env=environment, check=False, capture_output=True
                ).returncode,
                status,
            )


class EvaluatePackage(Script):
    """Metrics of the package `evaluate`."""

    SCRIPT = """
import datasets
import evaluate

class Halves(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("string"), "references": datasets.Value("string")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references, scale=1.0):
        right = sum(p == r for p, r in zip(predictions, references))
        return {"halves": scale * (0.5 + right / 2)}
"""

    def _evaluate(self, metric: str) -> dict[str, Any]:
        head = PLAIN.partition("metric_list")[0]
        self.write("tasks/wild_sums.yaml", f"{head}metric_list:\n  - {metric}\n")
        program = """
            import json, lm_eval
            manager = lm_eval.TaskManager(include_path="tasks")
            results = lm_eval.simple_evaluate(
                model=Base(), tasks=["wild_sums"], task_manager=manager, bootstrap_iters=0
            )
            print(json.dumps(results["results"]["wild_sums"]))
        """
        scores: dict[str, Any] = json.loads(self.run_script(program).splitlines()[-1])
        return scores

    def setUp(self) -> None:
        """Write the metric."""
        super().setUp()
        try:
            import evaluate  # noqa: F401
        except ImportError:
            self.skipTest("the package `evaluate` is not installed")
        folders = {"HF_MODULES_CACHE": str(self.folder / "modules"), "HF_HOME": str(self.folder / "hub")}
        patched = mock.patch.dict(os.environ, folders)
        patched.start()
        self.addCleanup(patched.stop)
        self.write("halves/halves.py", self.SCRIPT)

    def test_script(self) -> None:
        """A user's script is loaded and called for each document."""
        scores = self._evaluate(
            "{metric: ./halves, hf_evaluate: true, aggregation: mean, higher_is_better: true}"
        )
        self.assertEqual(scores["./halves,none"], 0.75)
        scores = self._evaluate("{metric: ./halves, hf_evaluate: true, aggregation: mean, scale: 2.0}")
        self.assertEqual(scores["./halves,none"], 1.5)

    def test_cache(self) -> None:
        """A metric in the package's cache is used, even in place of a built-in one, and by the binary."""
        script = self.SCRIPT.replace("Halves", "F1").replace('"halves"', '"f1"')
        for name in ("f1", "wer"):
            folder = f"modules/evaluate_modules/metrics/evaluate-metric--{name}/{'0' * 64}"
            self.write(f"{folder}/{name}.py", script)
            self.write(f"{folder}/{name}.json", "{}")
        self.assertEqual(
            self._evaluate("{metric: f1, hf_evaluate: true, aggregation: mean}")["f1,none"], 0.75
        )
        self.assertEqual(self._evaluate("{metric: wer, aggregation: mean}")["wer,none"], 0.75)
        done = engine.run(
            *(
                "run",
                "--model",
                "dummy",
                "--tasks",
                "wild_sums",
                "--include_path",
                "tasks",
                "--format",
                "json",
            ),
            *("--python", sys.executable),
            cwd=self.folder,
        )
        self.assertEqual(json.loads(done.stdout)["results"]["wild_sums"]["wer,none"], 0.5)

    def test_several_references(self) -> None:
        """A metric receives several references if it supports them; otherwise that is an error."""
        one, several = '"references": datasets.Value("string")', '"references": [datasets.Value("string")]'
        listed = self.SCRIPT.replace(one, several)
        self.write("lists/lists.py", listed.replace("p == r", "p in r").replace('"halves"', '"lists"'))
        program = """
            from lm_eval.api.registry import get_metric
            print(get_metric("./lists")(references=["a", "b"], predictions=["b"]))
            try:
                get_metric("./halves")(references=["a", "b"], predictions=["b"])
            except ValueError as error:
                print(error)
        """
        printed = self.run_script(program).splitlines()
        self.assertEqual(printed[0], "1.0")
        self.assertIn("one reference per answer", printed[1])

    def test_by_name_in_python(self) -> None:
        """`get_metric` also finds them."""
        program = """
            from lm_eval.api.registry import get_metric
            print(get_metric("./halves")(references=["a"], predictions=["b"]))
            assert get_metric("exact_match", hf_evaluate_metric=True) is get_metric("exact_match")
            print(get_metric("f1", hf_evaluate_metric=True), get_metric("no_such_metric"))
        """
        self.assertEqual(self.run_script(program).splitlines(), ["0.5", "None None"])

    def test_missing_metric_files(self) -> None:
        """A metric without files is reported before the run, as before."""
        self.write(
            "tasks/wild_sums.yaml", PLAIN.partition("metric_list")[0] + "metric_list:\n  - {metric: wer}\n"
        )
        done = self.start(
            """
            import lm_eval
            lm = Base()
            lm.generate_until = lambda requests: print("asked")
            manager = lm_eval.TaskManager(include_path="tasks")
            lm_eval.simple_evaluate(model=lm, tasks=["wild_sums"], task_manager=manager)
            """
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("needs Python's `evaluate` package", done.stderr)


if __name__ == "__main__":
    unittest.main()
