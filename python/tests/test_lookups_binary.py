"""Names registered by Python code and looked up by the binary, and code that fails meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.registry import register_sampler
from lm_eval.api.samplers import ContextSampler
from lm_eval.tasks import TaskManager

from tests import engine
from tests.binary import BinaryTestCase
from tests.engine import Lengths
from tests.registries import RegistryTestCase

SAMPLER = """\
    from lm_eval.api.registry import register_sampler
    from lm_eval.api.samplers import ContextSampler

    @register_sampler("{name}")
    class Chosen(ContextSampler):
        def sample(self, n, eval_doc=None, df=None, **kwargs):
            return self.df[-n:]
    """

REPLACED = {
    "metric": (
        "metric_list: [{metric: exact_match}]",
        """\
        @register_metric(metric="exact_match", output_type="generate_until", aggregation="mean")
        def own(references, predictions, **kwargs):
            return VALUE
        """,
    ),
    "aggregation": (
        "metric_list: [{metric: exact_match, aggregation: mean}]",
        """\
        @register_aggregation("mean")
        def own(values):
            return VALUE
        """,
    ),
    "reduction": (
        "repeats: 2\nmetric_list: [{metric: exact_match, reduction: take_first}]",
        """\
        @register_reduction("take_first")
        def own(reference, values):
            return VALUE
        """,
    ),
    "filter": (
        "filter_list: [{name: none, filter: [{function: lowercase}, {function: take_first}]}]",
        """\
        @register_filter("lowercase")
        class Own(Filter):
            def apply(self, resps, docs):
                return [[doc["answer"] if index < 3 * VALUE else "?"] for index, doc in enumerate(docs)]
        """,
    ),
    "scorer": (
        "scorer: first_token",
        """\
        @register_scorer("first_token")
        class Own(GenScorer):
            default_filter_cfg = [{"function": "take_first"}]
            default_metric_cfg = [{"metric": "exact_match"}]

            def score(self, reference, predictions, metric_kwargs=None):
                return {"exact_match": [VALUE]}
        """,
    ),
}
"""For each kind, a task that uses a built-in name, and code of its folder that redefines the name."""

REGISTERING = """\
from lm_eval.api.filter import Filter
from lm_eval.api.registry import (
    register_aggregation, register_filter, register_metric, register_reduction, register_scorer
)
from lm_eval.scorers import GenScorer
"""

FEWSHOT = "num_fewshot: 1\nfewshot_split: test\nfewshot_config: {{sampler: {}}}\n"


class Lookups(BinaryTestCase):
    """The binary, with code that registers names or fails to."""

    def run_task(
        self, *arguments: str, tasks: str = "sums", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the task `sums`, or others, with the recorded answers."""
        return self.run_binary(
            *("run", "--library", "none", "--include_path", "tasks", "--tasks", tasks),
            *("--model", "replay", "--model_args", "path=answers.jsonl", "--format", "json"),
            *("--python", sys.executable, *arguments),
            **environment,
        )

    def write_task(self, rest: str) -> None:
        """Write the task `sums`, whose last document is the best example."""
        self.write_generation("sums", [("1+1", "2", ["2"]), ("2+2", "4", ["4"]), ("3+3", "6", ["6"])], rest)

    def install_broken(self) -> dict[str, str]:
        """Install a plug-in that cannot be imported, and return the environment that contains it."""
        self.write("installed/broken_plugin.py", "raise RuntimeError('the plug-in is broken')\n")
        self.write("installed/broken_plugin-1.0.dist-info/METADATA", "Name: broken-plugin\nVersion: 1.0\n")
        entry = "[lm_eval.plugins]\nbroken = broken_plugin\n"
        self.write("installed/broken_plugin-1.0.dist-info/entry_points.txt", entry)
        return {"PYTHONPATH": str(self.folder / "installed")}

    def test_broken_installed_plug_ins(self) -> None:
        """An exception of an installed plug-in is reported instead of an unknown name."""
        environment = self.install_broken()
        self.write_task("metric_list: [{metric: of_the_plug_in}]\n")
        for arguments in ((), ("--model", "of-the-plug-in")):
            with self.subTest(arguments):
                done = self.run_task(*arguments, **environment)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("the plug-in is broken", done.stderr)

    def test_names_without_python(self) -> None:
        """Without Python, an unregistered name is unknown."""
        self.write_task("metric_list: [{metric: of_nobody}]\n")
        done = self.run_task("--python", "no-such-python")
        self.assertIn("of_nobody", done.stderr)
        self.assertNotIn("no-such-python", done.stderr)

    def test_samplers_of_modules_that_fail(self) -> None:
        """A module that raises `KeyError` is reported as broken, not the sampler as unknown."""
        self.write_task(FEWSHOT.format("mine"))
        self.write("tasks/utils.py", "KEYS = {}\nKEYS['missing key']\n")
        done = self.run_task()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("KeyError: 'missing key'", done.stderr)

    def test_unknown_samplers(self) -> None:
        """A name that no module registers is unknown."""
        self.write_task(FEWSHOT.format("firstn"))
        self.write("tasks/utils.py", "")
        self.assertIn("Did you mean `first_n`", self.run_task().stderr)

    def replace(self, kind: str, task: str, value: float) -> None:
        """Write a task in its own folder, whose code redefines a built-in name."""
        rest, code = REPLACED[kind]
        self.write_generation(task, [("1+1", "2", ["3"]), ("2+2", "4", ["5"]), ("3+3", "6", ["7"])], rest + "\n")
        (self.folder / "tasks" / task).mkdir()
        (self.folder / "tasks" / f"{task}.yaml").rename(self.folder / "tasks" / task / f"{task}.yaml")
        own = REGISTERING + textwrap.dedent(code).replace("VALUE", str(value))
        self.write(f"tasks/{task}/utils.py", own)

    def test_folders_replace_built_in_names(self) -> None:
        """A built-in name redefined by a folder applies to its tasks, like one redefined by a plug-in."""
        for kind in REPLACED:
            with self.subTest(kind):
                self.setUp()
                self.replace(kind, "one", 1.0)
                self.replace(kind, "two", 0.0)
                self.write_generation("plain", [("1+1", "2", ["3"])], REPLACED[kind][0] + "\n")
                if kind == "scorer":
                    (self.folder / "tasks" / "plain.yaml").unlink()
                names = "one,two" if kind == "scorer" else "one,two,plain"
                self.write_lines(
                    "answers.jsonl",
                    [
                        {"type": "generate_until", "args": [question, {}], "response": "0"}
                        for question in ("1+1", "2+2", "3+3")
                        for _ in range(2)
                    ],
                )
                done = self.run_task("--bootstrap_iters", "0", tasks=names)
                self.assertEqual(done.returncode, 0, done.stderr)
                results = json.loads(done.stdout[done.stdout.index("{\n") :])["results"]
                scores = {
                    task: next(v for k, v in scores.items() if k.startswith("exact_match") and "stderr" not in k)
                    for task, scores in results.items()
                }
                expected = {"one": 1.0, "two": 0.0, "plain": 0.0}
                self.assertEqual(scores, {task: expected[task] for task in scores})
                warnings = [line for line in done.stderr.splitlines() if "replaces the built-in one" in line]
                self.assertEqual(len(warnings), 2, done.stderr)
                self.assertTrue(all(f"The {kind} `" in line and str(self.folder) in line for line in warnings), warnings)

    def test_no_warning_for_unused_replacements(self) -> None:
        """No warning is printed if no task of the folder uses the redefined name."""
        self.write_task("metric_list: [{metric: exact_match, aggregation: !function utils.share}]\n")
        self.write(
            "tasks/utils.py",
            """
            from lm_eval.api.registry import register_metric

            @register_metric(metric="acc", output_type="generate_until", aggregation="mean")
            def acc(references, predictions, **kwargs):
                return 0.0

            def share(values):
                return sum(values) / len(values)
            """,
        )
        done = self.run_task()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("replaces", done.stderr)

    def test_replacements_need_python(self) -> None:
        """Without Python, a name that the folder redefines is an error, not the built-in one."""
        self.replace("metric", "sums", 1.0)
        done = self.run_task("--python", "no-such-python")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("exact_match", done.stderr)

    def test_samplers_of_folders_replace_built_in_ones(self) -> None:
        """A folder's code replaces a built-in sampler."""
        self.write_task(FEWSHOT.format("first_n"))
        self.write("tasks/utils.py", SAMPLER.format(name="first_n"))
        done = self.run_task()
        self.assertIn("3+3 6", done.stderr + done.stdout)

    def test_samplers_of_plug_ins_come_first(self) -> None:
        """A plug-in replaces a built-in sampler."""
        self.write_task(FEWSHOT.format("first_n"))
        self.write("plugin.py", SAMPLER.format(name="first_n"))
        done = self.run_task("--plugins", "plugin.py")
        # The recording has no answer to this prompt, so the message shows it.
        self.assertIn("3+3 6", done.stderr + done.stdout)


