"""`lm_eval.compare`, through the binary."""

from __future__ import annotations

import json
import os
from unittest import mock

import lm_eval
from lm_eval._compare import Comparison

from tests.binary import BinaryTestCase, binary


class CompareTest(BinaryTestCase):
    """Two runs of the built-in tasks: an n-gram model and chance level."""

    def setUp(self) -> None:
        """Evaluate both models."""
        super().setUp()
        for model in ("ngram", "uniform"):
            words = ["--model", model, "--tasks", "demo_capitals", "--output_path", model, "--log_samples", "-q"]
            self.assertEqual(self.run_binary("run", *words).returncode, 0)
        patched = mock.patch.dict(os.environ, {"LM_EVAL_BINARY": str(binary())})
        patched.start()
        self.addCleanup(patched.stop)

    def compare(self, *more: str, **options: object) -> Comparison:
        """Compare the runs."""
        runs = [self.folder / name for name in ("ngram", "uniform", *more)]
        return lm_eval.compare(*runs, **options)  # type: ignore[arg-type]

    def test_rows_are_plain_data(self) -> None:
        """They equal the output of the command, and go into pandas as they are."""
        rows = self.compare()
        words = ("compare", "ngram", "uniform", "--format", "json")
        expected = json.loads(self.run_binary(*words).stdout)["comparisons"][0]["scores"]
        self.assertEqual([row["metric"] for row in rows], ["acc", "acc_norm"])
        for row, score in zip(rows, expected):
            runs = {"base_run": "ngram", "new_run": "uniform"}
            self.assertEqual(row, {**runs, **score})
        self.assertEqual(json.loads(json.dumps(rows)), list(rows))
        import pandas

        frame = pandas.DataFrame(rows)
        self.assertEqual(list(frame["n"]), [40, 40])
        self.assertEqual(frame.loc[0, "difference"], rows[0]["difference"])

    def test_options(self) -> None:
        """Options have the names of the command's."""
        rows = self.compare(metrics=["acc"], tasks="demo_capitals", confidence=0.5, margin=0.05, seed=3)
        self.assertEqual(len(rows), 1)
        self.assertGreater(rows[0]["needed"], 40)
        rows = self.compare(gate=["demo_capitals:acc >= -0.9", "demo_capitals:acc >= 0.9"])
        self.assertEqual([gate["verdict"] for gate in rows.gates], ["PASS", "FAIL"])
        self.assertFalse(rows.passed)
        self.assertTrue(self.compare().passed)
        rows = self.compare(flips=1, metrics="acc")
        self.assertEqual([flip["metric"] for flip in rows.flips], ["acc"])
        self.assertIn("doc", rows.flips[0])
        rows = self.compare("ngram")
        self.assertEqual([row["difference"] for row in rows][2:], [0.0, 0.0])

    def test_breakdown(self) -> None:
        """Rows of a breakdown follow their score."""
        rows = self.compare(by="answer", metrics="acc")
        self.assertIsNone(rows[0]["by"])
        self.assertEqual(sum(row["n"] for row in rows[1:]), rows[0]["n"])
        self.assertTrue(all(row["by"] is not None and row["p_holm"] is None for row in rows[1:]))
        clustered = self.compare(cluster="answer", metrics="acc", cluster_correction=False)
        self.assertEqual(clustered[0]["clusters"], len(rows) - 1)

    def test_errors_are_exceptions(self) -> None:
        """With the message of the command."""
        with self.assertRaisesRegex(FileNotFoundError, "nowhere"):
            lm_eval.compare(self.folder / "ngram", self.folder / "nowhere")
        with self.assertRaisesRegex(ValueError, "has no score|share no samples of `other`"):
            self.compare(tasks="other")
        with self.assertRaisesRegex(ValueError, "TASK:METRIC >= MARGIN"):
            self.compare(gate="acc")
        with self.assertRaisesRegex(ValueError, "between 0 and 1"):
            self.compare(confidence=2.0)
