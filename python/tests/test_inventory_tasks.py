"""Every name, signature and example of the pages on filters and on migration, used as a reader would."""

from __future__ import annotations

import dataclasses
import inspect
import json
import tempfile
import typing
import unittest
import warnings
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api import _types
from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.api.group import ConfigurableGroup, Group
from lm_eval.api.instance import AdditionalArgs, GenInstance, Instance, LLInstance
from lm_eval.api.metrics import Metric, mean, register_aggregation, register_metric
from lm_eval.api.registry import get_filter, register_filter
from lm_eval.api.task import (
    ConfigurableTask,
    GenerateTask,
    LoglikelihoodRollingTask,
    LoglikelihoodTask,
    MultipleChoiceTask,
    PerplexityTask,
    Task,
)
from lm_eval.config import formats
from lm_eval.config.task import FilterPipeline, FilterStep, MetricConfig, ScorerConfig, TaskConfig
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
from tests.registries import RegistryTestCase


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


QUESTIONS = [
    {"question": "2+2?", "choices": ["3", "4", "5", "6"], "answer": 1},
    {"question": "3+3?", "choices": ["6", "7", "8", "9"], "answer": 0},
]


def questions(**kwargs: Any) -> dict[str, Any]:
    """Return a data set of questions with choices."""
    return {"test": QUESTIONS}


def task_of(**fields: Any) -> dict[str, Any]:
    """Return a definition with these questions."""
    return {"task": "asked", "custom_dataset": questions, "test_split": "test", **fields}


def prompts(task: Task) -> list[Any]:
    """Return the prompts of a task."""
    return [instance.args for instance in task.build_all_requests()]


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


