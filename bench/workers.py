#!/usr/bin/env python3
"""Measure a whole run with workers: plan, prompts, queue, journal and scores, with workers that sleep instead of computing.

    cargo build --release -p lmeval-cli -p lmeval-bench
    python bench/workers.py --documents 50000 --workers 16 --milliseconds 0

Prints requests per second, the CPU time of the run per request, its peak memory, and the bytes of its journal per request.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def write_task(folder: Path, documents: int, characters: int) -> None:
    """Write a task of questions with four options, and prompts of a length."""
    filler = "Lorem ipsum dolor sit amet, consectetur adipiscing elit. " * (characters // 57 + 1)
    with (folder / "rows.jsonl").open("w") as rows:
        for number in range(documents):
            row = {
                "q": f"Question {number}: {filler[:characters]}",
                "o": ["a", "b", "c", "d"],
                "a": number % 4,
            }
            rows.write(json.dumps(row) + "\n")
    (folder / "many.yaml").write_text(
        f"task: many\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder / 'rows.jsonl'}}}}}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: '{{o}}'\n"
        "doc_to_target: '{{a}}'\n"
    )


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", type=Path, default=REPOSITORY / "target/release")
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--characters", type=int, default=500)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--milliseconds", type=float, default=0.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_task(folder, arguments.documents, arguments.characters)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text("a token for a benchmark on loopback")
        words = [arguments.target / "lm-eval", "run", "--model", "hf", "--model_args", "pretrained=none"]
        words += ["--tasks", folder / "many.yaml", "--library", "none", "--output_path", folder / "out"]
        words += ["--workers", f"listen=127.0.0.1:0,token_file={token}", "--bootstrap_iters", "0"]
        run = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert run.stderr is not None
        address = next(line for line in run.stderr if "Waiting for workers at " in line)
        address = address.split("Waiting for workers at ")[1].split(": ")[0]
        words = [arguments.target / "worker-scale", "join", address, token]
        words += [str(arguments.workers), str(arguments.milliseconds)]
        start = time.monotonic()
        workers = subprocess.Popen(words, cwd=folder)
        errors = run.stderr.read()
        _, status, usage = os.wait4(run.pid, 0)
        elapsed = time.monotonic() - start
        workers.wait()
        if status:
            raise SystemExit(errors)
        requests = 4 * arguments.documents
        journal = sum(path.stat().st_size for path in folder.glob("out/**/*.journal"))
    used = usage.ru_utime + usage.ru_stime
    print(
        f"{requests / elapsed:,.0f} requests/s, {used / requests * 1e6:.1f} µs of CPU per request in the run,"
    )
    print(f"{usage.ru_maxrss / 1024:.0f} MB, {journal / requests:.0f} bytes of journal per request")


if __name__ == "__main__":
    main()
