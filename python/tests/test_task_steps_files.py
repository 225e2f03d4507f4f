"""The steps of an evaluation for tasks of a folder, with names that its modules register."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import lm_eval
from lm_eval.api.task import GenerateTask, Task
from lm_eval.tasks import TaskManager

from tests import engine
from tests.step_tasks import (
    Model,
    answer,
    evaluated,
    scores,
)


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


UTILS = """
from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_aggregation, register_filter, register_metric

@register_filter("digits")
class Digits(Filter):
    def apply(self, resps, docs):
        return [["".join(c for c in r if c.isdigit()) for r in answers] for answers in resps]

@register_aggregation("largest")
def largest(items):
    return max(items)

@register_metric(metric="close", higher_is_better=True, output_type="generate_until", aggregation="largest")
def close(references, predictions, tolerance=0):
    return [1.0 / (1 + abs(int(references[0]) - int(p))) for p in predictions]

def data(**kwargs):
    return {"test": [{"q": str(n), "a": str(n % 4)} for n in range(6)]}

"""

CLASS = """
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

class Asked(ConfigurableTask):
    VERSION = 3

    def __init__(self, config):
        config.pop("class")
        self.suffix = config.pop("suffix")
        super().__init__(config={**config, "metadata": {"version": 3}})

    def has_test_docs(self):
        return True

    def test_docs(self):
        return [{"q": str(n), "a": str(n % 4)} for n in range(6)]

    def construct_requests(self, doc, ctx, apply_chat_template=False, chat_template=None, **kwargs):
        return [
            Instance(request_type="generate_until", doc=doc, arguments=(ctx + self.suffix, {"until": []}), idx=0, **kwargs),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " yes"), idx=1, **kwargs),
        ]

    def process_results(self, doc, results):
        text, (likelihood, greedy) = results
        return {"hit": doc["a"] in text, "yes": likelihood}

    def aggregation(self):
        return {"hit": mean, "yes": max}

    def higher_is_better(self):
        return {"hit": True, "yes": False}
"""

FILES = {
    "utils.py": UTILS,
    "asked.py": CLASS,
    "close.yaml": "task: close_to\ncustom_dataset: !function utils.data\ntest_split: test\n"
    "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\n"
    "filter_list: [{name: digits, filter: [{function: digits}, {function: take_first}]}]\n"
    "metric_list: [{metric: close, tolerance: 2}]\n",
    "asked.yaml": "task: asked\nclass: !function asked.Asked\nsuffix: '?'\noutput_type: generate_until\n"
    "doc_to_text: q\ndoc_to_target: a\n",
    "shaped.yaml": "task: shaped\nclass: !function shaped.Shaped\nformats: mcqa\ndoc_to_text: q\ndoc_to_target: a\n"
    "doc_to_choice: c\ncustom_dataset: !function shaped.data\ntest_split: test\n",
    "shaped.py": "from lm_eval.api.task import ConfigurableTask\n"
    "def data(**kwargs):\n    return {'test': [{'q': '1?', 'a': 1, 'c': ['x', 'y']}] * 2}\n"
    "class Shaped(ConfigurableTask):\n"
    "    def apply_filters(self):\n        return super().apply_filters()\n",
    "base.yaml": "num_fewshot: 0\n",
    "again.yaml": "task: again\ncustom_dataset: !function utils.data\ntest_split: test\n"
    "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\n",
    "again.py": "from lm_eval.api.registry import register_metric\n"
    "@register_metric(metric='exact_match', higher_is_better=True, output_type='generate_until', aggregation='mean')\n"
    "def exact_match(references, predictions, **kwargs):\n    return 42.0\n",
    "group.yaml": "include: base.yaml\ngroup: of_both\ntask: [close_to, asked]\nmetadata: {version: 4}\n"
    "aggregate_metric_list: {metric: close}\n",
}


class Files(unittest.TestCase):
    """Tasks of a folder, with names that its modules register."""

    def setUp(self) -> None:
        """Write the folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in FILES.items():
            Path(folder.name, name).write_text(text, encoding="utf-8")
        self.manager = TaskManager(include_path=folder.name, include_defaults=False)

    def _same(self, name: str) -> Task:
        task = self.manager.load([name])["tasks"][name]
        task.build_all_requests()
        answer(Model(), task)
        task.process_instances()
        expected = scores(evaluated(name, task_manager=self.manager)[0])
        self.assertEqual(task.aggregate(100)[0], expected)
        return task

    def test_registered_names(self) -> None:
        """Filters, metrics and aggregations that `utils.py` registers are known to the scorers, too."""
        task = self._same("close_to")
        self.assertIsInstance(task, GenerateTask)
        (scorer,) = task.scorers
        self.assertEqual([metric.name for metric in scorer.metrics or ()], ["close"])
        self.assertEqual(task.aggregation()["close"]([1, 3, 2]), 3)
        self.assertEqual(task.higher_is_better(), {"close": True})
        expected = task.aggregate(100)
        scorer.metrics = list(scorer.metrics or ())
        scorer.context = {"tolerance": 1}
        self.assertTrue(task._has_own_scorers)
        task.process_instances()
        self.assertEqual(task.aggregate(100)[0], expected[0])

    def test_scorers_use_redefined_names(self) -> None:
        """The scorers of a task use names that its folder redefines, as a run does."""
        task = self._same("again")
        self.assertEqual(task.aggregate(0)[0]["exact_match,none"], 42.0)
        task.scorers[0].context = {"changed": True}
        self.assertTrue(task._has_own_scorers)
        task.process_instances()
        self.assertEqual(task.aggregate(0)[0]["exact_match,none"], 42.0)

    def test_config_names_the_class(self) -> None:
        """The configuration of a class names the class, as in the reference."""
        task = self._same("asked")
        self.assertEqual((task.VERSION, len(task.instances or [])), (3, 12))
        self.assertEqual([instance.request_type for instance in (task.instances or [])[:2]], ["generate_until", "loglikelihood"])

    def test_class_with_a_format(self) -> None:
        """The format is applied once, whoever calls; a warning lists the methods a run does not call."""
        task = self._same("shaped")
        self.assertEqual((task.instances or [])[0].args, ("Question: 1?\nA. x\nB. y\nAnswer:", " A"))
        self.assertEqual(task.doc_to_text(task.test_docs()[0]), "Question: 1?\nA. x\nB. y\nAnswer:")
        self.assertEqual(task.config.formats, "mcqa")

    def test_group_that_includes(self) -> None:
        """`include` of a group is followed, and the group records its origin."""
        loaded = self.manager.load(["of_both"])
        group = loaded["groups"]["of_both"]
        self.assertEqual((group.version, group.has_aggregation), ("4", True))
        self.assertEqual(group.to_dict()["task"], ["close_to", "asked"])
        self.assertEqual(group.child_names, ["of_both::close_to", "of_both::asked"])
        self.assertEqual(loaded["tasks"]["of_both::close_to"].config.num_fewshot, 0)
        results = lm_eval.evaluate(Model(), loaded, bootstrap_iters=0)
        (of_group,) = results["groups"].values()
        self.assertEqual(of_group, group.aggregate(results["results"]))


if __name__ == "__main__":
    unittest.main()