class Formats(RegistryTestCase):
    """Prompt formats from Python."""

    FIELDS: dict[str, Any] = {"doc_to_text": "question", "doc_to_target": "answer", "doc_to_choice": "choices"}

    def test_format_equals_handwritten_templates(self) -> None:
        """The templates of the page's two definitions give the same prompts."""
        by_hand = Task(
            TaskConfig(
                **task_of(
                    output_type="multiple_choice",
                    doc_to_text="Question: {{question}}\n{% for letter, choice in zip(['A','B','C','D'], choices) %}"
                    "{{letter}}. {{choice}}\n{% endfor %}Answer:",
                    doc_to_target="{{['A','B','C','D'][answer]}}",
                    doc_to_choice="{{['A','B','C','D'][:choices|length]}}",
                )
            )
        )
        formatted = Task(TaskConfig(**task_of(**self.FIELDS, formats="mcqa")))
        self.assertEqual(prompts(by_hand), prompts(formatted))
        self.assertEqual(prompts(formatted)[1][0], "Question: 2+2?\nA. 3\nB. 4\nC. 5\nD. 6\nAnswer:")
        targets = [[instance.target for instance in task.instances or []] for task in (by_hand, formatted)]
        self.assertEqual(targets, [[1] * 4 + [0] * 4] * 2)
        self.assertEqual(by_hand.doc_to_text(QUESTIONS[0]), formatted.doc_to_text(QUESTIONS[0]))

    def test_configuration(self) -> None:
        """`formats` and `task@format` set the fields of the format, once."""
        config = TaskConfig(**task_of(**self.FIELDS, formats="mcqa"))
        self.assertEqual((config.output_type, config.target_delimiter), ("multiple_choice", " "))
        self.assertIn("Question: {{", config.doc_to_text)
        by_name = TaskConfig(**{**task_of(**self.FIELDS), "task": "asked@cloze"})
        self.assertEqual((by_name.output_type, by_name.formats), ("multiple_choice", "cloze"))
        self.assertEqual(prompts(Task(by_name))[0], ("Question: 2+2?\nAnswer:", " 3"))
        generated = TaskConfig(**task_of(**self.FIELDS, formats={"generate": {"gen_prefix": "So:"}, "cot": None}))
        self.assertEqual((generated.output_type, generated.gen_prefix), ("generate_until", "So:"))
        self.assertEqual(generated.scorer, {"type": "first_token"})
        with self.assertRaisesRegex(ValueError, "mcqa"):
            TaskConfig(**task_of(**self.FIELDS, formats="mcq"))

    def test_results_have_the_format(self) -> None:
        """A task object with a format is evaluated like its definition, and so is a changed one."""
        definition = task_of(**self.FIELDS, formats="mcqa")
        task = Task(TaskConfig(**definition))
        runs = [
            lm_eval.simple_evaluate(model=engine.Lengths(), tasks=[one], bootstrap_iters=0) for one in (definition, task)
        ]
        self.assertEqual(runs[0]["results"], runs[1]["results"])
        configs = [{**run["configs"]["asked"], "custom_dataset": None} for run in runs]
        self.assertEqual(configs[0], configs[1])
        task.config.doc_to_text = "{{question}} Say:"
        self.assertEqual(prompts(task)[0], ("2+2? Say:", " A"))

    def test_classes(self) -> None:
        """The built-in formats, and a custom one."""
        self.assertLessEqual({"mcqa", "cloze", "generate", "cot"}, {*formats.FormatConfig.registered()})
        mcqa = formats.MCQAFormat(question_prefix="Q: ")
        self.assertEqual((mcqa.choice_labels, mcqa.answer_format, mcqa.answer_prompt), ("letters", "letters", "Answer:"))
        self.assertEqual(formats.ClozeFormat().answer_format, "full_text")
        self.assertEqual(formats.GenerateFormat().scorer, "first_token")
        self.assertIsNone(formats.COTGenFormat().choice_labels)
        made = mcqa.to_task_config("question", "choices", "answer")
        self.assertTrue(made["doc_to_text"].startswith("Q: {{"))
        self.assertEqual(set(mcqa.to_jinja_config()), {"doc_to_text", "doc_to_target", "doc_to_choice"})
        self.assertIsNone(formats.FormatConfig.get(None))
        self.assertIs(formats.FormatConfig.get(mcqa), mcqa)
        found = formats.FormatConfig.get({"type": "generate", "gen_prefix": None})
        self.assertIsInstance(found, formats.GenerateFormat)
        self.assertIsNone(found and found.gen_prefix)
        self.assertIsInstance(formats.FormatConfig.get("mcqa", selection="cloze"), formats.ClozeFormat)

    def test_own_format(self) -> None:
        """A subclass is found by its name."""
        self.addCleanup(formats.FormatConfig._registry.pop, "terse")

        @dataclasses.dataclass(kw_only=True)
        class Terse(formats.MCQAFormat):
            format_name = "terse"
            question_prefix: str | None = None

        class Terser(Terse):
            format_name = "terser"
            answer_prompt = ""

        self.addCleanup(formats.FormatConfig._registry.pop, "terser")
        task = Task(TaskConfig(**task_of(**self.FIELDS, formats="terser")))
        self.assertEqual(prompts(task)[0], ("2+2?\nA. 3\nB. 4\nC. 5\nD. 6\n", "A"))
        for fields in ({"formats": "terse"}, {"task": "asked@terse"}, {"formats": {"terse": None}}):
            with self.subTest(fields=fields):
                task = Task(TaskConfig(**{**task_of(**self.FIELDS), **fields}))
                self.assertEqual(prompts(task)[0], ("2+2?\nA. 3\nB. 4\nC. 5\nD. 6\nAnswer:", " A"))


    def test_formats_of_a_run(self) -> None:
        """One file, asked in every built-in format from the command line."""
        with tempfile.TemporaryDirectory() as folder:
            rows = "".join(json.dumps(row) + "\n" for row in QUESTIONS)
            Path(folder, "rows.jsonl").write_text(rows, encoding="utf-8")
            head = "task: my_task\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n"
            fields = "test_split: test\ndoc_to_text: question\ndoc_to_target: answer\ndoc_to_choice: choices\n"
            Path(folder, "my_task.yaml").write_text(head + fields, encoding="utf-8")
            for name, metric in (
                ("mcqa", "acc,none"),
                ("cloze", "acc,none"),
                ("generate", "exact_match,none"),
                ("cot", "exact_match,none"),
            ):
                with self.subTest(name):
                    done = engine.run(
                        *("run", "--include_path", folder, "--library", "none", "--tasks", f"my_task@{name}"),
                        *("--model", "dummy", "--format", "json"),
                    )
                    results = json.loads(done.stdout[done.stdout.index("{\n") :])
                    self.assertIn(metric, results["results"]["my_task"])
                    manager = TaskManager(include_path=folder, include_defaults=False)
                    (task,) = manager.load([f"my_task@{name}"])["tasks"].values()
                    config = TaskConfig(
                        task="my_task",
                        custom_dataset=questions,
                        test_split="test",
                        formats=name,
                        **self.FIELDS,
                    )
                    self.assertEqual(prompts(task), prompts(Task(config)))
                    for field in ("doc_to_text", "doc_to_target", "doc_to_choice", "output_type", "scorer"):
                        self.assertEqual(getattr(task.config, field), getattr(config, field))


