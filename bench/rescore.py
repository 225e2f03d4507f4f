#!/usr/bin/env python3
"""Scores a million stored generations again with `lm-eval rescore` and with a pandas script, and prints the ratio.

    cargo build --release -p lmeval-cli -p lmeval-bench
    python3 bench/rescore.py --python PYTHON_WITH_PANDAS

The task and the generations are those of `bench/scoring.py`, cut to 300 bytes. The stored run is a samples file as `lm-eval run --log_samples` writes it,
with one line per document and filter pipeline, and a results file. The pandas script reads the same file, applies the regular expressions and the
normalisation of the metric, and prints the two scores, which must be equal. Times are those of whole processes, memory is their peak resident set.
`--folder` keeps the files for the next time; `--python ""` leaves out pandas, which takes minutes and 20 GB.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scoring  # noqa: E402

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAMP = "2026-01-01T00-00-00.000000"

PANDAS = r"""
import re, sys
import pandas
frame = pandas.read_json(sys.argv[1], lines=True)
frame = frame[frame["filter"] == "strict-match"]
answers = frame["resps"].str[0].str[0]
targets = frame["target"]
ignored = [",", "\\$", "(?s).*#### ", "\\.$"]
def normal(strings):
    for pattern in ignored:
        strings = strings.str.replace(pattern, "", regex=True)
    return strings.str.lower()
strict = answers.str.extract(r"#### (\-?[0-9\.\,]+)")[0].fillna("[invalid]")
def last(text):
    found = re.findall(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", text)
    return next((group for group in found[-1] if group), "[invalid]").strip() if found else "[invalid]"
flexible = answers.map(last)
gold = normal(targets)
print((normal(strict) == gold).mean(), (normal(flexible) == gold).mean())
"""


def store(folder, count):
    """Write the task, its documents, and the files of a finished run."""
    scoring.make_workload(folder, count)
    run = folder / "run"
    run.mkdir()
    (run / f"results_{STAMP}.json").write_text(
        json.dumps(
            {
                "results": {"bench": {}},
                "configs": {"bench": {"task": "bench", "num_fewshot": 0}},
                "n-shot": {"bench": 0},
                "n-samples": {"bench": {"original": count, "effective": count}},
                "config": {"model": "stored", "model_args": {}, "limit": None, "bootstrap_iters": 100000, "gen_kwargs": {}},
                "model_name": "stored",
                "model_name_sanitized": "stored",
                "compat": "0.4",
            }
        )
    )
    digest = hashlib.sha256(b"").hexdigest()
    with open(run / f"samples_bench_{STAMP}.jsonl", "w") as samples:
        for pipeline in ("strict-match", "flexible-extract"):
            with open(folder / "documents.jsonl") as documents, open(folder / "generations.jsonl") as generations:
                for number, (document, generation) in enumerate(zip(documents, generations, strict=True)):
                    document, text = json.loads(document), json.loads(generation)[-300:]
                    prompt = f"Question: {document['question']}\nAnswer:"
                    sample = {
                        "doc_id": number,
                        "doc": document,
                        "target": document["answer"],
                        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["Question:"], "do_sample": False}}},
                        "resps": [[text]],
                        "filtered_resps": ["?"],
                        "filter": pipeline,
                        "metrics": ["exact_match"],
                        "doc_hash": digest,
                        "prompt_hash": digest,
                        "target_hash": digest,
                        "exact_match": 0.0,
                    }
                    samples.write(json.dumps(sample, ensure_ascii=False) + "\n")
    return run


def measure(command):
    started = time.perf_counter()
    read, write = os.pipe()
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    with os.fdopen(read) as out:
        text = out.read()
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed with status {status}\n{errors}")
    return text, time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with pandas")
    parser.add_argument("--binary", default=str(ROOT / "target/release/lm-eval"))
    parser.add_argument("--scoring", default=str(ROOT / "target/release/score-generations"), help="skipped if it does not exist")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--folder", type=pathlib.Path, help="keep the files here and use them again")
    record.add_argument(parser)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = folder.resolve()
        run = folder / "run"
        if not run.exists():
            folder.mkdir(parents=True, exist_ok=True)
            store(folder, arguments.documents)
        counts = json.loads((run / f"results_{STAMP}.json").read_text())["n-samples"]["bench"]
        if counts["original"] != arguments.documents:
            sys.exit(f"{folder} has {counts['original']} documents; delete it or pass `--documents {counts['original']}`")
        samples = run / f"samples_bench_{STAMP}.jsonl"
        print(f"{arguments.documents} generations, samples of {samples.stat().st_size / 1e6:.0f} MB, load {os.getloadavg()[0]:.1f}")
        command = [arguments.binary, "rescore", str(run), "--tasks", str(folder / "bench.yaml"), "--format", "json", "--flips", "0"]
        text, seconds, cpu, memory = measure(command)
        scores = json.loads(text)["results"]["bench"]
        own = [scores[f"exact_match,{pipeline}"] for pipeline in ("strict-match", "flexible-extract")]
        print(f"lm-eval: {seconds:.2f} s, {cpu:.2f} s of CPU time, {memory:.0f} MiB")
        same = True
        if arguments.python:
            text, their_seconds, their_cpu, their_memory = measure([arguments.python, "-c", PANDAS, str(samples)])
            theirs = [float(score) for score in text.split()]
            same = all(abs(one - other) < 1e-12 for one, other in zip(own, theirs, strict=True))
            print(f"scores {'equal' if same else 'DIFFERENT'}: {own}, {theirs}")
            rows = [("wall time", "s", their_seconds, seconds), ("CPU time", "s", their_cpu, cpu), ("peak memory", "MiB", their_memory, memory)]
            table = record.pair(("pandas", "lm-eval"), [record.row(*row) for row in rows])
            record.show(table)
            if same and arguments.save:
                record.save("rescore", __file__, {"rescore": table})
        if os.path.exists(arguments.scoring):
            text, seconds, cpu, memory = measure([arguments.scoring, str(folder)])
            report = json.loads(text)
            print(f"scoring alone: {report['seconds']:.2f} s, {report['cpu'] or 0:.2f} s of CPU time, {memory:.0f} MiB")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
