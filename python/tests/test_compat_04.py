"""Programs that drive tasks by hand get from this package what they get from 0.4.13."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lm_eval.evaluator_utils import TaskOutput, consolidate_results
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable

from tests import engine

ROWS = [
    {"q": "2+2", "a": "4", "o": ["three", "four", "eleven"], "g": 1, "t": "two plus two"},
    {"q": "3+3", "a": "6", "o": ["six", "one"], "g": 0, "t": "x y z"},
    {"q": "1+1", "a": "2", "o": ["two", "one"], "g": 0, "t": "a"},
]
CHOICE = "output_type: multiple_choice\ndoc_to_text: '{{q}} ='\ndoc_to_target: g\ndoc_to_choice: o\n"
GENERATE = "output_type: generate_until\ndoc_to_text: '{{q}} ='\n"
TASKS = {
    "gen": GENERATE + "doc_to_target: '{{a}}'\nmetric_list: [{metric: exact_match, ignore_case: true}, {metric: bleu}]\n",
    "several": GENERATE + "doc_to_target: '{{o}}'\nmetric_list: [{metric: exact_match}]\n",
    "choice": CHOICE
    + "metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}, {metric: f1}, {metric: mcc},"
    " {metric: brier_score}, {metric: likelihood}, {metric: exact_match}]\n",
    "mutual": CHOICE + "metric_list: [{metric: acc}, {metric: acc_mutual_info}]\n",
    "inputs": CHOICE.replace("'{{q}} ='", "g").replace("target: g", "target: t") + "metric_list: [{metric: acc}]\n",
    "likelihood": "output_type: loglikelihood\ndoc_to_text: '{{q}} ='\ndoc_to_target: a\n"
    "metric_list: [{metric: acc}, {metric: perplexity}]\n",
    "rolling": "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: t\n"
    "metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\n",
}
EXAMPLES = {"first": "fewshot_config: {sampler: first_n}\n", "drawn": ""}

DRIVER = """
import json, logging, sys, warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from lm_eval.tasks import TaskManager, get_task_dict

manager = TaskManager(include_path="tasks", include_defaults=False)
print(json.dumps(manager.match_tasks(["nope"])))
for name in sys.argv[1:]:
    task = get_task_dict([name], manager)[name]
    shots = int("_" in name)
    task.config.num_fewshot = shots
    task.set_fewshot_seed(seed=1234)
    task.download(task.config.dataset_kwargs)
    for doc_id, doc in task.doc_iterator(rank=0, limit=3, world_size=1):
        ctx = task.fewshot_context(doc, num_fewshot=shots)
        requests = task.construct_requests(doc=doc, ctx=ctx, metadata=(name, doc_id, 1))
        requests = requests if isinstance(requests, list) else [requests]
        if task.OUTPUT_TYPE == "generate_until":
            results = [doc["a"] if doc_id == 0 else "nope"]
        elif task.OUTPUT_TYPE == "loglikelihood_rolling":
            results = [-float(len(request.args[-1])) for request in requests]
        else:
            results = [(-float(i * 3 + len(r.args[-1]) % 5), i == 0) for i, r in enumerate(requests)]
        values = task.process_results(doc, results)
        line = {"task": name, "ctx": ctx, "args": [list(map(str, r.args)) for r in requests], "values": values}
        print(json.dumps(line, sort_keys=True, default=lambda value: value.tolist()))
"""


class ByHand(unittest.TestCase):
    """`doc_iterator`, `fewshot_context`, `construct_requests` and `process_results` in a loop."""

    def setUp(self) -> None:
        """Write the tasks, each also with one example."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "tasks").mkdir()
        (self.folder / "drive.py").write_text(DRIVER, encoding="utf-8")
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
        data = "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        self.names = []
        for name, text in TASKS.items():
            kinds = {"": ""} if name == "rolling" else {"": "", **{f"_{key}": extra for key, extra in EXAMPLES.items()}}
            for suffix, extra in kinds.items():
                shots = "fewshot_split: test\n" if suffix else ""
                self.names.append(name + suffix)
                path = self.folder / "tasks" / f"{name}{suffix}.yaml"
                path.write_text(f"task: {name}{suffix}\n{data}{shots}{extra}{text}", encoding="utf-8")

    def drive(self, **environment: str) -> list[str]:
        """Run the loop, with this package or with the one of the environment."""
        done = subprocess.run(
            [sys.executable, "drive.py", *self.names],
            env={**os.environ, "HF_HOME": str(self.folder / "home"), **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_equals_the_reference(self) -> None:
        """Prompts, requests and values are those of 0.4.13."""
        if os.environ.get("LM_EVAL_TEST_PYTHON") is None:
            self.skipTest("`LM_EVAL_TEST_PYTHON` names no interpreter with the reference")
        ours = self.drive(PYTHONPATH=str(engine.REPOSITORY / "python"), LM_EVAL_COMPAT="0.4")
        reference = self.drive(PYTHONPATH="")
        self.assertEqual(len(ours), 1 + 3 * len(self.names))
        self.assertEqual(ours, reference)

    def test_default_dialect_leaves_scoring_to_the_scorer(self) -> None:
        """In the 0.5 line `process_results` of a plain task returns nothing."""
        manager = TaskManager(include_path=self.folder / "tasks", include_defaults=False)
        task = manager.load(["choice"])["tasks"]["choice"]
        self.assertIsNone(task.process_results(ROWS[0], [(-1.0, True)] * 3))
        self.assertEqual(manager.match_tasks(["nope"]), ["nope"])

    def test_inputs_are_a_list(self) -> None:
        """The context of a task whose options are contexts is the list of them."""
        manager = TaskManager(include_path=self.folder / "tasks", include_defaults=False)
        task = manager.load(["inputs"])["tasks"]["inputs"]
        context = task.fewshot_context(ROWS[1])
        self.assertEqual(context, ["six", "one"])
        requests = task.construct_requests(ROWS[1], context)
        self.assertEqual([request.args for request in requests], [("six", " x y z"), ("one", " x y z")])
        self.assertEqual([request.target for request in requests], [0, 0])

    def test_consolidated_results(self) -> None:
        """What a program has computed for each task, by task name."""
        manager = TaskManager(include_path=self.folder / "tasks", include_defaults=False)
        task = manager.load(["choice"])["tasks"]["choice"]
        output = TaskOutput(task, "choice", agg_metrics={("acc", "none"): 0.5}, sample_len=2, logged_samples=[{}])
        results, samples, configs, versions, shots, directions = consolidate_results([output])
        self.assertEqual(results, {"choice": {"alias": "choice", "acc,none": 0.5, "samples": 2}})
        self.assertEqual((samples, versions, shots), ({"choice": [{}]}, {"choice": "Yaml"}, {"choice": 0}))
        self.assertEqual(configs["choice"]["output_type"], "multiple_choice")
        self.assertTrue(directions["choice"]["acc"])

    def test_numbers_of_numpy(self) -> None:
        """Scalars become numbers, as JSON needs them; anything else a string."""
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        values: list[Any] = [numpy.float32(0.5), numpy.int64(3), numpy.bool_(True), numpy.float64(0.25)]
        converted = [handle_non_serializable(value) for value in values]
        self.assertEqual(converted, [0.5, 3, True, 0.25])
        self.assertEqual([type(value) for value in converted], [float, int, bool, float])
        self.assertEqual(handle_non_serializable(object), "<class 'object'>")
        with patch.dict(os.environ, LM_EVAL_COMPAT="0.4"):
            self.assertEqual(TaskManager(include_defaults=False).match_tasks(["nope"]), [])


if __name__ == "__main__":
    unittest.main()
