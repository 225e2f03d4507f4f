"""Every name, signature and example of the pages on filters and on migration, used as a reader would."""

from __future__ import annotations

import dataclasses
import inspect
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.api.group import ConfigurableGroup, Group
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import Metric, mean, register_aggregation, register_metric
from lm_eval.api.registry import get_filter, register_filter
from lm_eval.api.task import (
    GenerateTask,
    MultipleChoiceTask,
    Task,
)
from lm_eval.config.task import TaskConfig
from lm_eval.filters import build_filter_ensemble, filter_registry
from lm_eval.scorers import (
    ChoiceMatchScorer,
    FirstTokenScorer,
    GenScorer,
    LLScorer,
    RegexExtractionScorer,
    Scorer,
    build_scorer,
)
from lm_eval.tasks import TaskManager, get_task_dict

from tests import engine
from tests.questions import prompts, task_of
from tests.registries import RegistryTestCase


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Filters(RegistryTestCase):
    """The page on filters."""

    def _filtered(self, function: str, resps: list[list[Any]], **kwargs: Any) -> Any:
        docs: list[dict[str, Any]] = [{} for _ in resps]
        return [list(answers) for answers in get_filter(function)(**kwargs).apply(resps, docs)]

    def test_built_in_filters(self) -> None:
        """Each filter of the table, with its arguments."""
        number = r"The answer is (\-?[0-9\.\,]+)"
        for function, kwargs, expected in (
            ("noop", {}, ["The answer is 4", " b "]),
            ("take_first", {}, ["The answer is 4"]),
            ("take_first_k", {"k": 2}, ["The answer is 4", " b "]),
            ("regex", {"regex_pattern": number, "group_select": 0}, ["4", "[invalid]"]),
            ("remove_whitespace", {}, ["The answer is 4", "b"]),
            ("lowercase", {}, ["the answer is 4", " b "]),
            ("majority_vote", {}, ["The answer is 4"]),
            ("map", {"mapping_dict": {" b ": 1}}, [None, 1]),
            ("custom", {"filter_fn": lambda resps, docs: [answers[1:] for answers in resps]}, [" b "]),
        ):
            with self.subTest(function):
                self.assertEqual(self._filtered(function, [["The answer is 4", " b "]], **kwargs), [expected])
                self.assertIn(function, filter_registry)

    def test_pipelines_from_one_set_of_answers(self) -> None:
        """The self-consistency example with fewer repeats: three rows of results."""
        find = {"function": "regex", "regex_pattern": "The answer is (\\-?[0-9\\.\\,]*[0-9]+)"}
        first = {"function": "take_first"}
        task = task_of(
            output_type="generate_until",
            doc_to_text="question",
            doc_to_target="{{choices[answer]}}",
            repeats=8,
            generation_kwargs={"do_sample": True},
            filter_list=[
                {"name": "score-first", "filter": [find, first]},
                {"name": "maj@8", "filter": [find, {"function": "majority_vote"}, first]},
                {"name": "maj@3", "filter": [{"function": "take_first_k", "kwargs": {"k": 3}}, find, first]},
            ],
        )
        results = lm_eval.simple_evaluate(model=engine.Lengths("The answer is 4."), tasks=[task], bootstrap_iters=0)
        entry = results["results"]["asked"]
        for name in ("score-first", "maj@8", "maj@3"):
            self.assertEqual(entry[f"exact_match,{name}"], 0.5)

    def test_metrics_of_a_pipeline(self) -> None:
        """A pipeline has its own metrics, or those of the task."""
        config = TaskConfig(
            task="asked",
            metric_list=[{"metric": "exact_match"}],
            filter_list=[
                {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "(\\d+)"}]},
                {
                    "name": "flexible",
                    "filter": [{"function": "take_first"}],
                    "metric_list": [{"metric": "exact_match", "ignore_case": True}],
                },
            ],
        )
        strict, flexible = config.filter_list
        self.assertEqual(strict["filter"][0], {"function": "regex", "kwargs": {"regex_pattern": "(\\d+)"}})
        self.assertEqual(strict["metric_list"], [{"metric": "exact_match", "kwargs": {}}])
        self.assertEqual(flexible["metric_list"], [{"metric": "exact_match", "kwargs": {"ignore_case": True}}])

    def test_own_filter(self) -> None:
        """A registered class is found by name, in a run and in a custom chain."""

        @register_filter("my_filter")
        class MyFilter(Filter):
            def apply(self, resps: Any, docs: Any) -> Any:
                return [[answer.strip() for answer in answers] for answers in resps]

        chain = build_filter_ensemble("my-pipeline", [("my_filter", None), ("take_first", None)])
        self.assertIsInstance(chain, FilterEnsemble)
        instance: Instance[Any, Any] = Instance("generate_until", {}, ("", {}), resps=[" a ", "b"])
        chain.apply([instance])
        self.assertEqual(instance.filtered_resps, {"my-pipeline": ["a"]})
        steps = [{"function": "my_filter"}, {"function": "take_first"}]
        task = task_of(
            output_type="generate_until",
            doc_to_text="question",
            doc_to_target="{{choices[answer]}}",
            filter_list=[{"name": "my-pipeline", "filter": steps}],
        )
        results = lm_eval.simple_evaluate(model=engine.Lengths(" 4 "), tasks=[task], bootstrap_iters=0)
        self.assertEqual(results["results"]["asked"]["exact_match,my-pipeline"], 0.5)

    def test_filters_by_protocol(self) -> None:
        """Any object with an `apply` method is a filter."""

        class Duck:
            def apply(self, resps: Any, docs: Any) -> Any:
                return resps

        self.assertIsInstance(Duck(), Filter)
        self.assertTrue(issubclass(Duck, Filter))
        self.assertNotIsInstance(object(), Filter)
        self.assertNotIsInstance(Duck(), get_filter("noop"))
        with self.assertRaises(TypeError):
            Filter()  # type: ignore[abstract]


