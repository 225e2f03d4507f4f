"""A folder with a task, and scripts that run in it as their users run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from tests import engine

COMMON = '''
import sys
from lm_eval.api.model import LM

class Base(LM):
    """Prefers the shortest continuation, and answers `4`."""

    def __init__(self, answer="4", batch_size=1, device=None, **kwargs):
        super().__init__()
        self.answer = str(answer)

    def loglikelihood(self, requests):
        return [(-float(len(r.args[1])), False) for r in requests]

    def loglikelihood_rolling(self, requests):
        return [-float(len(r.args[-1])) for r in requests]

    def generate_until(self, requests):
        return [self.answer for _ in requests]
'''

TASK = """\
task: wild_sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}} ="
doc_to_target: "{{a}}"
generation_kwargs: {until: ["\\n"]}
filter_list:
  - name: shouted
    filter: [{function: wild_shout}, {function: take_first}]
metric_list:
  - {metric: wild_exclaims, aggregation: mean, higher_is_better: true}
"""

PLAIN = TASK.partition("filter_list")[0] + "metric_list:\n  - {metric: exact_match}\n"
ODD = PLAIN.replace("wild_sums", "wild_odd").replace("exact_match}", "exact_match, aggregation: 3}")
"""A definition that causes a warning."""


class Script(unittest.TestCase):
    """A folder with a task, and scripts that run in it."""

    def setUp(self) -> None:
        """Write the task."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        rows = [
            {"q": "2+2", "a": "4"},
            {"q": "3+3", "a": "6"},
            {"q": "1+3", "a": "4"},
            {"q": "9+9", "a": "18"},
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (self.folder / "sums.jsonl").write_text(lines, encoding="utf-8")
        self.write("tasks/wild_sums.yaml", PLAIN)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a script."""
        path = self.write("program.py", COMMON + textwrap.dedent(program))
        python = str(engine.REPOSITORY / "python")
        return subprocess.run(
            [sys.executable, str(path), *arguments],
            env={**os.environ, "PYTHONPATH": python, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run_script(self, program: str, *arguments: str, **environment: str) -> str:
        """Run a script that must succeed, and return its output."""
        done = self.start(program, *arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout
