"""Behaviour of the 0.5 interface that programs written for it rely on."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lm_eval.api
from lm_eval._cli import HarnessCLI
from lm_eval.api import metrics, registry
from lm_eval.api.group import Group
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import LLResults, Metric
from lm_eval.api.registry import Registry, register_metric
from lm_eval.api.task import MultipleChoiceTask, Task
from lm_eval.config.formats import FormatConfig
from lm_eval.config.group import AggMetricConfig
from lm_eval.config.task import TaskConfig
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import TaskIndex

from tests.registries import RegistryTestCase


class Registration(RegistryTestCase):
    """Registering names."""

    def test_built_in_metrics_keep_their_names(self) -> None:
        """A second metric of a built-in name raises and changes nothing."""
        before = registry.get_metric("exact_match")
        with self.assertRaisesRegex(ValueError, "`exact_match` is already registered"):

            @register_metric(metric="exact_match", aggregation="mean")
            def custom_exact_match(**kwargs: Any) -> int:
                return 0

        with self.assertRaisesRegex(ValueError, "`mean` is already registered"):
            registry.register_aggregation("mean")(max)
        self.assertIs(registry.get_metric("exact_match"), before)

    def test_metric_registry_has_metrics(self) -> None:
        """Entries are `Metric` objects whose aggregation is looked up."""

        @registry.register_aggregation("largest")
        def largest(items: Any) -> float:
            return float(max(items))

        @register_metric(metric="size", aggregation="largest")
        def size(items: Any) -> int:
            return len(items)

        found = registry.metric_registry.get("size")
        self.assertIsInstance(found, Metric)
        self.assertIs(found.fn, size)
        self.assertIs(found.aggregation, largest)
        self.assertIsInstance(registry.metric_registry["acc"], Metric)

    def test_reference_is_upgraded_by_the_object_it_names(self) -> None:
        """The object that a lazy entry names can be registered, also from inside a function."""
        table: Registry[Any] = Registry("thing")
        table.register("alias", target=f"{__name__}:Thing")

        @table.register("alias")
        class Thing:
            pass

        self.assertIs(table.get("alias"), Thing)

    def test_lazy_module(self) -> None:
        """A module is imported on the first lookup in an empty registry, and only there."""
        table: Registry[Any] = Registry("thing", lazy_module="no.such.module")
        table.register("cwd", target="os:getcwd")
        self.assertIs(table.get("cwd"), __import__("os").getcwd)
        with self.assertRaises(ImportError):
            Registry("thing", lazy_module="no.such.module").get("cwd")
        with self.assertRaises(KeyError):
            Registry("thing", lazy_module="os.path").get("cwd")


class Metrics(unittest.TestCase):
    """Metric objects."""

    def test_names(self) -> None:
        """Names that the package exports."""
        self.assertEqual(lm_eval.api.Group, Group)
        self.assertEqual(set(lm_eval.api.__all__), {name for name in lm_eval.api.__all__ if getattr(lm_eval.api, name)})
        self.assertIn("reduction", metrics.METRIC_KEYS)
        self.assertEqual(metrics.pop_stddev([1.0, 3.0]), 1.0)
        self.assertTrue(issubclass(metrics.Likelihood, metrics.CorpusMetric))

    def test_compute_of_a_pair(self) -> None:
        """A single argument goes to the function as it is; so do options that it names."""
        metric: Metric[Any, Any] = Metric("pairs", lambda items, power=1: (items, power), {"power": 2})
        self.assertEqual(metric.compute(("a", "b")), (("a", "b"), 2))

    def test_corpus_metrics_take_options_of_reductions(self) -> None:
        """`reduce` accepts keyword arguments."""
        self.assertEqual(metrics.Bleu().reduce(["a"], [(["a"], ["b"])], k=1), (["a"], ["b"]))

    def test_results_of_requests(self) -> None:
        """The requests of a document are the argument `results`."""
        answered = Instance("loglikelihood", {}, ("a", " b"), filtered_resps={"none": [(-1.0, True)]}, target=0)
        self.assertEqual(list(LLResults.from_instances(results=[answered]).lls), [-1.0])

    def test_greedy_generation(self) -> None:
        """Turning sampling off sets the temperature; a default does not."""
        self.assertEqual(normalize_gen_kwargs({"do_sample": False})["temperature"], 0.0)
        self.assertNotIn("temperature", normalize_gen_kwargs({}))


class Tasks(unittest.TestCase):
    """Tasks, formats, groups and the index."""

    def folder(self, **files: str) -> str:
        """Write task files into a new folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            (Path(folder.name) / f"{name}.yaml").write_text(text, encoding="utf-8")
        return folder.name

    def test_lists_in_strings(self) -> None:
        """A rendered list of contexts is a list; options that are not a list are `None`."""
        fields = {"task": "t", "dataset_path": "x", "test_split": "test"}
        task = MultipleChoiceTask(
            TaskConfig(**fields, doc_to_text="{{contexts}}", doc_to_choice=["x"], multiple_inputs=True)
        )
        self.assertEqual(task.doc_to_text({"contexts": "['a', 'b']"}), ["a", "b"])
        task = Task(TaskConfig(**fields, output_type="generate_until", doc_to_choice="answer"))
        self.assertIsNone(task.doc_to_choice({"answer": "blue"}))

    def test_format_fields(self) -> None:
        """A format sets no empty prefix, and names its scorer."""
        choice, generate = FormatConfig.get("mcqa"), FormatConfig.get("generate")
        assert choice is not None
        assert generate is not None
        self.assertNotIn("gen_prefix", choice.to_task_config())
        self.assertEqual(generate.to_task_config()["scorer"], "first_token")
        config = TaskConfig(task="t@mcqa", dataset_path="x", doc_to_choice="choices")
        self.assertEqual((config.formats, config._formats_selection), ("mcqa", "mcqa"))

    def test_groups(self) -> None:
        """An empty `filter_list` aggregates nothing; `repr` counts members; `to_dict` has what is set."""
        task = Task(TaskConfig(task="one", dataset_path="x"))
        group = Group("g", aggregate_metric_list=[AggMetricConfig("acc", filter_list=[])])
        group.add(task)
        self.assertNotIn("acc,none", group.aggregate({"one": {"acc,none": 1.0, "sample_len": 2}}))
        self.assertEqual(repr(group), "Group(name='g', alias=None, members=1)")
        self.assertEqual(Group("bare").to_dict(), {"group": "bare"})

    def test_nested_names(self) -> None:
        """A task that only its group defines has the name of the group; a registered one keeps its own."""
        inline = "task: inside\n    dataset_path: x\n    doc_to_text: q\n    doc_to_target: a\n    test_split: test"
        folder = self.folder(
            known="task: known\ndataset_path: x\ndoc_to_text: q\ndoc_to_target: a\ntest_split: test\n",
            g=f"group: g\ntask:\n  - known\n  - {inline}\n",
        )
        manager = TaskManager(include_path=folder, include_defaults=False)
        with self.assertWarns(DeprecationWarning):
            (members,) = manager.load_task_or_group(["g"]).values()
        self.assertEqual(sorted(members), ["g::inside", "known"])

    def test_index_of_a_formatted_task(self) -> None:
        """The key has no format; the definition is as written."""
        entries = TaskIndex().build([self.folder(t="task: indexed@mcqa\ndataset_path: dummy\n")])
        self.assertEqual(list(entries), ["indexed"])
        assert entries["indexed"].cfg is not None
        self.assertEqual(entries["indexed"].cfg["task"], "indexed@mcqa")

    def test_command_line_as_a_namespace(self) -> None:
        """The namespace has the command and the arguments; a line without a command runs."""
        words = ["lm-eval", "--model", "hf", "--tasks", "hellaswag", "--num_fewshot=5", "--log_samples"]
        with patch.object(sys, "argv", words):
            parsed = HarnessCLI().parse_args()
        self.assertEqual((parsed.command, parsed.model, parsed.tasks), ("run", "hf", ["hellaswag"]))
        self.assertEqual((parsed.num_fewshot, parsed.log_samples, parsed.device), (5, True, None))
        with patch.object(sys, "argv", ["lm-eval", "ls", "tasks"]):
            self.assertEqual(HarnessCLI().parse_args().command, "ls")

    def test_changed_arguments_act(self) -> None:
        """The engine gets the words of the command line, unless the script changes what was parsed."""
        with patch.object(sys, "argv", ["lm-eval", "--model", "hf", "--tasks", "a"]):
            parsed = HarnessCLI().parse_args()
        with patch("lm_eval._command.run", return_value=0) as run:
            HarnessCLI().execute(parsed)
            parsed.model = "dummy"
            HarnessCLI().execute(parsed)
        self.assertEqual(
            [call.args[0] for call in run.call_args_list],
            [["--model", "hf", "--tasks", "a"], ["run", "--tasks=a", "--model=dummy"]],
        )


if __name__ == "__main__":
    unittest.main()
