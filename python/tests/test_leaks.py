"""Evaluations in one process leave nothing behind that changes a later one."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval import _calls, _scope, simple_evaluate
from lm_eval.api import registry
from lm_eval.api.metrics.metric import Metric, RegisteredMetric
from lm_eval.api.registry import register_metric
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager

from tests import engine
from tests.engine import Lengths, sums, sums_task
from tests.registries import RegistryTestCase

TASK = """\
task: NAME
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}} ="
doc_to_target: "{{a}}"
metric_list: [{metric: exact_match}]
"""

UTILS = """\
from lm_eval.api.registry import register_metric

@register_metric(metric="exact_match", higher_is_better=True, output_type=["generate_until"], aggregation="mean")
def exact_match(references, predictions, **kwargs):
    return 42.0
"""


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Own(ConfigurableTask):
    """A task whose prompts are made in this process."""

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
        """Return the question."""
        return f"Sum: {doc['q']} ="


class Leaks(RegistryTestCase):
    """Names, modules, settings and examples."""

    def setUp(self) -> None:
        """Write two folders with a task each; one replaces a built-in metric."""
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        data = self.folder / "sums.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in sums()["test"]), encoding="utf-8")
        for name in ("strange", "usual"):
            (self.folder / name).mkdir()
            text = TASK.replace("NAME", name).replace("DATA", str(data))
            (self.folder / name / f"{name}.yaml").write_text(text, encoding="utf-8")
        (self.folder / "strange" / "utils.py").write_text(UTILS, encoding="utf-8")
        self.manager = TaskManager(include_path=self.folder, include_defaults=False)

    def score(self, name: str) -> float:
        """Evaluate a task of the folders."""
        results = simple_evaluate(Lengths(), tasks=[name], task_manager=self.manager, bootstrap_iters=0)
        score: float = results["results"][name]["exact_match,none"]
        return score

    def test_names_of_folders(self) -> None:
        """The names of a task's folder stay there, and the import path of the program is unchanged."""
        register_metric(metric="of_this_program", output_type="generate_until")(lambda **_: 1.0)
        path, modules = list(sys.path), set(sys.modules)
        for name, expected in (("strange", 42.0), ("usual", 0.5), ("strange", 42.0)):
            self.assertEqual(self.score(name), expected)
            self.assertEqual((_scope.folder, sys.path), ("", path))
            metric = registry.get_metric("exact_match")
            self.assertTrue(metric is not None and metric.output_type >= {"generate_until"})
            self.assertEqual(registry.metric_registry.origin("exact_match"), "lm_eval.api.metrics.generation:exact_match_fn")
        self.assertNotIn("utils", set(sys.modules) - modules)
        register_metric(metric="registered_later", output_type="generate_until")(lambda **_: 1.0)
        self.assertIn("registered_later", registry.metric_registry._entries)

    def test_names_after_an_error(self) -> None:
        """The same after an evaluation that fails."""
        register_metric(metric="of_this_program", output_type="generate_until")(lambda **_: 1.0)
        yaml = self.folder / "strange" / "strange.yaml"
        yaml.write_text(yaml.read_text().replace("exact_match}", "no_such_metric}"), encoding="utf-8")
        path = list(sys.path)
        with self.assertRaisesRegex(Exception, "no_such_metric"):
            self.score("strange")
        self.assertEqual((_scope.folder, sys.path), ("", path))

    def test_changed_files(self) -> None:
        """A function of a file that was edited between two evaluations is the edited one."""
        (self.folder / "usual" / "own.py").write_text("def text(doc):\n    return 'first'\n", encoding="utf-8")
        yaml = self.folder / "usual" / "usual.yaml"
        yaml.write_text(yaml.read_text().replace('"{{q}} ="', "!function own.text"), encoding="utf-8")
        for expected in ("first", "second"):
            (self.folder / "usual" / "own.py").write_text(
                f"def text(doc):\n    return {expected!r}\n", encoding="utf-8"
            )
            task = TaskManager(include_path=self.folder, include_defaults=False).load(["usual"])["tasks"]["usual"]
            self.assertEqual(task.doc_to_text({"q": "", "a": ""}), expected)
            self.assertEqual(task.build_all_requests()[0].args[0], expected)

    def test_settings_of_task_objects(self) -> None:
        """The settings of an evaluation do not stay in a task object, whose methods run in this process."""
        task = Own(config=sums_task())
        before = task.config.to_dict(keep_callable=True)

        def prompts(**settings: Any) -> list[Any]:
            results = simple_evaluate(Lengths(), tasks=[task], bootstrap_iters=0, **settings)
            return [sample["arguments"][0] for sample in results["samples"]["sums"]]

        plain = prompts()
        changed = prompts(num_fewshot=2, gen_kwargs={"max_gen_toks": 3}, fewshot_random_seed=7, compat="0.4")
        self.assertNotEqual(plain, changed)
        self.assertEqual(task.config.to_dict(keep_callable=True), before)
        self.assertEqual(plain, prompts())

    def test_examples_of_task_objects(self) -> None:
        """After an evaluation, a task draws its own examples again."""

        class Prompts(Own):
            def fewshot_context(self, doc: Any, *args: Any, **kwargs: Any) -> Any:
                return super().fewshot_context(doc, *args, **kwargs)

        task, fresh = Prompts(config=sums_task(num_fewshot=1)), Prompts(config=sums_task(num_fewshot=1))
        simple_evaluate(Lengths(), tasks=[task], bootstrap_iters=0)
        doc = sums()["test"][0]
        task.set_fewshot_seed(3)
        fresh.set_fewshot_seed(3)
        for _ in range(3):
            self.assertEqual(task.fewshot_context(doc, num_fewshot=1), fresh.fewshot_context(doc, num_fewshot=1))

    def test_metrics_of_equal_identity(self) -> None:
        """A metric that takes the address of another one is not taken for it."""

        def entry(value: float) -> RegisteredMetric:
            return RegisteredMetric.of(
                "m",
                shared,
                higher_is_better=True,
                aggregation="mean",
                reduction=None,
                output_type="generate_until",
            ) if value else RegisteredMetric.of(
                "m",
                other,
                higher_is_better=True,
                aggregation="mean",
                reduction=None,
                output_type="generate_until",
            )

        def shared(**_: Any) -> float:
            return 1.0

        def other(**_: Any) -> float:
            return 0.0

        for value in (1.0, 0.0) * 20:
            made = entry(value)
            metric: Metric[Any, Any] = _calls._metric_of(made)
            self.assertIs(metric.fn, shared if value else other)
            del made
            gc.collect()

    def test_hooks_of_judges(self) -> None:
        """A judge that is an object of this process keeps its cache hook, like the model."""
        judge, model = Lengths("GRADE: C"), Lengths()
        hooks = judge.cache_hook, model.cache_hook
        task = {**sums_task(), "scorer": {"type": "judge", "role": "grader"}}
        task.pop("metric_list")
        try:
            simple_evaluate(model, tasks=[task], judges={"grader": judge}, limit=1)
        except Exception as error:  # noqa: BLE001
            self.assertNotIn("cache", str(error))
        self.assertEqual((judge.cache_hook, model.cache_hook), hooks)

    def test_unchanged_process(self) -> None:
        """The environment, the working folder and loaded packages are left alone."""
        folder, environment = os.getcwd(), dict(os.environ)
        self.score("usual")
        self.assertEqual((os.getcwd(), dict(os.environ)), (folder, environment))
        self.assertIs(lm_eval.evaluator.simple_evaluate, simple_evaluate)


if __name__ == "__main__":
    unittest.main()
