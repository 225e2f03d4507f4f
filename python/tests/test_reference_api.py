"""One script, run with the reference and with this package, gives the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests import engine

PROGRAM = """
import hashlib, json, sys
import lm_eval
from lm_eval.api.model import LM

def share(*parts):
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 2**32

class Model(LM):
    def loglikelihood(self, requests):
        return [(-20 * share(r.args), share(r.args, 1) > 0.5) for r in requests]

    def loglikelihood_rolling(self, requests):
        return [-100 * share(r.args[-1]) for r in requests]

    def generate_until(self, requests):
        return ["The answer is %d." % (10 * share(r.args[0])) for r in requests]

def rows(count, start):
    numbers = range(start, start + count)
    return [{"q": f"{n}+1", "a": str(n % 10), "c": ["zero", "one", "two"], "g": n % 3} for n in numbers]

def data(**kwargs):
    import datasets
    made = datasets.Dataset.from_list
    return {"train": made(rows(8, 100)), "test": made(rows(12, 0))}

def process_results(doc, results):
    return {"mine": float(len(results[0]) % 2), "other": 1}

def top(values):
    return max(values)

def question(doc):
    return "Q: " + doc["q"] + "\\nA:"

generated = {
    "task": "generated", "custom_dataset": data, "test_split": "test", "fewshot_split": "train",
    "num_fewshot": 2,
    "output_type": "generate_until", "doc_to_text": question, "doc_to_target": "{{a}}",
    "generation_kwargs": {"until": ["\\n"]},
    "filter_list": [{"name": "number", "filter": [
        {"function": "regex", "regex_pattern": "(\\\\d+)"}, {"function": "take_first"}]}],
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}
chosen = {
    "task": "chosen", "custom_dataset": data, "test_split": "test", "training_split": "train",
    "num_fewshot": 1,
    "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_target": "g", "doc_to_choice": "c",
    "fewshot_config": {"sampler": "first_n"}, "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
}
scored = {
    "task": "scored", "custom_dataset": data, "test_split": "test", "output_type": "generate_until",
    "doc_to_text": "{{q}}", "doc_to_target": "{{a}}", "process_results": process_results,
    "metric_list": [
        {"metric": "mine", "aggregation": top, "higher_is_better": True},
        {"metric": "other", "aggregation": "mean", "higher_is_better": False}],
}
rolled = {
    "task": "rolled", "custom_dataset": data, "test_split": "test", "output_type": "loglikelihood_rolling",
    "doc_to_text": "", "doc_to_target": "{{q}} is {{a}}", "metric_list": [{"metric": "word_perplexity"}],
}
results = lm_eval.simple_evaluate(
    model=Model(), tasks=[generated, chosen, scored, rolled], limit=9, bootstrap_iters=200,
    **json.loads(sys.argv[1]),
)
print(json.dumps(results, default=str))
"""

PARTS = (
    "results",
    "group_subtasks",
    "versions",
    "n-shot",
    "higher_is_better",
    "n-samples",
    "samples",
    "config",
)


class SameProgram(unittest.TestCase):
    """A script written for the reference."""

    def _run(self, package: str | None, **arguments: Any) -> dict[str, Any]:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        if package is not None:
            environment["PYTHONPATH"] = package
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "program.py")
            path.write_text(PROGRAM, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, str(path), json.dumps(arguments)],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        if package is None and "No module named 'lm_eval'" in done.stderr:
            self.skipTest("the reference is not installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return results

    def test_results(self) -> None:
        """Scores, samples and settings are equal, with functions and a model that are objects."""
        engine.set_up()
        expected = self._run(None)
        found = self._run(str(engine.REPOSITORY / "python"), compat="0.4")
        for part in PARTS:
            with self.subTest(part):
                self.assertEqual(expected[part], found[part])
        for task, config in expected["configs"].items():
            with self.subTest(task):
                ours = dict(found["configs"][task])
                # The reference shows the functions of examples without their source.
                for one in (config, ours):
                    one["fewshot_config"].pop("doc_to_text")
                self.assertEqual(config, ours)


if __name__ == "__main__":
    unittest.main()
