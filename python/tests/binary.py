"""Runs the `lm-eval` binary on task folders that tests write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parents[2]


def binary() -> Path:
    """Return the path of the binary: `LM_EVAL_BINARY`, or the debug build."""
    given = os.environ.get("LM_EVAL_BINARY")
    target = Path(os.environ.get("CARGO_TARGET_DIR") or _REPOSITORY / "target")
    path = Path(given) if given else target / "debug" / "lm-eval"
    if not path.is_file():
        raise FileNotFoundError(f"`{path}` does not exist: build it with `cargo build -p lmeval-cli`, or set LM_EVAL_BINARY")
    return path


class BinaryTestCase(unittest.TestCase):
    """A task folder, and the binary that evaluates it."""

    def setUp(self) -> None:
        """Make an empty folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, path: str, text: str) -> None:
        """Write a file in the folder; common indentation is removed."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")

    def write_lines(self, path: str, rows: list[dict[str, Any]]) -> None:
        """Write a JSON Lines file."""
        self.write(path, "".join(json.dumps(row) + "\n" for row in rows))

    def run_binary(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the binary in the folder."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LM_EVAL", "PYTHON"))}
        home = {"HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        return subprocess.run(
            [str(binary()), *arguments],
            cwd=self.folder,
            env={**kept, **home, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def evaluate(self, task: str, *arguments: str, **environment: str) -> dict[str, Any]:
        """Return the results of a run of one task."""
        if "--model" not in arguments:
            arguments = ("--model", "replay", "--model_args", "path=answers.jsonl", *arguments)
        done = self.run_binary(
            *("run", "--library", "none", "--include_path", "tasks", "--tasks", task),
            *("--format", "json", "--python", sys.executable, *arguments),
            **environment,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        # A settings file is echoed before the results.
        results: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{\n") :])
        return results

    def scores(self, task: str, *arguments: str, **environment: str) -> dict[str, Any]:
        """Return the scores of a task."""
        found: dict[str, Any] = self.evaluate(task, *arguments, **environment)["results"][task]
        return found

    def write_generation(self, name: str, rows: list[tuple[str, str, list[str]]], rest: str) -> None:
        """Write a generation task, its documents, and a recording of the model's answers."""
        documents = [{"question": question, "answer": target} for question, target, _ in rows]
        self.write_lines("documents.jsonl", documents)
        recorded = [
            {"type": "generate_until", "args": [question, {}], "response": answer}
            for question, _, answers in rows
            for answer in answers
        ]
        self.write_lines("answers.jsonl", recorded)
        head = f"""\
            task: {name}
            dataset_path: json
            dataset_kwargs: {{data_files: {{test: documents.jsonl}}}}
            test_split: test
            output_type: generate_until
            doc_to_text: "{{{{question}}}}"
            doc_to_target: "{{{{answer}}}}"
            generation_kwargs: {{until: ["\\n"]}}
            """
        self.write(f"tasks/{name}.yaml", textwrap.dedent(head) + textwrap.dedent(rest))
