"""Prompt formats, requests and configurations, with the examples of their documentation."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import typing
import unittest
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api import _types
from lm_eval.api.instance import AdditionalArgs, GenInstance, Instance, LLInstance
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
from lm_eval.tasks import TaskManager

from tests import engine
from tests.questions import QUESTIONS, prompts, questions, task_of
from tests.registries import RegistryTestCase


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


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
