"""The task manager, configurations and tables, using the engine."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path
from typing import Any

from lm_eval import _engine, simple_evaluate
from lm_eval.api.group import ConfigurableGroup, Group
from lm_eval.api.task import ConfigurableTask
from lm_eval.config.evaluate_config import EvaluatorConfig
from lm_eval.config.task import TaskConfig
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager, get_task_dict
from lm_eval.utils import make_table

from tests import engine

UTILS = """
def double(dataset):
    return dataset.map(lambda doc: {**doc, "a": doc["a"] * 2})

def data(**kwargs):
    rows = [{"q": "one", "a": "x", "n": kwargs.get("n", 0)}]
    return {"test": rows, "train": [{"q": "two", "a": "y", "n": 0}]}

def words(doc):
    return doc["q"].upper()
"""

FILES = {
    "utils.py": UTILS,
    "one.yaml": """
task: one
tag: [letters]
custom_dataset: !function utils.data
dataset_kwargs: {n: 7}
test_split: test
training_split: train
process_docs: !function utils.double
doc_to_text: !function utils.words
doc_to_target: a
metadata: {version: 2}
""",
    "two.yaml": "task: two\ntag: letters\ndataset_path: json\n"
    "dataset_kwargs: {data_files: {test: rows.jsonl}}\n"
    "test_split: test\ndoc_to_text: '{{q}}?'\ndoc_to_target: a\n",
    "rows.jsonl": '{"q": "three", "a": "z"}\n',
    "group.yaml": "group: both\ngroup_alias: Both\ntask: [one, {group: inner, task: [two]}]\n"
    "aggregate_metric_list: {metric: exact_match}\nmetadata: {version: 1}\n",
}


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Manager(unittest.TestCase):
    """Names, definitions and objects."""

    def setUp(self) -> None:
        """Write a small library."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in FILES.items():
            Path(self.folder, name).write_text(text, encoding="utf-8")
        self.manager = TaskManager(include_path=self.folder, include_defaults=False, metadata={"extra": 5})

    def test_names(self) -> None:
        """The names are those that the command line lists."""
        for manager, flags in (
            (TaskManager(), []),
            (self.manager, ["--include_path", self.folder, "--library", "none"]),
        ):
            for kind, names in (
                ("groups", manager.all_groups),
                ("subtasks", manager.all_subtasks),
                ("tags", manager.all_tags),
            ):
                lines = engine.run("ls", kind, "--json", *flags).stdout.splitlines()
                self.assertEqual([json.loads(line)["name"] for line in lines], names)
            everything = {*manager.all_groups, *manager.all_subtasks, *manager.all_tags}
            self.assertEqual(manager.all_tasks, sorted(everything))
        self.assertEqual(self.manager.all_tasks, ["both", "letters", "one", "two"])
        self.assertEqual(
            self.manager.match_tasks(["o*", "zz*", "two@mcqa", "g::t"]), ["g::t", "one", "two@mcqa", "zz*"]
        )
        entry = self.manager.task_index["one"]
        self.assertEqual((entry.kind, Path(entry.yaml_path or "").name), ("task", "one.yaml"))
        self.assertIn("|one|", self.manager.list_all_tasks())
        self.assertNotIn("|both|", self.manager.list_all_tasks(list_groups=False))

    def test_objects(self) -> None:
        """Tasks and groups have their configurations, their documents and their members."""
        loaded = self.manager.load(["both"])
        self.assertEqual(list(loaded["tasks"]), ["both::one", "both::inner::two"])
        self.assertEqual(
            loaded["group_map"], {"both": ["both::one", "both::inner"], "both::inner": ["both::inner::two"]}
        )
        one, two = loaded["tasks"].values()
        self.assertIsInstance(one, ConfigurableTask)
        self.assertIsInstance(one.config, TaskConfig)
        self.assertEqual((one.task_name, one.VERSION), ("one", 2))
        self.assertEqual((one.config.metadata or {})["extra"], 5)
        self.assertEqual(list(one.test_docs()), [{"q": "one", "a": "xx", "n": 7}])
        self.assertEqual(one.doc_to_text(one.test_docs()[0]), "ONE")
        self.assertEqual(list(two.test_docs()), [{"q": "three", "a": "z"}])
        self.assertEqual(two.doc_to_text(two.test_docs()[0]), "three?")
        group = loaded["groups"]["both"]
        self.assertIsInstance(group, Group)
        self.assertEqual((group.alias, group.version, len(group)), ("Both", "1", 2))
        self.assertEqual([task.task_name for task in group.get_all_tasks()], [one.task_name, two.task_name])
        self.assertTrue(group.has_aggregation)

    def test_specifications(self) -> None:
        """Names, overrides, inline definitions, paths, formats and paths of groups."""
        self.assertEqual(list(self.manager.load("letters")["tasks"]), ["one", "two"])
        changed = self.manager.load(["one", "two"], overrides={"two": {"num_fewshot": 3}})
        self.assertEqual([task.config.num_fewshot for task in changed["tasks"].values()], [None, 3])
        self.assertEqual(list(self.manager.load(["both::one"])["tasks"]), ["both::one"])
        self.assertEqual(list(self.manager.load(os.path.join(self.folder, "two.yaml"))["tasks"]), ["two"])
        inline = engine.sums_task(metadata={"version": 9})
        mixed = self.manager.load([inline, "two", ConfigurableTask(config=engine.sums_task(task="object"))])
        self.assertEqual(list(mixed["tasks"]), ["sums", "two", "object"])
        formatted = TaskManager().load(["demo_facts@cloze"])["tasks"]["demo_facts"]
        self.assertEqual(formatted.config._formats_selection, "cloze")
        for wrong, kind in (
            (["three"], KeyError),
            ([3], TypeError),
            (("one",), TypeError),
            ([{"x": 1}], ValueError),
        ):
            with self.subTest(wrong), self.assertRaises(kind):
                self.manager.load(wrong)

    def test_older_forms(self) -> None:
        """They work with a warning, and return nested dictionaries."""
        with self.assertWarns(DeprecationWarning):
            nested = self.manager.load_task_or_group(["both", "two"])
        key, last = nested
        self.assertIsInstance(key, ConfigurableGroup)
        self.assertEqual((key.group, last), ("both", "two"))
        inner = list(nested[key])
        self.assertEqual((inner[0], inner[1].group_name), ("one", "both::inner"))
        with self.assertWarns(DeprecationWarning):
            self.assertEqual(list(get_task_dict("two", self.manager)), ["two"])
        with self.assertWarns(DeprecationWarning):
            group = ConfigurableGroup(config={"group": "g", "task": ["one"]})
        self.assertEqual({group: 1}[group], 1)

    def test_managers_in_runs(self) -> None:
        """A run searches the manager's folders; functions of files run in workers."""
        results = simple_evaluate(model="dummy", tasks=["both"], task_manager=self.manager)
        self.assertEqual(results["samples"]["both::one"][0]["doc"], {"q": "one", "a": "xx", "n": 7})
        self.assertEqual(results["configs"]["both::one"]["metadata"]["extra"], 5)
        self.assertEqual(results["configs"]["both::one"]["doc_to_text"], "utils.words")

    def test_migration_guide(self) -> None:
        """The examples of the guide run, with tasks of this repository."""
        manager = TaskManager()
        loaded = manager.load(["demo_capitals", "demo_facts"])
        self.assertEqual(list(loaded["tasks"]), ["demo_capitals", "demo_facts"])
        self.assertEqual((loaded["groups"], loaded["group_map"]), ({}, {}))
        changed = manager.load(["demo_capitals"], overrides={"demo_capitals": {"num_fewshot": 5}})
        self.assertEqual(changed["tasks"]["demo_capitals"].config.num_fewshot, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(list(get_task_dict(["demo_capitals"], manager)), ["demo_capitals"])


class Settings(unittest.TestCase):
    """`EvaluatorConfig`."""

    def _file(self, text: str) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "run.yaml")
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_files(self) -> None:
        """Values of the file override the defaults."""
        path = self._file(
            "model: ngram\nmodel_args: {order: 3}\ntasks: demo_c*, demo_prose\nlimit: 2\nmetadata: {a: 1}\n"
        )
        config = EvaluatorConfig.from_config(path)
        self.assertEqual((config.model, config.limit, config.num_fewshot), ("ngram", 2, None))
        self.assertEqual(config.metadata, {"order": 3, "a": 1})
        self.assertEqual(config.seed, [0, 1234, 1234, 1234])
        manager = config.process_tasks()
        self.assertEqual(config.tasks, ["demo_capitals", "demo_choice", "demo_prose"])
        self.assertEqual(manager.metadata, {"order": 3, "a": 1})
        command = engine.run("run", "--config", path, "--model", "dummy", "--tasks", "demo_capitals").stdout
        expected = EvaluatorConfig.from_cli(
            argparse.Namespace(config=path, model="dummy", tasks=["demo_capitals"], limit=None, command="run")
        )
        shown = command.splitlines()[0]
        self.assertEqual(shown.partition(", ")[0], repr(expected).partition(", ")[0])
        names = [part.partition("=")[0] for part in repr(expected).split(", ") if "=" in part]
        self.assertEqual(names, [part.partition("=")[0] for part in shown.split(", ") if "=" in part])

    def test_environment_overrides_files(self) -> None:
        """`LM_EVAL_COMPAT` overrides a file, and a flag overrides both."""
        path = self._file("tasks: [demo_prose]\ncompat: '0.5'\n")
        with unittest.mock.patch.dict(os.environ, {"LM_EVAL_COMPAT": "0.4"}):
            self.assertEqual(EvaluatorConfig.from_config(path).compat, "0.4")
            flags = argparse.Namespace(config=path, compat="0.5")
            self.assertEqual(EvaluatorConfig.from_cli(flags).compat, "0.5")
        with unittest.mock.patch.dict(os.environ, {"LM_EVAL_COMPAT": ""}):
            self.assertEqual(EvaluatorConfig.from_config(path).compat, "0.5")

    def test_invalid_settings(self) -> None:
        """Invalid settings raise an error."""
        for text, kind in (
            ("tasks: null\n", ValueError),
            ("nonsense: 1\n", TypeError),
            ("- 1\n", TypeError),
            ("tasks: [a]\nlog_samples: true\n", ValueError),
            ("tasks: [a]\nsamples: {a: [1]}\nlimit: 3\n", ValueError),
            ("tasks: [a]\nfewshot_as_multiturn: true\n", ValueError),
            ("model: [\n", ValueError),
        ):
            with self.subTest(text), self.assertRaises(kind):
                EvaluatorConfig.from_config(self._file(text))
        with self.assertRaises(FileNotFoundError):
            EvaluatorConfig.from_config("no/such/file.yaml")
        with self.assertRaisesRegex(ValueError, "demo_x"):
            EvaluatorConfig(tasks=["demo_x", "demo_prose"]).process_tasks()


