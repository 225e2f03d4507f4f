"""A user-defined model, written as a plug-in and run by the binary."""

from __future__ import annotations

import subprocess
import sys
import unittest

from tests.binary import BinaryTestCase

MODEL = '''
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model


@register_model("letters")
class LettersLM(LM):
    """Likes continuations with many letters of the context."""

    def __init__(self, pretrained="letters-small", batch_size=1, device=None, **kwargs):
        super().__init__()
        self.pretrained = pretrained

    def loglikelihood(self, requests):
        results = []
        for context, continuation in [request.args for request in requests]:
            unknown = sum(letter not in context.lower() for letter in continuation.lower())
            answer = (-float(unknown), unknown == 0)
            self.cache_hook.add_partial("loglikelihood", (context, continuation), answer)
            results.append(answer)
        return results

    def loglikelihood_rolling(self, requests):
        return [(-float(len(text.split())), False) for _, text in [request.args for request in requests]]

    def generate_until(self, requests):
        results = []
        for context, settings in [request.args for request in requests]:
            answer = "The answer is 4"
            for stop in settings.get("until", []):
                answer = answer.split(stop)[0]
            results.append(answer)
        return results
'''

DOCUMENTS = [
    {"question": "A tree is a kind of", "choices": ["retree", "bush"], "gold": 0},
    {"question": "The sea is made of", "choices": ["mesa", "rock"], "gold": 1},
]

TASKS = {
    "choices": "output_type: multiple_choice\ndoc_to_text: '{{question}}'\ndoc_to_choice: choices\n"
    "doc_to_target: gold\n",
    "text": "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{question}}'\n",
    "answers": "output_type: generate_until\ndoc_to_text: '{{question}}'\ndoc_to_target: '4'\n"
    "generation_kwargs: {until: ['\\n']}\n"
    "filter_list:\n"
    "- {name: number, filter: [{function: regex, regex_pattern: '([0-9]+)'}, {function: take_first}]}\n",
}


class Binary(BinaryTestCase):
    """The binary with a model from a plug-in."""

    def setUp(self) -> None:
        """Write the model and its tasks."""
        super().setUp()
        self.write("my_models.py", MODEL)
        self.write_lines("documents.jsonl", DOCUMENTS)
        data = "dataset_path: json\ndataset_kwargs: {data_files: {test: documents.jsonl}}\ntest_split: test\n"
        for name, text in TASKS.items():
            self.write(f"tasks/{name}.yaml", f"task: {name}\n{data}{text}")

    def run_model(self, model: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Return the results of a run."""
        return self.run_binary(
            *(
                "run",
                "--model",
                model,
                "--plugins",
                "my_models.py",
                "--python",
                sys.executable,
            ),
            *(
                "--library",
                "none",
                "--include_path",
                "tasks",
                "--bootstrap_iters",
                "0",
                *arguments,
            ),
        )

    def test_evaluates_plugin_model(self) -> None:
        """All three kinds of requests reach the model, and its answers are scored."""
        for plugin in ("my_models.py", "my_models"):
            with self.subTest(plugin):
                plugins = ("--plugins", plugin, "--bootstrap_iters", "0")
                results = self.evaluate("choices,text,answers", "--model", "letters", *plugins)
                scores = results["results"]
                self.assertEqual(scores["choices"]["acc,none"], 0.5)
                self.assertEqual(scores["answers"]["exact_match,number"], 1.0)
                self.assertAlmostEqual(scores["text"]["word_perplexity,none"], 2.718281828459045)
                self.assertEqual(results["config"]["model"], "letters")

    def test_second_run_reuses_saved_answers(self) -> None:
        """A second run with the same output path sends no requests to the model."""
        keep = (
            "--tasks",
            "choices",
            "--output_path",
            "out",
            "--model_args",
            "pretrained=a",
        )
        first = self.run_model("letters", *keep)
        self.assertEqual(first.returncode, 0, first.stderr)
        again = self.run_model("letters", *keep)
        self.assertIn(
            "All 4 answers were reused from out/a/answers.journal",
            again.stderr,
        )

    def test_unregistered_model_name(self) -> None:
        """The error suggests similar names."""
        done = self.run_model("leters", "--tasks", "choices")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("There is no model `leters`", done.stderr)
        self.assertIn("Did you mean `letters`?", done.stderr)


if __name__ == "__main__":
    unittest.main()
