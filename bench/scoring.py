#!/usr/bin/env python3
"""Scores generations of a GSM8K-like task with the reference and with lm-eval, and prints the speedups.

    cargo build --release -p lmeval-bench
    python3 bench/scoring.py --python .testenv/bin/python

The task has the filters and the metric of the library's `gsm8k`; its documents and a million generations of 200 to 600 characters are
generated from a fixed seed. Each side runs in its own process. The time is from the first filter to the last standard error, without
reading documents, building requests and attaching generations. Memory is the peak resident set of the process.

The reference takes a quarter of an hour for a million, so by default it gets only the first 100,000 generations. Its time is scaled
up, its memory is not. Scores and standard errors of these 100,000 must be identical; `--reference-documents 1000000` compares all.

The reference reads each document and renders its target again for every filter pipeline, while lm-eval has done so when building the
requests. This part is also timed separately, and the ratio without it is printed.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent

TASK = r"""
task: bench
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/documents.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{answer}}"
num_fewshot: 0
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: false
    regexes_to_ignore: [",", "\\$", "(?s).*#### ", "\\.$"]
generation_kwargs: {until: ["Question:"], do_sample: false}
filter_list:
  - name: strict-match
    filter:
      - {function: regex, regex_pattern: "#### (\\-?[0-9\\.\\,]+)"}
      - {function: take_first}
  - name: flexible-extract
    filter:
      - {function: regex, group_select: -1, regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"}
      - {function: take_first}
"""

# The loop of the reference's `evaluate` for one task, without sample logs.
REFERENCE = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from collections import defaultdict
from lm_eval.evaluator_utils import _process_results
from lm_eval.tasks import TaskManager
manager = TaskManager(include_path=sys.argv[1], include_defaults=False)
task = manager.load(["bench"])["tasks"]["bench"]
task.build_all_requests(limit=None, rank=0, world_size=1)
with open(sys.argv[1] + "/generations.jsonl") as file:
    for instance, line in zip(task.instances, file, strict=True):
        instance.resps.append(json.loads(line))

start, cpu = time.perf_counter(), time.process_time()
accumulator = {"task": task, "raw_metrics": defaultdict(list), "logged_samples": []}
task.apply_filters()
by_document = defaultdict(list)
for instance in task.instances:
    by_document[instance.doc_id].append(instance)
for instances in by_document.values():
    instances.sort(key=lambda instance: instance.idx)
for name in task.instances[0].filtered_resps:
    for number, document in task.doc_iterator(rank=0, limit=None, world_size=1):
        requests = by_document[number]
        metrics = task.process_results(document, [request.filtered_resps[name] for request in requests])
        for metric, value in metrics.items():
            accumulator["raw_metrics"][(metric, name)].append(value)
results = _process_results({"bench": accumulator}, {}, 100000)
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu

start = time.perf_counter()
for number, document in task.doc_iterator(rank=0, limit=None, world_size=1):
    task.doc_to_target(document)
rendering = (time.perf_counter() - start) * len(task.instances[0].filtered_resps)

scores = {key: value for key, value in results.metrics["bench"].items() if "," in key}
report = {"seconds": seconds, "cpu": cpu, "rendering": rendering, "documents": len(task.instances), "scores": scores}
json.dump(report, sys.stdout)
"""

NAMES = "Natalia Weng Betty Julie James Mark Alexis Tina Toulouse Ken Joy Zoë Randy Jasper Tobias José".split()
THINGS = "clips apples pages letters flowers pizzas dollars tickets pounds marbles coins stickers miles cupcakes".split()
STEPS = (
    "{name} has {a} {thing} and buys {b} more, so there are {a} + {b} = <<{a}+{b}={c}>>{c} {thing}. ",
    "Each of the {a} boxes holds {b} {thing}, which makes {a} * {b} = <<{a}*{b}={c}>>{c} {thing} in total. ",
    "After giving away {a} {thing}, {name} is left with {c} {thing}.\n",
    "The price is ${a}.50 for one and {name} pays ${c},000 in the end, a difference of {b}%.\n",
    "First we need to find out how many {thing} {name} had at the start. ",
    "Let's think step by step: half of {a} is {b}, and twice that is {c}. ",
    "So {name} needs to work for {a} more hours on the {thing}.\n",
)


def number(generator):
    size = generator.choice((10, 100, 1000, 100000))
    return f"{generator.randrange(size):,}"


def chain_of_thought(generator, least, most):
    length = generator.randint(least, most)
    text = ""
    while len(text) < length:
        a, b = generator.randrange(200), generator.randrange(50)
        text += generator.choice(STEPS).format(
            name=generator.choice(NAMES), thing=generator.choice(THINGS), a=a, b=b, c=a + b
        )
    return text


def make_workload(folder, count):
    """Write the task, its documents, and one generation per document."""
    generator = random.Random(0)
    (folder / "bench.yaml").write_text(TASK.replace("FOLDER", str(folder)))
    with open(folder / "documents.jsonl", "w") as documents, open(folder / "generations.jsonl", "w") as generations:
        for _ in range(count):
            gold = number(generator)
            answer = chain_of_thought(generator, 80, 250).strip() + f"\n#### {gold}"
            question = f"{generator.choice(NAMES)} wants {gold} {generator.choice(THINGS)}. How many are left?"
            documents.write(json.dumps({"question": question, "answer": answer}) + "\n")
            kind = generator.random()
            said = gold if kind % 0.1 < 0.06 else number(generator)
            text = chain_of_thought(generator, 160, 540)
            if kind < 0.5:
                text += f"\n#### {said}"
            elif kind < 0.6:
                text += f"\n#### ${said}."
            elif kind < 0.7:
                text += f"\n#### {said}.\n\nQuestion: what else?\n#### {number(generator)}"
            elif kind < 0.95:
                text += f"The answer is ${said}."
            generations.write(json.dumps(text, ensure_ascii=False) + "\n")


def measure(command, environment):
    read, write = os.pipe()
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.DEVNULL, env=environment)
    os.close(write)
    with os.fdopen(read) as out:
        text = out.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed with status {status}")
    return json.loads(text), usage.ru_maxrss / 1024


