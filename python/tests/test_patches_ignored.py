"""Changes of scripts that an evaluation has ignored once: each one acts as in 0.4.13 now, or is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from tests import engine
from tests.test_patches import EVALUATE, Patched, WithServer
from tests.wild import COMMON, PLAIN

TASK = "from lm_eval.api.task import ConfigurableTask, Task\n"
DOCUMENTS = "iter([(0, {'q': '7+7', 'a': '4'})])"
OF_OBJECT = """
from lm_eval.tasks import get_task_dict
tasks = get_task_dict(["wild_sums"], manager)
{change}
lm_eval.evaluate(Base(), tasks, bootstrap_iters=0)
"""


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Refused(Patched):
    """What the engine does itself is refused by name."""

    def test_documents_and_fields(self) -> None:
        """Methods of tasks that the engine has no use for, in the class."""
        for name, value in {
            "doc_iterator": f"lambda self, **_: {DOCUMENTS}",
            "resolve_field": "lambda self, doc, field=None: 'x'",
            "count_words": "classmethod(lambda cls, doc: 100)",
            "count_bytes": "classmethod(lambda cls, doc: 100)",
            "dump_config": "lambda self: {}",
            "task_name": "property(lambda self: 'other')",
            "instances": "property(lambda self: [])",
        }.items():
            with self.subTest(name):
                self.refused(f"{TASK}Task.{name} = {value}\n", f"`Task.{name}`", "subclass")

    def test_documents_of_objects(self) -> None:
        """The same in one object, and in a subclass."""
        change = f"tasks['wild_sums'].doc_iterator = lambda **_: {DOCUMENTS}"
        self.refused("", "`doc_iterator`", "test_docs", evaluate=OF_OBJECT.format(change=change))
        define = f"{TASK}class Mine(ConfigurableTask):\n    def NAME(self, *_, **__):\n        return {DOCUMENTS}\n"
        change = "tasks['wild_sums'] = Mine(config=tasks['wild_sums'].config.to_dict())"
        for name in ("doc_iterator", "resolve_field", "count_words"):
            with self.subTest(name):
                evaluate = OF_OBJECT.format(change=change)
                self.refused(define.replace("NAME", name), f"`{name}`", evaluate=evaluate)

    def test_class_of_a_task_file(self) -> None:
        """The same in a class that a task file names."""
        self.write(
            "tasks/own.py",
            f"{TASK}class Own(ConfigurableTask):\n    def doc_iterator(self, **_):\n        return {DOCUMENTS}\n",
        )
        self.write("tasks/wild_sums.yaml", PLAIN + "class: !function own.Own\n")
        self.refused("", "`doc_iterator`", evaluate="lm_eval.evaluate(Base(), manager.load(['wild_sums']))\n")

    def test_functions(self) -> None:
        """Functions of modules, private ones and those that do not exist here included."""
        for module, name in (
            ("evaluator_utils", "aggregate_groups"),
            ("evaluator_utils", "stderr_for_metric"),
            ("evaluator_utils", "_collect_results"),
            ("evaluator", "_process_results"),
            ("evaluator", "get_model"),
            ("tasks._yaml_loader", "load_yaml"),
            ("loggers.utils", "get_commit_from_path"),
            ("utils", "hash_string"),
            ("utils", "_new"),
        ):
            with self.subTest(name):
                change = f"import lm_eval.{module} as m\nm.{name} = lambda *_, **__: 1 / 0\n"
                self.refused(change, f"`lm_eval.{module}.{name}`")

    def test_filter_ensemble(self) -> None:
        """A function as `FilterEnsemble.apply` makes the class no filter that a task could name."""
        change = "from lm_eval.api.filter import FilterEnsemble\nFilterEnsemble.apply = lambda self, instances: None\n"
        self.refused(change, "`FilterEnsemble.apply`")

    def test_registry_and_manager(self) -> None:
        """Methods of registries and of the manager that the engine does not call."""
        self.refused("from lm_eval.api.registry import Registry\nRegistry.get = lambda *_: None\n", "`Registry.get`")
        change = "lm_eval.TaskManager.task_index = property(lambda self: {})\n"
        self.refused(change, "`TaskManager.task_index`")
        change = "from lm_eval.tasks._index import TaskIndex\nTaskIndex._kind_of = lambda *_: None\n"
        self.refused(change, "`TaskIndex._kind_of`")


class Commands(Patched):
    """A command line calls less than `simple_evaluate` does."""

    ARGUMENTS = ("--tasks", "wild_sums", "--include_path", "tasks", "--model")

    def command(self, change: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a script that changes something and calls `cli_evaluate`."""
        program = "from lm_eval.__main__ import cli_evaluate\n" + textwrap.dedent(change) + "cli_evaluate()\n"
        return self.start(program, *self.ARGUMENTS, *words)

    def test_refused(self) -> None:
        """What only scripts call beside `simple_evaluate` would be ignored here."""
        for change, name in (
            ("import lm_eval.utils as m\nm.make_table = lambda *_: ''\n", "lm_eval.utils.make_table"),
            ("import lm_eval.__main__ as m\nm.make_table = lambda *_: ''\n", "lm_eval.__main__.make_table"),
            ("import lm_eval.utils as m\nm.simple_parse_args_string = dict\n", "utils.simple_parse_args_string"),
            ("import lm_eval.evaluator as m\nm._parsed = dict\n", "lm_eval.evaluator._parsed"),
            (
                "from lm_eval.config.evaluate_config import EvaluatorConfig as C\nC._configure = lambda self: None\n",
                "EvaluatorConfig._configure",
            ),
            (
                "from lm_eval.loggers import EvaluationTracker as T\nT.save_results_aggregated = print\n",
                "EvaluationTracker.save_results_aggregated",
            ),
            (
                "from lm_eval.config.evaluate_config import EvaluatorConfig as C\nC.process_tasks = print\n",
                "EvaluatorConfig.process_tasks",
            ),
        ):
            with self.subTest(name):
                done = self.command(change, "dummy")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(f"{name}` was changed", done.stderr)
                self.assertIn("simple_evaluate", done.stderr)

    def test_data_sets(self) -> None:
        """A replaced `datasets.load_dataset` is refused, as the engine loads the data."""
        done = self.command("import datasets\ndatasets.load_dataset = lambda *_, **__: None\n", "dummy")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("`datasets.load_dataset`", done.stderr)

    def test_models(self) -> None:
        """`get_model` and `create_from_arg_obj` make the model, as in 0.4.13."""
        for change, model in (
            ("import lm_eval.api.registry as r\nr.get_model = lambda name: Base\n", "hf"),
            ("LM.create_from_arg_obj = classmethod(lambda cls, given, more=None: Base('6'))\n", "dummy"),
        ):
            with self.subTest(model):
                done = self.command(change, model, "--model_args", "answer=6", "--format", "json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn('"exact_match,none": 0.25', done.stdout)

    def test_arguments(self) -> None:
        """`HarnessCLI.parse_args` decides about the arguments."""
        change = """
            from lm_eval._cli.harness import HarnessCLI
            before = HarnessCLI.parse_args
            def parse_args(self, *args, **kwargs):
                parsed = before(self, *args, **kwargs)
                parsed.limit = 1
                return parsed
            HarnessCLI.parse_args = parse_args
        """
        done = self.command(change, "dummy", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"effective": 1', done.stdout)


PRINT = 'print("RESULT", json.dumps(results["results"]["wild_sums"]["exact_match,none"]))\n'
LOADER = """
import datasets
datasets.load_dataset = lambda *_, **__: datasets.DatasetDict(
    {"test": datasets.Dataset.from_list([{"q": "8+8", "a": "4"}])})
"""
COLLATOR = """
from lm_eval.models.utils import Collator
before = Collator.get_original
Collator.get_original = lambda self, answers: print("CALLED") or before(self, answers)
"""
PARSER = """
import lm_eval.utils
from lm_eval.api.registry import register_model
lm_eval.utils.simple_parse_args_string = lambda text: {"answer": "6"}
register_model("mine")(Base)
"""
BY_NAME = """
results = lm_eval.simple_evaluate("mine", "answer=4", ["wild_sums"], task_manager=manager, bootstrap_iters=0)
"""


class Acting(WithServer):
    """Changes that act, with the numbers of 0.4.13."""

    def compared(self, change: str, evaluate: str) -> list:
        """Run a script here and with the reference; return what both print."""
        program = "import json, lm_eval, lm_eval.tasks, lm_eval.evaluator\nfrom lm_eval.tasks import TaskManager\n"
        program = COMMON + program + change + 'manager = TaskManager(include_path="tasks")\n' + evaluate
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["HF_DATASETS_CACHE"] = str(self.folder / "cache")
        done = subprocess.run(
            [sys.executable, str(self.write("reference.py", program))],
            env=environment, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        ours = self.run_script(program.removeprefix(COMMON))
        self.assertIn(printed[-1], ours.splitlines())
        return printed

    def test_load_dataset(self) -> None:
        """A replaced `datasets.load_dataset` loads the documents."""
        evaluate = EVALUATE.partition("print")[0] + PRINT
        self.assertEqual(self.compared(LOADER, evaluate), ["RESULT 1.0"])

    def test_arguments_of_models(self) -> None:
        """`utils.simple_parse_args_string` and `create_from_arg_string` make a model from a string."""
        self.assertEqual(self.compared(PARSER, BY_NAME + PRINT), ["RESULT 0.25"])
        create = "LM.create_from_arg_string = classmethod(lambda cls, *_, **__: Base('6'))\n"
        by_name = f'results = lm_eval.simple_evaluate("local-completions", "{self.server}", ["wild_sums"], task_manager=manager)\n'
        self.assertEqual(self.compared(create, by_name + PRINT), ["RESULT 0.25"])

    def test_helpers_of_models(self) -> None:
        """Functions and classes that the module of a model looks up are called."""
        for change in (
            "import lm_eval.models.openai_completions as m\nm.handle_stop_sequences = lambda *_, **__: print('CALLED') or ['x']\n",
            COLLATOR,
        ):
            evaluate = f"""
                lm_eval.simple_evaluate("local-completions", "{self.server}", ["wild_sums"], task_manager=manager)
                print("RESULT 1")
            """
            printed = self.run_script(
                "import json, lm_eval\n" + change + "manager = lm_eval.TaskManager(include_path='tasks')\n"
                + textwrap.dedent(evaluate)
            )
            self.assertIn("CALLED", printed)
        for name in ("chunks", "Collator._reorder"):
            module = "lm_eval.models.utils" if "." in name else "lm_eval.models.api_models"
            change = f"import {module} as m\nm.{name} = lambda *_, **__: 1 / 0\n"
            self.refused(change, name, evaluate=textwrap.dedent(evaluate))