class Records(unittest.TestCase):
    """Tables and trackers on their own."""

    def test_tables(self) -> None:
        """Tables are those that the command line prints."""
        results = simple_evaluate(model="ngram", tasks=["demo_choice"], limit=3)
        flags = ("--model", "ngram", "--tasks", "demo_choice", "--limit", "3", "--quiet")
        printed = engine.run("run", *flags).stdout
        self.assertIn(make_table(results), printed)
        self.assertIn(make_table(results, "groups"), printed)
        self.assertIn("\\begin", make_table(results, latex=True))

    def test_output_paths(self) -> None:
        """Files are named as the command line names them."""
        results: dict[str, Any] = {"results": {}, "compat": "0.5"}
        with tempfile.TemporaryDirectory() as folder:
            tracker = EvaluationTracker(output_path=Path(folder, "res.v1.json"))
            tracker.general_config_tracker.log_experiment_args(
                "hf", "pretrained=org/m:1,x=2", None, "T", False
            )
            tracker.save_results_aggregated(results)
            (path,) = Path(folder).iterdir()
            self.assertRegex(path.name, r"^res\.v1_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d")
            written = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(
                (written["model_name"], written["model_name_sanitized"]), ("org/m:1", "org__m__1")
            )
            self.assertEqual(list(written)[-1], "compat")
            self.assertIsNone(written["system_instruction_sha"])
            self.assertEqual(len(written["chat_template_sha"]), 64)

    def test_finds_the_binary(self) -> None:
        """A script of the same name is not mistaken for the engine."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "lm-eval")
            script.write_text("#!/usr/bin/env python3\n")
            script.chmod(0o755)
            self.assertTrue(_engine._is_script(script))
        self.assertEqual(_engine.find_binary(), engine.binary_path())


if __name__ == "__main__":
    unittest.main()