class Loading(unittest.TestCase):
    """Tasks and groups, before and after."""

    def test_load(self) -> None:
        """Flat dictionaries of tasks, groups and members."""
        loaded = TaskManager().load(["demo_capitals", "demo_facts"])
        self.assertEqual(set(loaded), {"tasks", "groups", "group_map"})
        self.assertEqual(list(loaded["tasks"]), ["demo_capitals", "demo_facts"])
        self.assertEqual((loaded["groups"], loaded["group_map"]), ({}, {}))
        self.assertTrue(all(isinstance(task, Task) for task in loaded["tasks"].values()))

    def test_overrides(self) -> None:
        """Fields that override those of a name."""
        loaded = TaskManager().load(["demo_capitals"], overrides={"demo_capitals": {"num_fewshot": 5}})
        self.assertEqual(loaded["tasks"]["demo_capitals"].config.num_fewshot, 5)

    def test_inline_definitions_and_paths(self) -> None:
        """Dictionaries, `task@format` and `group::task`."""
        loaded = TaskManager().load([task_of(doc_to_text="question", doc_to_target="answer")])
        self.assertIsInstance(loaded["tasks"]["asked"], GenerateTask)
        with tempfile.TemporaryDirectory() as folder:
            rows = "".join(f'{{"question": "{n}?", "choices": ["a", "b"], "answer": 0}}\n' for n in range(2))
            Path(folder, "rows.jsonl").write_text(rows, encoding="utf-8")
            head = "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
            fields = "doc_to_text: question\ndoc_to_target: answer\ndoc_to_choice: choices\n"
            Path(folder, "one.yaml").write_text("task: one\n" + head + fields, encoding="utf-8")
            Path(folder, "many.yaml").write_text("group: many\ntask: [one]\n", encoding="utf-8")
            manager = TaskManager(include_path=folder, include_defaults=False)
            (task,) = manager.load(["one@mcqa"])["tasks"].values()
            self.assertEqual(task.config.output_type, "multiple_choice")
            self.assertIsInstance(task, MultipleChoiceTask)
            self.assertEqual(prompts(task)[0], ("Question: 0?\nA. a\nB. b\nAnswer:", " A"))
            loaded = manager.load(["many::one"])
            self.assertEqual(list(loaded["tasks"]), ["many::one"])

    def test_older_names(self) -> None:
        """They work with a warning."""
        manager = TaskManager()
        with self.assertWarns(DeprecationWarning):
            nested = get_task_dict(["demo_capitals"], manager)
        self.assertEqual(list(nested), ["demo_capitals"])
        with self.assertWarns(DeprecationWarning):
            self.assertEqual(list(manager.load_task_or_group(["demo_capitals"])), ["demo_capitals"])
        with self.assertWarns(DeprecationWarning):
            key = ConfigurableGroup(config={"group": "g"})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(key, ConfigurableGroup(config={"group": "g"}))
        self.assertEqual(hash(key), hash(ConfigurableGroup.from_group(Group(name="g"))))

    def test_group(self) -> None:
        """A dataclass that is not hashable."""
        self.assertTrue(dataclasses.is_dataclass(Group))
        with self.assertRaises(TypeError):
            hash(Group(name="g"))
        self.assertEqual(Group(name="g"), Group(name="g"))

    def test_group_aggregate(self) -> None:
        """Members are weighted by size; the standard error is pooled."""
        group = Group.from_config({"group": "g", "aggregate_metric_list": {"metric": "acc"}})
        for name in ("t3", "t5"):
            group.add(Task(TaskConfig(task=name)))
        entries = {
            "t3": {"acc,none": 1 / 3, "acc_stderr,none": 1 / 3, "sample_len": 3},
            "t5": {"acc,none": 0.2, "acc_stderr,none": 0.2, "sample_len": 5, "acc,x": 1.0},
        }
        entry = group.aggregate(entries)
        self.assertEqual(list(entry)[:3], ["alias", "name", "sample_len"])
        self.assertEqual((entry["sample_len"], entry["acc,none"]), (8, 0.25))
        self.assertAlmostEqual(entry["acc_stderr,none"], 0.17480147469502527, places=15)
        self.assertEqual((entry["acc,x"], entry["acc_stderr,x"]), (1.0, "N/A"))
        self.assertEqual(entry["sample_count"], {"acc,none": 8, "acc,x": 5})
        self.assertEqual(group.to_dict()["task"], ["t3", "t5"])
        self.assertEqual(Group(name="plain").aggregate(entries), {"alias": "plain", "name": "plain"})


