#!/usr/bin/env python3
"""Computes bootstrap standard errors over 1,319 values with the reference and with lm-eval, and prints the speedups.

    cargo build --release -p lmeval-bench
    python3 bench/bootstrap.py --python .testenv/bin/python

The values are generated from a fixed seed. Each side runs in its own process, once per metric. The time excludes imports and one
aggregation of the values, which a run needs anyway. CPU time covers all processes and threads; for lm-eval it includes reading the
values from a file. The reference uses one process per core, its default, and lm-eval one thread per core.

The reference takes hours for 100,000 resamples of BLEU, so it computes fewer (`--bleu-draws`) and its time is scaled up.
Standard errors are compared for the same number of resamples and must be identical.
"""

import argparse
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
VALUES = 1319
METRICS = {"perplexity": "perplexity", "f1": "f1", "mcc": "matthews_corrcoef", "bleu": "bleu"}

REFERENCE = """
import contextlib, json, logging, multiprocessing, os, resource, sys, time
logging.disable(logging.CRITICAL)
from lm_eval.api import metrics
from lm_eval.api.registry import get_aggregation
def cpu_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
case = json.load(open(sys.argv[1]))
function = get_aggregation(case["aggregation"])
values = [tuple(value) if isinstance(value, list) else value for value in case["values"]]
function(values)
with contextlib.redirect_stdout(sys.stderr):
    start, before = time.perf_counter(), cpu_seconds()
    stderr = metrics.bootstrap_stderr(function, values, case["draws"])
    seconds, used = time.perf_counter() - start, cpu_seconds() - before
workers = 1 if os.getenv("DISABLE_MULTIPROC") else multiprocessing.cpu_count()
json.dump({"stderr": float(stderr), "seconds": seconds, "cpu": used, "workers": workers}, sys.stdout)
"""


def make_values():
    """Generate log-likelihoods, pairs of labels, and pairs of strings."""
    generator = random.Random(0)
    words = "time person year way day thing man world life hand part child eye woman place work week case point government company number group problem fact".split()

    def labels():
        gold = generator.randrange(2)
        return gold, gold if generator.random() < 0.8 else 1 - gold

    def texts():
        target = [generator.choice(words) for _ in range(generator.randint(8, 30))]
        answer = [word if generator.random() < 0.7 else generator.choice(words) for word in target]
        return " ".join(target) + ".", " ".join(answer[generator.randrange(3) :]) + "."

    pairs = [labels() for _ in range(VALUES)]
    return {
        "perplexity": [-generator.expovariate(0.5) for _ in range(VALUES)],
        "f1": pairs,
        "mcc": pairs,
        "bleu": [texts() for _ in range(VALUES)],
    }


def run(command, path, case):
    """Return the standard error, the wall time and the CPU time."""
    path.write_text(json.dumps(case))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": whole} | json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".testenv/bin/python"))
    parser.add_argument("--binary", default=str(ROOT / "target/release/bootstrap"))
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--reference-draws", type=int, help="fewer resamples for the reference, for a quick check")
    parser.add_argument("--bleu-draws", type=int, default=2000, help="resamples of the reference for BLEU")
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=list(METRICS))
    parser.add_argument("--runs", type=int, default=1, help="runs of lm-eval; the best is reported; the reference runs once")
    record.add_argument(parser)
    arguments = parser.parse_args()
    values = make_values()
    different = False
    rows = []
    print(f"{arguments.draws} resamples of {VALUES} values; wall time and CPU time in seconds", flush=True)
    print(f"{'':11}{'reference':>20}{'lm-eval':>20}{'ratio':>17}  standard error")
    for metric in arguments.metrics:
        draws = min(arguments.draws, arguments.reference_draws or arguments.draws)
        if metric == "bleu":
            draws = min(draws, arguments.bleu_draws)
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "case.json"
            case = {"aggregation": METRICS[metric], "values": values[metric], "draws": arguments.draws}
            runs = [run([arguments.binary], path, case) for _ in range(arguments.runs)]
            case["draws"] = draws
            own = run([arguments.binary], path, case)
            theirs = run([arguments.python, "-c", REFERENCE], path, case)
        scale = arguments.draws / draws
        columns = [(theirs[key] * scale, min(result[key] for result in runs)) for key in ("seconds", "cpu")]
        same = own["stderr"] == theirs["stderr"]
        scaled = "" if scale == 1 else f" ({draws:,} draws of the reference, scaled up)"
        rows.append(record.row(f"`{metric}`, CPU time{scaled}", "s", *columns[1]))
        different |= not same
        print(
            f"{metric:11}"
            + "".join(f"{left:>10.2f}" for left, _ in columns)
            + "".join(f"{right:>10.4f}" for _, right in columns)
            + "".join(f"{left / right:>8.0f}x" for left, right in columns)
            + f"  {own['stderr']!r}, {'identical' if same else 'DIFFERENT: ' + repr(theirs['stderr'])}"
        )
        workers = f"{theirs['workers']} reference processes, {own['workers']} lm-eval threads"
        scaled = "" if scale == 1 else f"; reference time scaled up from {theirs['seconds']:.1f} s for {draws} resamples"
        print(f"{'':11}{workers}{scaled}", flush=True)
    if different:
        sys.exit(1)
    if arguments.save:
        record.save("bootstrap", __file__, {"bootstrap": record.pair(("reference", "lm-eval"), rows)}, draws=arguments.draws, values=VALUES)


if __name__ == "__main__":
    main()
