#!/usr/bin/env python3
"""Evaluates a task with Python functions with the reference and with lm-eval, and prints the speedups.

    cargo build --release
    python3 bench/python_tasks.py --python .testenv/bin/python

The task has `process_docs` and `process_results` in Python and 20,000 documents generated from a fixed seed; the model is `dummy`.
Each side runs in its own process, timed from start to exit, and writes sample files. The results must be identical. The reference
runs without its own tasks in the index, which would take many seconds to read; the time of its imports is printed separately.

Two more runs of lm-eval, with an empty `process_results` and without one, measure the wall time of a call into Python.
`cargo test -p lmeval-host --release speed -- --ignored --nocapture` measures the same without the rest of a run.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent

TASK = """
task: NAME
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/documents.jsonl}}
test_split: test
output_type: generate_until
PROCESS
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
num_fewshot: 0
generation_kwargs: {until: ["\\n\\n"], do_sample: false}
"""

FUNCTIONS = """process_docs: !function utils.process_docs
process_results: !function utils.RESULTS
metric_list: [{metric: near, aggregation: mean, higher_is_better: true}, {metric: words, aggregation: mean, higher_is_better: true}]"""

UTILS = r'''
import re
import string

def process_docs(dataset):
    def clean(doc):
        doc["question"] = re.sub(r"\[.*?\]", "", doc["question"]).replace("  ", " ").strip()
        doc["options"] = [option.strip() for option in doc["options"]]
        return doc
    return dataset.map(clean).filter(lambda doc: doc["kind"] != "none")

def normalise(text):
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(text.split())

def process_results(doc, results):
    found, wanted = normalise(results[0]).split(), normalise(doc["answer"]).split()
    common = len(set(found) & set(wanted))
    return {"near": float(any(option in results[0] for option in doc["options"])), "words": common / max(1, len(wanted))}

def nothing(doc, results):
    return {"near": 1.0, "words": 1.0}
'''

REFERENCE = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
start = time.perf_counter()
from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
imported = time.perf_counter()
folder, output = sys.argv[1:]
tracker = EvaluationTracker(output_path=output)
manager = TaskManager(include_path=folder, include_defaults=False)
results = simple_evaluate("dummy", tasks=["bench"], task_manager=manager, log_samples=True, evaluation_tracker=tracker, bootstrap_iters=0)
samples = results.pop("samples")
tracker.save_results_aggregated(results=results, samples=samples)
for task in results["configs"]:
    tracker.save_results_samples(task_name=task, samples=samples[task])
json.dump({"importing": imported - start, "results": results["results"]["bench"]}, sys.stdout)
"""

WORDS = "the quick brown fox jumps over a lazy dog near an old stone bridge while it rains in Lisbon".split()


def make_workload(folder, count):
    """Write the task files and their documents."""
    generator = random.Random(0)
    functions = {
        "bench": FUNCTIONS.replace("RESULTS", "process_results"),
        "nothing": FUNCTIONS.replace("RESULTS", "nothing"),
        "plain": "process_docs: !function utils.process_docs\nmetric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]",
    }
    for name, process in functions.items():
        text = TASK.replace("NAME", name).replace("PROCESS", process).replace("FOLDER", str(folder))
        (folder / f"{name}.yaml").write_text(text)
    (folder / "utils.py").write_text(UTILS)
    with open(folder / "documents.jsonl", "w") as documents:
        for number in range(count):
            document = {
                "number": number,
                "kind": generator.choice(["cloze", "open", "open", "none"] if number % 50 == 0 else ["cloze", "open"]),
                "question": " ".join(generator.choices(WORDS, k=40)) + " [title] ?",
                "options": [" ".join(generator.choices(WORDS, k=3)) for _ in range(3)] + ["lol" if number % 3 == 0 else "no"],
                "answer": " ".join(generator.choices(WORDS, k=4)) + (" lol." if number % 4 == 0 else "."),
            }
            documents.write(json.dumps(document) + "\n")


def measure(command, environment):
    """Run a process. Return its seconds and its output."""
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with status {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    return seconds, done.stdout


def scores(results):
    """Return the scores of a task."""
    return {key: value for key, value in results.items() if "," in key and "stderr" not in key}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".testenv/bin/python"))
    parser.add_argument("--binary", default=str(ROOT / "target/release/lm-eval"))
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the fastest is reported")
    record.add_argument(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        make_workload(folder, arguments.documents)
        environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", LM_EVAL_HOME=str(folder / "home"))

        def own(task, run):
            command = [arguments.binary, "run", "--model", "dummy", "--tasks", task, "--library", "none"]
            command += ["--include_path", str(folder), "--python", arguments.python, "--bootstrap_iters", "0"]
            command += ["--log_samples", "--output_path", str(folder / f"own-{task}-{run}"), "--format", "json", "--compat", "0.4"]
            seconds, text = measure(command, environment)
            return seconds, scores(json.loads(text)["results"][task])

        def reference(run):
            cache = dict(environment, HF_DATASETS_CACHE=str(folder / f"cache-{run}"))
            command = [arguments.python, "-c", REFERENCE, str(folder), str(folder / f"reference-{run}")]
            seconds, text = measure(command, cache)
            told = json.loads(text[text.index(b'{"importing"') :])
            return seconds, told["importing"], scores(told["results"])

        theirs = min(reference(run) for run in range(arguments.runs))
        ours = {task: min(own(task, run) for run in range(arguments.runs)) for task in ("bench", "nothing", "plain")}
    same = ours["bench"][1] == theirs[2]
    print(f"{arguments.documents} documents: the scores are {'identical' if same else 'DIFFERENT'}")
    for key, value in theirs[2].items():
        print(f"  {key}: {value!r}, {ours['bench'][1].get(key)!r}")
    rows = [("complete process", "s", theirs[0], ours["bench"][0]), ("without the imports of the reference", "s", theirs[0] - theirs[1], ours["bench"][0])]
    table = record.pair(("reference", "lm-eval"), [record.row(*row) for row in rows])
    record.show(table)
    extra = (ours["nothing"][0] - ours["plain"][0]) / arguments.documents * 1e6
    print(f"an empty `process_results`: {extra:.1f} µs per document")
    if not same:
        sys.exit(1)
    if arguments.save:
        record.save("python-tasks", __file__, {"process": table}, documents=arguments.documents, microseconds_per_call=extra)


if __name__ == "__main__":
    main()
