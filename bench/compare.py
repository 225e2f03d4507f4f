#!/usr/bin/env python3
"""Compares two runs of a million samples each with `lm-eval compare` and with pandas, and prints the ratios.

    cargo build --release -p lmeval-cli
    python3 -m venv .pandas && .pandas/bin/pip install pandas scipy
    python3 bench/compare.py --python .pandas/bin/python

The samples are generated from a fixed seed: a question, a prompt and an answer of 300 bytes each, hashes, a 0/1 and a real-valued
metric. The pandas script is the obvious one: read both files, join them on the hash of the document, and compute for each metric both
means, the difference, its standard error and the p-value (McNemar's exact test by scipy, or the normal limit of the sign-flip test). Means, differences,
standard errors and p-values of both sides must agree. Each side runs in its own process; time is that of the whole process, memory its peak
resident set.
"""

import argparse
import hashlib
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

STAMP = "2026-01-01T00-00-00.000000"

PANDAS = """
import json, math, sys
import pandas as pd
from scipy.stats import binomtest, norm

base, new = (pd.read_json(path, lines=True) for path in sys.argv[1:])
both = base.merge(new, on=["doc_hash", "filter"], suffixes=("_base", "_new"))
assert (both["prompt_hash_base"] == both["prompt_hash_new"]).all()
rows = []
for metric in base["metrics"].iloc[0]:
    old, now = both[metric + "_base"], both[metric + "_new"]
    change = now - old
    up, down = int((change > 0).sum()), int((change < 0).sum())
    if set(old.unique()) | set(now.unique()) <= {0.0, 1.0}:
        p_value = binomtest(up, up + down, 0.5).pvalue
    else:
        p_value = 2 * norm.cdf(-abs(change.sum()) / math.sqrt((change * change).sum()))
    stderr = change.std() / math.sqrt(len(change))
    row = {"metric": metric, "base": old.mean(), "new": now.mean(), "difference": change.mean(), "stderr": stderr}
    rows.append({**row, "p_value": p_value, "n": len(change), "up": up, "down": down})
json.dump(rows, sys.stdout)
"""


def text(generator, length=300):
    """Return words of this total length."""
    words = []
    while sum(map(len, words)) + len(words) < length:
        words.append("".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9))))
    return " ".join(words)[:length]


def make_run(folder, count, seed, share):
    """Write a run whose model is right on this share of the documents."""
    folder.mkdir(parents=True)
    # A few strings again and again: generating them would take longer than everything else.
    pool = [text(random.Random(number)) for number in range(1000)]
    chosen = random.Random(seed)
    with open(folder / f"samples_bench_{STAMP}.jsonl", "w") as file:
        for number in range(count):
            question = f"{number} {pool[number % 1000]}"[:300]
            hashed = hashlib.sha256(question.encode()).hexdigest()
            sample = {
                "doc_id": number,
                "doc": {"question": question, "answer": number % 97},
                "target": str(number % 97),
                "arguments": {"gen_args_0": {"arg_0": pool[(number + 1) % 1000], "arg_1": {"until": ["\n"]}}},
                "resps": [[chosen.choice(pool)]],
                "filtered_resps": [str(chosen.randrange(97))],
                "filter": "none",
                "metrics": ["exact_match", "similarity"],
                "doc_hash": hashed,
                "prompt_hash": hashed[::-1],
                "target_hash": hashed,
                "exact_match": float(chosen.random() < share),
                "similarity": chosen.random() ** (1 / share),
            }
            file.write(json.dumps(sample) + "\n")
    results = {
        "results": {"bench": {}},
        "configs": {"bench": {"metric_list": [{"metric": m, "aggregation": "mean"} for m in ("exact_match", "similarity")]}},
        "model_name": folder.name,
    }
    (folder / f"results_{STAMP}.json").write_text(json.dumps(results))


def measure(command):
    """Run a command; return its output, seconds, CPU seconds and peak memory in MB."""
    start = time.perf_counter()
    read, write = os.pipe()
    process = subprocess.Popen(command, stdout=write)
    os.close(write)
    with os.fdopen(read) as out:
        printed = out.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed with status {status}")
    return printed, time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def agree(own, other):
    """Return whether the rows have the same numbers."""
    names = ["base", "new", "difference", "stderr", "n", "up", "down"]
    # Up to 20,000 documents, lm-eval draws signs for a real-valued metric and does not use the normal limit.
    names += ["p_value"] if own[0]["n"] > 20_000 else []
    close = lambda a, b: abs(a - b) <= 1e-9 * max(abs(a), abs(b)) + 1e-300
    return all(close(one[name], two[name]) for one, two in zip(own, other, strict=True) for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with pandas and scipy")
    parser.add_argument("--binary", default=str(ROOT / "target/release/lm-eval"))
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3, help="runs of lm-eval; pandas runs once")
    parser.add_argument("--only-own", action="store_true", help="do not run pandas")
    parser.add_argument("--folder", type=pathlib.Path, help="keep the generated runs here, and use those found here")
    record.add_argument(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        runs = [folder / "base", folder / "new"]
        for run, seed, share in zip(runs, (1, 2), (0.5, 0.5005)):
            if not run.exists():
                make_run(run, arguments.samples, seed, share)
        files = [run / f"samples_bench_{STAMP}.jsonl" for run in runs]
        size = sum(file.stat().st_size for file in files) / 1e6
        command = [arguments.binary, "compare", *map(str, runs), "--format", "json"]
        measured = [measure(command) for _ in range(arguments.runs)]
        printed, seconds, cpu, _ = min(measured, key=lambda one: one[1])
        memory = max(one[3] for one in measured)
        print(f"two runs of {arguments.samples} samples, {size:.0f} MB")
        if arguments.only_own:
            print(f"lm-eval: {seconds:.2f} s, CPU {cpu:.2f} s, {memory:.0f} MB")
            return
        theirs, slow, slow_cpu, large = measure([arguments.python, "-c", PANDAS, *map(str, files)])
    own = json.loads(printed)["comparisons"][0]["scores"]
    same = agree(own, json.loads(theirs))
    print(f"scores, differences, standard errors and p-values {'agree' if same else 'DIFFER'}")
    rows = [("wall time", "s", slow, seconds), ("CPU time", "s", slow_cpu, cpu), ("peak memory", "MB", large, memory)]
    table = record.pair(("pandas and scipy", "lm-eval"), [record.row(*row) for row in rows])
    record.show(table)
    if not same:
        sys.exit(1)
    if arguments.save:
        record.save("compare", __file__, {"compare": table})


if __name__ == "__main__":
    main()
