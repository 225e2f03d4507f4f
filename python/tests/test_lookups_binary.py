"""Names that Python code registers, looked up by the program, and code that fails meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
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

FEWSHOT = "num_fewshot: 1\nfewshot_split: test\nfewshot_config: {{sampler: {}}}\n"


class Lookups(BinaryTestCase):
    """The program, with code that registers names or fails to."""

    def run_task(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the task `sums` with the recorded answers."""
        return self.program(
            *("run", "--library", "none", "--include_path", "tasks", "--tasks", "sums"),
            *("--model", "replay", "--model_args", "path=answers.jsonl", "--format", "json"),
            *("--python", sys.executable, *arguments),
            **environment,
        )

    def write_task(self, rest: str) -> None:
        """Write the task `sums`, whose last document is the best example."""
        self.write_generation("sums", [("1+1", "2", ["2"]), ("2+2", "4", ["4"]), ("3+3", "6", ["6"])], rest)

    def install_broken(self) -> dict[str, str]:
        """Install a plug-in that cannot be imported, and return the environment that has it."""
        self.write("installed/broken_plugin.py", "raise RuntimeError('the plug-in is broken')\n")
        self.write("installed/broken_plugin-1.0.dist-info/METADATA", "Name: broken-plugin\nVersion: 1.0\n")
        entry = "[lm_eval.plugins]\nbroken = broken_plugin\n"
        self.write("installed/broken_plugin-1.0.dist-info/entry_points.txt", entry)
        return {"PYTHONPATH": str(self.folder / "installed")}

    def test_broken_installed_plug_ins(self) -> None:
        """What an installed plug-in raises is told, not taken for an unknown name."""
        environment = self.install_broken()
        self.write_task("metric_list: [{metric: of_the_plug_in}]\n")
        for arguments in ((), ("--model", "of-the-plug-in")):
            with self.subTest(arguments):
                done = self.run_task(*arguments, **environment)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("the plug-in is broken", done.stderr)

    def test_names_without_python(self) -> None:
        """Without Python, a name that nobody knows is unknown."""
        self.write_task("metric_list: [{metric: of_nobody}]\n")
        done = self.run_task("--python", "no-such-python")
        self.assertIn("of_nobody", done.stderr)
        self.assertNotIn("no-such-python", done.stderr)

    def test_samplers_of_modules_that_fail(self) -> None:
        """A module that raises `KeyError` is broken, and the sampler not unknown."""
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

    def test_samplers_of_plug_ins_come_first(self) -> None:
        """A plug-in replaces a sampler that is built in."""
        self.write_task(FEWSHOT.format("first_n"))
        self.write("plugin.py", SAMPLER.format(name="first_n"))
        done = self.run_task("--plugins", "plugin.py")
        # The recording has no answer to the prompt, which the message shows.
        self.assertIn("3+3 6", done.stderr + done.stdout)


class Registered(RegistryTestCase):
    """Samplers of the calling program."""

    def test_samplers(self) -> None:
        """A sampler that the calling program registers is found for a task of a file."""
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
            # What is JSON is YAML, too.
            Path(folder, "doubles.yaml").write_text(json.dumps(task), encoding="utf-8")
            manager = TaskManager(include_path=folder, include_defaults=False)
            results = simple_evaluate(model=Lengths(), tasks=["doubles"], limit=2, task_manager=manager)
        prompts = [sample["arguments"][0][0] for sample in results["samples"]["doubles"]]
        self.assertEqual(prompts, ["3 6\n\n0", "3 6\n\n1"])