def best(runs):
    """Return the results of the fastest run, with the peak memory of all runs."""
    return min((result for result, _ in runs), key=lambda result: result["seconds"]), max(memory for _, memory in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".testenv/bin/python"))
    parser.add_argument("--binary", default=str(ROOT / "target/release/score-generations"))
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--reference-documents", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3, help="runs of lm-eval; the reference runs once")
    record.add_argument(parser)
    arguments = parser.parse_args()
    fewer = min(arguments.reference_documents, arguments.documents)
    with tempfile.TemporaryDirectory() as name:
        all_of_it, part = pathlib.Path(name).resolve() / "all", pathlib.Path(name).resolve() / "part"
        for folder, count in ((all_of_it, arguments.documents), (part, fewer)):
            folder.mkdir()
            # The seed is the same, so the smaller workload is a prefix of the larger one.
            make_workload(folder, count)
        environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_CACHE=str(pathlib.Path(name) / "cache"))
        own, own_memory = best([measure([arguments.binary, str(all_of_it)], environment) for _ in range(arguments.runs)])
        own_part, _ = measure([arguments.binary, str(part)], environment)
        theirs, memory = measure([arguments.python, "-c", REFERENCE, str(part)], environment)
    same = own_part["scores"] == theirs["scores"] and own_part["documents"] == theirs["documents"]
    print(f"{fewer} generations: scores and standard errors are {'identical' if same else 'DIFFERENT'}")
    for key, value in theirs["scores"].items():
        print(f"  {key}: {value!r}, {own_part['scores'].get(key)!r}")
    scale = own["documents"] / theirs["documents"]
    seconds, cpu = theirs["seconds"] * scale, theirs["cpu"] * scale
    without = seconds - theirs["rendering"] * scale
    note = f", the reference scaled from {fewer}" if scale != 1 else ""
    print(f"{own['documents']} generations{note}:")
    rows = [("filter, score, aggregate", seconds, own["seconds"]), ("the same, reference without rendering targets", without, own["seconds"])]
    if own["cpu"]:
        rows.append(("CPU time", cpu, own["cpu"]))
    table = record.pair(("reference", "lm-eval"), [record.row(what, "s", *times) for what, *times in rows])
    record.show(table)
    print(f"{'peak memory':28}{memory:>8.1f} MiB {own_memory:>8.1f} MiB" + (f"  (reference: {fewer})" if note else ""))
    if not same:
        sys.exit(1)
    if arguments.save:
        record.save("scoring", __file__, {"scoring": table}, reference_documents=fewer, documents=own["documents"])


if __name__ == "__main__":
    main()