class Scoring(unittest.TestCase):
    """Scorers and metrics of the migration page."""

    def test_hierarchy(self) -> None:
        """Which class derives from which."""
        self.assertTrue(issubclass(GenScorer, Scorer) and issubclass(LLScorer, Scorer))
        for kind in (ChoiceMatchScorer, FirstTokenScorer, RegexExtractionScorer):
            self.assertTrue(issubclass(kind, GenScorer))
        self.assertIsInstance(build_scorer(output_type="multiple_choice"), LLScorer)
        self.assertIsInstance(build_scorer(output_type="generate_until", scorer_type="first_token"), FirstTokenScorer)

    def test_metric(self) -> None:
        """A frozen dataclass with these fields, generic in two types."""
        names = [item.name for item in dataclasses.fields(Metric) if item.init]
        expected = ["name", "fn", "kwargs", "aggregation", "higher_is_better", "output_type", "reduction"]
        self.assertEqual(names, expected)
        metric: Any = Metric[float, float](name="m", fn=lambda references, predictions: 1.0)
        self.assertEqual((metric.higher_is_better, metric.output_type), (True, {"multiple_choice"}))
        with self.assertRaises(dataclasses.FrozenInstanceError):
            metric.name = "other"
        self.assertTrue(callable(register_metric) and callable(register_aggregation))

    def test_modules(self) -> None:
        """The modules that metrics were split into."""
        import importlib

        for name in ("metric", "aggregations", "corpus", "generation", "ll", "reduce", "stderr", "utils"):
            importlib.import_module(f"lm_eval.api.metrics.{name}")

    def test_task_has_the_pipeline(self) -> None:
        """A loaded task has all parts of the pipeline."""
        signature = inspect.signature(Task.build_all_requests)
        for name in ("limit", "samples", "rank", "world_size", "cache_requests", "rewrite_requests_cache"):
            self.assertIs(signature.parameters[name].kind, inspect.Parameter.KEYWORD_ONLY)
        for name in ("system_instruction", "apply_chat_template", "fewshot_as_multiturn", "tokenizer_name"):
            self.assertIn(name, signature.parameters)
        self.assertEqual(inspect.signature(Task.aggregate).parameters["bootstrap_iters"].default, 100000)
        (task,) = TaskManager().load(["demo_facts"])["tasks"].values()
        self.assertIsInstance(task.scorers[0], LLScorer)
        self.assertIs(task.aggregation()["acc"], mean)
        self.assertTrue(all(task.higher_is_better().values()))


if __name__ == "__main__":
    unittest.main()