class Instances(unittest.TestCase):
    """Requests and the types around them."""

    def test_older_metadata(self) -> None:
        """A tuple is unpacked."""
        instance: Any = Instance(
            request_type="loglikelihood", doc={}, arguments=("context", "continuation"), metadata=("task", 3, 2)
        )
        self.assertEqual((instance.task_name, instance.doc_id, instance.repeats), ("task", 3, 2))
        self.assertEqual(instance.metadata, {})

    def test_fields(self) -> None:
        """They are explicit, and metadata is a dictionary."""
        media: AdditionalArgs = {"visual": ["image"], "audio": []}
        instance: Any = Instance(
            request_type="loglikelihood",
            doc={"a": 1},
            arguments=("context", "continuation"),
            task_name="task",
            doc_id=3,
            repeats=2,
            target="gold",
            additional_args=media,
        )
        self.assertEqual((instance.target, instance.additional_args, instance.metadata), ("gold", media, {}))
        self.assertEqual(instance.args, ("context", "continuation"))
        self.assertIs(typing.get_origin(LLInstance), Instance)
        self.assertIs(typing.get_origin(GenInstance), Instance)

    def test_types(self) -> None:
        """The type aliases and their meaning."""
        self.assertEqual(_types.Doc, dict[str, Any])
        self.assertEqual(_types.LLArgs, tuple[str, str])
        self.assertEqual(_types.LLOutput, tuple[float, bool])
        self.assertEqual(_types.Completion, str)
        self.assertEqual(set(typing.get_args(_types.Context)), {str, list[dict[str, str]]})
        self.assertEqual(
            set(typing.get_args(_types.Reference)), {str, list[str], int, list[int], type(None)}
        )
        self.assertEqual(typing.get_args(_types.GenArgs)[0], _types.Context)
        self.assertTrue(_types.DataSplit and _types.Dataset)


class Configurations(unittest.TestCase):
    """Configurations and the tasks made from them."""

    def test_config(self) -> None:
        """A dataclass, with typed dictionaries in it."""
        self.assertTrue(dataclasses.is_dataclass(TaskConfig))
        metric: MetricConfig = {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
        step: FilterStep = {"function": "take_first", "kwargs": {}}
        pipeline: FilterPipeline = {"name": "none", "filter": [step], "metric_list": [metric]}
        scorer: ScorerConfig = {"type": "first_token"}
        config = TaskConfig(task="t", filter_list=[pipeline], scorer=scorer)
        self.assertEqual(config.filter_list[0]["name"], "none")
        self.assertEqual(config.scorer, {"type": "first_token"})

    def test_task_class_follows_output_type(self) -> None:
        """The class of a task follows from its output type, and vice versa."""
        for kind, output_type in (
            (GenerateTask, "generate_until"),
            (LoglikelihoodTask, "loglikelihood"),
            (LoglikelihoodRollingTask, "loglikelihood_rolling"),
            (MultipleChoiceTask, "multiple_choice"),
        ):
            with self.subTest(output_type):
                fields = task_of(doc_to_text="{{question}}", doc_to_target="answer", doc_to_choice="choices")
                if output_type.startswith("loglikelihood"):
                    fields.update(doc_to_target="{{choices[0]}}")
                for config in (fields, TaskConfig(**fields), TaskConfig(**fields, output_type=output_type)):
                    task = kind(config)
                    self.assertEqual((task.OUTPUT_TYPE, task.VERSION), (output_type, "Yaml"))
                    self.assertEqual(task.config.output_type, output_type)
                    self.assertEqual(task._hooks(), [])
                    self.assertEqual(len(task.build_all_requests()), 8 if kind is MultipleChoiceTask else 2)
                made = Task.from_config({**fields, "output_type": output_type})
                self.assertIs(type(made), kind)
                self.assertIsInstance(made, ConfigurableTask)
        with self.assertRaisesRegex(ValueError, "multiple_choice"):
            LoglikelihoodTask(TaskConfig(output_type="multiple_choice"))

    def test_older_bases(self) -> None:
        """Older classes still derive from them."""

        class Old(MultipleChoiceTask):
            def has_validation_docs(self) -> bool:
                return True

            def validation_docs(self) -> Any:
                return [{"query": "1?", "choices": ["a", "b"], "gold": 1}]

            def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
                return str(doc["query"])

        task = Old(config={"task": "old"})
        self.assertEqual((task.OUTPUT_TYPE, task.VERSION, task._is_configurable), ("loglikelihood", None, False))
        self.assertLessEqual({"construct_requests", "process_results", "aggregation"}, {*task._hooks()})
        self.assertEqual(task.doc_to_target(task.validation_docs()[0]), " b")
        self.assertEqual(prompts(task), [("1?", " a"), ("1?", " b")])
        results = lm_eval.simple_evaluate(model=engine.Lengths(), tasks=[task], bootstrap_iters=0)
        self.assertEqual(results["results"]["old"]["acc,none"], 0.0)
        self.assertTrue(issubclass(PerplexityTask, Task))

    def test_own_class(self) -> None:
        """A class derived from one of the new classes has its own methods called."""

        class Shouting(MultipleChoiceTask):
            def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> Any:
                return doc["question"].upper() + "!"

        task = Shouting.from_config(task_of(doc_to_target="answer", doc_to_choice="choices"))
        self.assertIsInstance(task, Shouting)
        self.assertEqual(task._hooks(), ["doc_to_text"])
        self.assertEqual(prompts(task)[0], ("2+2?!", " 3"))


if __name__ == "__main__":
    unittest.main()
