#!/usr/bin/env python3
"""Lists the task library with the reference and with lm-eval, and prints the speedups.

    cargo build --release
    python3 bench/task_library.py --python .testenv/bin/python

The interpreter given with --python must have `lm_eval` installed; both sides list its task folder. Each side runs in its own process.
The outputs are compared byte by byte. Wall time is the best of all runs, memory the peak resident set of the process.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import record

ROOT = pathlib.Path(__file__).resolve().parent.parent


def measure(command, output, environment):
    """Run a command. Return wall seconds, CPU seconds and peak memory in MiB."""
    with open(output, "wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{command[0]} failed with status {status}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def best(command, output, environment, runs):
    results = [measure(command, output, environment) for _ in range(runs)]
    return min(r[0] for r in results), min(r[1] for r in results), max(r[2] for r in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".testenv/bin/python"))
    parser.add_argument("--binary", default=str(ROOT / "target/release/lm-eval"))
    parser.add_argument("--runs", type=int, default=10, help="runs of lm-eval; the reference runs twice")
    record.add_argument(parser)
    arguments = parser.parse_args()

    find = "import lm_eval, os; print(os.path.join(os.path.dirname(lm_eval.__file__), 'tasks'))"
    library = subprocess.run(
        [arguments.python, "-c", find], check=True, capture_output=True, text=True
    ).stdout.strip()
    reference = [str(pathlib.Path(arguments.python).parent / "lm-eval"), "ls", "tasks"]
    ours = [arguments.binary, "ls", "tasks", "--library", library]
    environment = dict(os.environ, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

    with tempfile.TemporaryDirectory() as folder:
        theirs_out, ours_out = os.path.join(folder, "reference"), os.path.join(folder, "lm-eval")
        theirs = best(reference, theirs_out, environment, 2)
        own = best(ours, ours_out, environment, arguments.runs)
        equal = pathlib.Path(theirs_out).read_bytes() == pathlib.Path(ours_out).read_bytes()
        rows = len(pathlib.Path(ours_out).read_bytes().splitlines())
        start_up = best([arguments.binary, "--help"], os.devnull, environment, 20)

    print(f"ls tasks, {rows} lines, output {'equal' if equal else 'DIFFERENT'}")
    measured = (("wall time", "s"), ("CPU time", "s"), ("peak memory", "MiB"))
    table = record.pair(("reference", "lm-eval"), [record.row(*what, *values) for what, *values in zip(measured, theirs, own, strict=True)])
    record.show(table)
    print(f"lm-eval --help: {start_up[0] * 1000:.1f} ms, {start_up[2]:.1f} MiB")
    if not equal:
        sys.exit(1)
    if arguments.save:
        record.save("task-library", __file__, {"listing": table}, lines=rows)


if __name__ == "__main__":
    main()