class Registered(RegistryTestCase):
    """Samplers registered by the calling script."""

    def test_samplers(self) -> None:
        """A sampler of the calling script is found for a task file."""
        engine.set_up()

        @register_sampler("live_sampler")
        class Last(ContextSampler):
            def sample(self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any) -> Any:
                return self.df[-n:]

        with tempfile.TemporaryDirectory() as folder:
            rows = [json.dumps({"q": str(number), "a": str(2 * number)}) for number in range(4)]
            Path(folder, "documents.jsonl").write_text("\n".join(rows), encoding="utf-8")
            task = {
                "task": "doubles",
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": str(Path(folder, "documents.jsonl"))}},
                "test_split": "test",
                "output_type": "generate_until",
                "doc_to_text": "{{q}}",
                "doc_to_target": "{{a}}",
                "num_fewshot": 1,
                "fewshot_config": {"sampler": "live_sampler", "split": "test"},
            }
            # JSON is also YAML.
            Path(folder, "doubles.yaml").write_text(json.dumps(task), encoding="utf-8")
            manager = TaskManager(include_path=folder, include_defaults=False)
            results = simple_evaluate(model=Lengths(), tasks=["doubles"], limit=2, task_manager=manager)
        prompts = [sample["arguments"][0][0] for sample in results["samples"]["doubles"]]
        self.assertEqual(prompts, ["3 6\n\n0", "3 6\n\n1"])
