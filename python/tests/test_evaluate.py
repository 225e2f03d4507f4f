"""`simple_evaluate`: result objects, files and documented examples."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker

from tests import engine
from tests.engine import Lengths, sums_task

CHANGING = (
    "date",
    "total_evaluation_time_seconds",
    "fewshot_as_multiturn",
    "git_hash",
)
"""Keys that differ between two runs, or between an omitted flag and an argument."""


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Results(unittest.TestCase):
    """The result object, and the files that a tracker writes."""

    def test_same_files_as_the_command_line(self) -> None:
        """Results and samples are byte-identical from the command line and from Python."""
        with tempfile.TemporaryDirectory() as folder:
            engine.run(
                *("run", "--quiet", "--model", "ngram", "--tasks", "demo_all,demo", "--limit", "6"),
                *("--log_samples", "--output_path", os.path.join(folder, "cli")),
            )
            tracker = EvaluationTracker(output_path=os.path.join(folder, "python"))
            results = simple_evaluate(
                model="ngram",
                model_args={},
                tasks=["demo_all", "demo"],
                limit=6.0,
                batch_size=1,
                device="cuda:0",
                gen_kwargs={},
                evaluation_tracker=tracker,
            )
            samples = results.pop("samples")
            tracker.save_results_aggregated(results=results, samples=samples)
            for task, records in samples.items():
                tracker.save_results_samples(task_name=task, samples=records)
            files = {}
            for way in ("cli", "python"):
                found = sorted(Path(folder, way).rglob("*.json*"))
                files[way] = {
                    path.name.rpartition("_")[0]: path.read_text(encoding="utf-8") for path in found
                }
            self.assertEqual(list(files["cli"]), list(files["python"]))
            self.assertGreater(len(files["cli"]), 10)
            for name, text in files["cli"].items():
                with self.subTest(name):
                    self.assertEqual(self._stable(text), self._stable(files["python"][name]))

    def _stable(self, text: str) -> list[str]:
        # Files that are written from Python have no receipt and no checksums, which are last.
        for last in ("checksums", "receipt"):
            text = text.partition(f',\n  "{last}": {{')[0].removesuffix("\n}")
        return [
            line for line in text.splitlines() if line.split('"')[1:2] not in [[name] for name in CHANGING]
        ]

    def test_result_keys_and_types(self) -> None:
        """Results have their keys in order, with Python types."""
        results = simple_evaluate(model="ngram", tasks="demo_choice", limit=3, model_args="seed=1,order=3")
        self.assertEqual(
            list(results)[:9],
            [
                *("results", "groups", "group_subtasks", "configs", "versions", "n-shot"),
                *("higher_is_better", "n-samples", "samples"),
            ],
        )
        self.assertEqual(results["config"]["model_args"], "seed=1,order=3")
        self.assertEqual((results["config"]["limit"], results["config"]["device"]), (3, "cpu"))
        record = results["samples"]["demo_choice::demo_capitals"][0]
        self.assertIsInstance(record["arguments"][0], tuple)
        self.assertIsInstance(record["resps"][0][0], tuple)
        self.assertIsInstance(record["target"], int)
        without = simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=3, log_samples=False)
        self.assertNotIn("samples", without)
        unscored = simple_evaluate(
            model="ngram", tasks=["demo_capitals"], limit=3, log_samples=False, predict_only=True
        )
        self.assertEqual(len(unscored["samples"]["demo_capitals"]), 3)

    def test_arguments(self) -> None:
        """Settings reach the engine."""
        documents = {"demo_capitals": [1, 4]}
        results = simple_evaluate(model="ngram", tasks=["demo_capitals"], samples=documents, num_fewshot=2)
        self.assertEqual([record["doc_id"] for record in results["samples"]["demo_capitals"]], [1, 4])
        self.assertEqual(results["n-shot"], {"demo_capitals": 2})
        prompt = results["samples"]["demo_capitals"][0]["arguments"][0][0]
        self.assertEqual(prompt.count("Question:"), 3)
        plain = simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=2, bootstrap_iters=0)
        self.assertEqual(plain["results"]["demo_capitals"]["acc_stderr,none"], "N/A")
        self.assertIsNone(
            simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=2, bootstrap_iters=None)["config"][
                "bootstrap_iters"
            ]
        )
        older = simple_evaluate(model="ngram", tasks=["demo_choice"], limit=2, compat="0.4")
        self.assertIn("demo_capitals", older["results"])
        self.assertEqual(older["compat"], "0.4")
        settings = simple_evaluate(
            model="dummy", tasks=["demo_arithmetic"], limit=2, gen_kwargs="max_gen_toks=7,temperature=0.5"
        )
        used = settings["samples"]["demo_arithmetic"][0]["arguments"][0][1]
        self.assertEqual((used["max_gen_toks"], used["temperature"]), (7, 0.5))
        self.assertEqual(settings["config"]["gen_kwargs"], {"max_gen_toks": 7, "temperature": 0.5})

    def test_invalid_arguments(self) -> None:
        """Each raises a fitting exception with advice."""
        task = ["demo_capitals"]
        for arguments, kind, message in (
            ({"model": "ngram", "tasks": []}, ValueError, "No tasks"),
            ({"model": "ngram", "tasks": ("demo_capitals",)}, TypeError, "tuple"),
            ({"model": "ngram", "tasks": [7]}, TypeError, "int"),
            ({"model": 7, "tasks": task}, TypeError, "int"),
            ({"model": "engram", "tasks": task}, ValueError, "ngram"),
            ({"model": "ngram", "tasks": ["demo_capitels"]}, KeyError, "Did you mean `demo_capitals`"),
            ({"model": "ngram", "tasks": [{"task": "x", "nonsense": 1}]}, TypeError, "nonsense"),
            ({"model": "ngram", "tasks": task, "limit": 1, "samples": {}}, ValueError, "cannot be combined"),
            ({"model": "ngram", "tasks": task, "limit": -1}, ValueError, "limit"),
            ({"model": "ngram", "tasks": task, "compat": "0.3"}, ValueError, "0.4"),
            ({"model": "ngram", "tasks": task, "num_fewshot": "two"}, ValueError, "an integer"),
            ({"model": "ngram", "tasks": task, "samples": {"other": [1]}}, ValueError, "demo_capitals"),
            ({"model": "ngram", "tasks": task, "check_integrity": True}, ValueError, "self-tests"),
            ({"model": "ngram", "tasks": [sums_task(unsafe_code=True)]}, ValueError, "confirm"),
        ):
            with self.subTest(str(arguments)), self.assertRaisesRegex(kind, message):
                simple_evaluate(**arguments)


class Documentation(unittest.TestCase):
    """Examples of the documentation."""

    def test_page_examples_run(self) -> None:
        """The examples of the page run one after the other, as in a notebook."""
        page = (engine.REPOSITORY / "docs" / "python-api.md").read_text(encoding="utf-8")
        blocks = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
        self.assertGreater(len(blocks), 4)
        namespace: dict[str, Any] = {"__name__": "page"}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
            os.mkdir(os.path.join(folder, "my_tasks"))
            for command in re.findall("<!-- setup: lm-eval (.*) -->", page):
                engine.run(*shlex.split(command), cwd=folder)
            os.chdir(folder)
            try:
                for block in blocks:
                    exec(block, namespace)
            finally:
                os.chdir(before)
            files = [path.name.partition("_")[0] for path in Path(folder, "results").rglob("*.json*")]
        self.assertEqual(sorted(files), ["results", "samples"])
        self.assertIn("|demo_capitals|", printed.getvalue())

    def test_command_identifies_itself(self) -> None:
        """The `lm_eval` command identifies itself when run by hand."""
        done = subprocess.run(
            [engine.binary_path(), "serve-python"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("Python package", done.stderr)

    # Documented names by module.
    NAMES: ClassVar[dict[str, tuple[str, ...]]] = {
        "lm_eval": ("simple_evaluate", "evaluate", "TaskManager", "__version__"),
        "lm_eval.evaluator": ("simple_evaluate", "evaluate"),
        "lm_eval.tasks": ("TaskManager", "TaskDict", "get_task_dict"),
        "lm_eval.loggers": ("EvaluationTracker",),
        "lm_eval.config.evaluate_config": ("EvaluatorConfig",),
        "lm_eval.config.task": ("TaskConfig", "MetricConfig", "FilterStep", "ScorerConfig", "FilterPipeline"),
        "lm_eval.api.group": ("Group", "ConfigurableGroup"),
        "lm_eval.utils": ("make_table", "simple_parse_args_string"),
    }

    def test_names(self) -> None:
        """Documented names can be imported."""
        import importlib

        for module, names in self.NAMES.items():
            for name in names:
                self.assertTrue(hasattr(importlib.import_module(module), name), f"{module}.{name}")
        self.assertTrue(issubclass(Lengths, LM))


if __name__ == "__main__":
    unittest.main()
