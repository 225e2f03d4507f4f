#!/usr/bin/env python3
"""Builds all requests of an MMLU-like group with the reference and with lm-eval, and prints the speedups.

    cargo build --release -p lmeval-bench
    python3 bench/requests.py --python .testenv/bin/python

The group has 57 tasks with 14,042 documents of four options, 5-shot, generated from a fixed seed. Each side runs in its own process.
Times start with the process, but exclude the imports of the reference; memory is the peak resident set. The reference sends nothing
before all requests are built, so its first request is ready with the last one. Contexts are compared by count and total size.
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
TASKS, DOCUMENTS, SHOTS = 57, 14042, 5

REFERENCE = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from lm_eval.tasks import TaskManager
start = time.perf_counter()
manager = TaskManager(include_path=sys.argv[1], include_defaults=False)
tasks = manager.load(["bench"])["tasks"].values()
requests = size = 0
for task in tasks:
    task.set_config(key="num_fewshot", value=int(sys.argv[2]))
    task.set_fewshot_seed(seed=1234)
    task.build_all_requests(limit=None, rank=0, world_size=1)
    for instance in task.instances:
        requests += 1
        size += sum(len(part.encode()) for part in instance.args if isinstance(part, str))
last = time.perf_counter() - start
json.dump({"first": last, "last": last, "requests": requests, "bytes": size}, sys.stdout)
"""


def make_library(folder):
    """Write the task files and documents of the group."""
    generator = random.Random(0)
    words = [line.strip() for line in "time person year way day thing man world life hand part child eye woman place work week case point government company number group problem fact".split()]

    def document():
        question = " ".join(generator.choice(words) for _ in range(generator.randint(8, 60))) + "?"
        choices = [" ".join(generator.choice(words) for _ in range(generator.randint(1, 12))) for _ in range(4)]
        return {"question": question, "choices": choices, "answer": generator.randrange(4)}

    (folder / "data").mkdir()
    names = [f"bench_{number:02}" for number in range(TASKS)]
    for number, name in enumerate(names):
        count = DOCUMENTS // TASKS + (number < DOCUMENTS % TASKS)
        for split, size in (("dev", 5), ("test", count)):
            with open(folder / "data" / f"{name}_{split}.jsonl", "w") as file:
                file.writelines(json.dumps(document()) + "\n" for _ in range(size))
        (folder / f"{name}.yaml").write_text(
            f"include: _base_yaml\ntask: {name}\n"
            f'description: "The following are multiple choice questions (with answers) about {name}.\\n\\n"\n'
            f"dataset_kwargs: {{data_files: {{dev: {folder}/data/{name}_dev.jsonl, test: {folder}/data/{name}_test.jsonl}}}}\n"
        )
    (folder / "_base_yaml").write_text(
        "dataset_path: json\ntest_split: test\nfewshot_split: dev\nfewshot_config: {sampler: first_n}\n"
        "output_type: multiple_choice\n"
        'doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nC. {{choices[2]}}\\nD. {{choices[3]}}\\nAnswer:"\n'
        'doc_to_choice: ["A", "B", "C", "D"]\ndoc_to_target: answer\nmetric_list: [{metric: acc}]\n'
    )
    (folder / "bench.yaml").write_text(f"group: bench\ntask: {json.dumps(names)}\naggregate_metric_list: [{{metric: acc}}]\n")


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".testenv/bin/python"))
    parser.add_argument("--binary", default=str(ROOT / "target/release/build-requests"))
    parser.add_argument("--runs", type=int, default=5, help="runs of lm-eval; the reference runs once")
    record.add_argument(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        make_library(folder)
        environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_CACHE=str(folder / "cache"))
        ours = [measure([arguments.binary, name, "bench", str(SHOTS)], environment) for _ in range(arguments.runs)]
        own = {key: min(result[key] for result, _ in ours) for key in ours[0][0]}
        own_memory = max(memory for _, memory in ours)
        theirs, memory = measure([arguments.python, "-c", REFERENCE, name, str(SHOTS)], environment)
    same = (own["requests"], own["bytes"]) == (theirs["requests"], theirs["bytes"])
    print(f"{own['requests']} requests, {own['bytes'] / 1e6:.1f} MB of contexts; {'identical' if same else 'DIFFERENT'}")
    rows = [record.row(f"to the {key} request", "s", theirs[key], own[key]) for key in ("first", "last")]
    table = record.pair(("reference", "lm-eval"), [*rows, record.row("peak memory", "MiB", memory, own_memory)])
    record.show(table)
    if not same:
        sys.exit(1)
    if arguments.save:
        record.save("requests", __file__, {"requests": table}, requests=own["requests"])


if __name__ == "__main__":
    main()
