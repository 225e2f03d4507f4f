"""`simple_evaluate` with functions of this process in inline tasks."""

from __future__ import annotations

import os
import random
import tempfile
import unittest
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_aggregation, register_filter, register_metric
from lm_eval.tasks import TaskManager

from tests import engine
from tests.engine import Lengths, scores, sums_task
from tests.registries import RegistryTestCase


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Functions(RegistryTestCase):
    """Inline tasks with functions of this process."""

    def test_every_field(self) -> None:
        """Functions for documents, prompts, filters and metrics are called in this process."""
        seen: list[str] = []

        def process_docs(dataset: Any) -> Any:
            seen.append("process_docs")
            return dataset.map(lambda doc: {**doc, "q": f"Compute {doc['q']}"})

        def doc_to_text(doc: dict[str, Any]) -> str:
            seen.append("doc_to_text")
            random.random()
            return f"{doc['q']}?"

        def first_word(resps: Any, docs: Any) -> Any:
            seen.append("filter")
            return [[answer.split()[0] for answer in answers] for answers in resps]

        def close(references: Any, predictions: Any, **kwargs: Any) -> float:
            seen.append("metric")
            return 1.0 / (1 + abs(int(references[0]) - int(predictions[0])))

        def worst(items: list[float]) -> float:
            seen.append("aggregation")
            return min(items)

        task = sums_task(
            process_docs=process_docs,
            doc_to_text=doc_to_text,
            filter_list=[{"name": "first", "filter": [{"function": "custom", "filter_fn": first_word}]}],
            metric_list=[{"metric": close, "aggregation": worst, "higher_is_better": True}],
        )
        random.seed(5)
        expected = random.Random(5)
        results = simple_evaluate(model=Lengths("4 is it"), tasks=[task], bootstrap_iters=0, random_seed=None)
        self.assertEqual(random.random(), expected.random())
        self.assertEqual(results["results"]["sums"]["close,first"], 1 / 15)
        self.assertEqual(set(seen), {"process_docs", "doc_to_text", "filter", "metric", "aggregation"})
        self.assertEqual(results["samples"]["sums"][0]["arguments"][0][0], "Compute 2+2?")
        self.assertIn("def doc_to_text", results["configs"]["sums"]["doc_to_text"])

    def test_process_results(self) -> None:
        """`process_results` computes scores; closures and bound methods work as functions."""

        class Judge:
            def __init__(self, bonus: float) -> None:
                self.bonus = bonus

            def process_results(self, doc: dict[str, Any], results: list[str]) -> dict[str, float]:
                return {"points": self.bonus + float(results[0] == doc["a"])}

        task = sums_task(
            process_results=Judge(10.0).process_results,
            metric_list=[{"metric": "points", "aggregation": "mean", "higher_is_better": True}],
        )
        results = simple_evaluate(model=Lengths("4"), tasks=[task])
        self.assertEqual(scores(results, "sums"), {"points,none": 10.5})

    def test_registered_names_in_inline_tasks(self) -> None:
        """Names registered here are found like built-in ones."""

        @register_metric(
            metric="near_of_this_test",
            higher_is_better=True,
            aggregation="top_of_this_test",
            output_type="generate_until",
        )
        def near(references: Any, predictions: Any, **kwargs: Any) -> float:
            return -float(abs(int(references[0]) - int(predictions[0])))

        @register_aggregation("top_of_this_test")
        def top(items: list[float]) -> float:
            return max(items)

        @register_filter("digits_of_this_test")
        class Digits(Filter):
            def apply(self, resps: Any, docs: Any) -> Any:
                return [["".join(filter(str.isdigit, answer)) for answer in answers] for answers in resps]

        task = sums_task(
            filter_list=[
                {
                    "name": "digits",
                    "filter": [{"function": "digits_of_this_test"}, {"function": "take_first"}],
                }
            ],
            metric_list=[{"metric": "near_of_this_test"}],
        )
        results = simple_evaluate(model=Lengths("x5y"), tasks=[task], bootstrap_iters=0)
        self.assertEqual(scores(results, "sums"), {"near_of_this_test,digits": -1.0})

    def test_exceptions(self) -> None:
        """An exception of a function reaches the caller unchanged."""

        class Trouble(Exception):
            pass

        def doc_to_text(doc: dict[str, Any]) -> str:
            raise Trouble(doc["q"])

        with self.assertRaises(Trouble) as raised:
            simple_evaluate(model="ngram", tasks=[sums_task(doc_to_text=doc_to_text)])
        self.assertEqual(raised.exception.args, ("2+2",))
        self.assertIn("doc_to_text", str(raised.exception.__cause__))
        with self.assertRaisesRegex(RuntimeError, "nothing_like_it") as unknown:
            simple_evaluate(model="ngram", tasks=[sums_task(doc_to_text="{{ nothing_like_it }}")])
        self.assertIn("sums", str(unknown.exception))

    def test_functions_of_task_files(self) -> None:
        """Functions of task files run in workers; their exceptions carry a traceback."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "helpers.py").write_text(
                "import os\ndef data(**kwargs): return {'test': [{'q': str(os.getpid()), 'a': 'x'}]}\n"
                "def bad(doc): return 1 / 0\n"
            )
            text = (
                "task: {}\ncustom_dataset: !function helpers.data\ntest_split: test\n"
                "doc_to_text: {}\ndoc_to_target: a\n"
            )
            Path(folder, "a.yaml").write_text(text.format("of_file", "q"))
            Path(folder, "b.yaml").write_text(text.format("bad_file", "!function helpers.bad"))
            manager = TaskManager(include_path=folder, include_defaults=False)
            results = simple_evaluate(model="dummy", tasks=["of_file"], task_manager=manager)
            process = results["samples"]["of_file"][0]["arguments"][0][0]
            self.assertNotEqual(process, str(os.getpid()))
            with self.assertRaisesRegex(RuntimeError, r"helpers\.bad(.|\n)*ZeroDivisionError"):
                simple_evaluate(model="dummy", tasks=["bad_file"], task_manager=manager)


if __name__ == "__main__":
    unittest.main()
