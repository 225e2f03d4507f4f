"""Measure `lm-eval view` on a run of 200,000 samples (1 GB) and on 1,400 runs.

    python bench/view.py [BINARY] [--samples N] [--runs N] [--folder DIR]

Prints the time to the first rows after the start, to a complete index, of a filter by outcome, of a search with a regular
expression over all prompts and answers, the peak memory of the server, and the time to list many runs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import record

STAMP = "2026-11-15T02-46-50.151442"
WORDS = "time year people way day man thing woman life child world school state family student group country problem".split()


def text(source: random.Random, words: int) -> str:
    return " ".join(source.choice(WORDS) for _ in range(words))


def results(model: str, count: int, tasks: int = 1) -> dict[str, Any]:
    names = ["quiz"] if tasks == 1 else [f"task_{index}" for index in range(tasks)]
    config = {"doc_to_text": "{{question}}", "description": "x" * 2000, "num_fewshot": 5}
    return {
        "results": {
            name: {"alias": name, "acc,none": 0.5, "acc_stderr,none": 0.01, "sample_len": count} for name in names
        },
        "group_subtasks": {},
        "configs": {name: {"task": name, **config} for name in names},
        "versions": dict.fromkeys(names, 1),
        "n-shot": dict.fromkeys(names, 5),
        "higher_is_better": {name: {"acc": True} for name in names},
        "n-samples": {name: {"original": count, "effective": count} for name in names},
        "config": {"model": "hf", "model_args": f"pretrained={model}"},
        "date": 1763174810.0,
        "model_name": model,
    }


def write_samples(folder: Path, count: int) -> int:
    """Write samples of about 5 kB: a few-shot prompt, an answer of some sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"results_{STAMP}.json").write_text(json.dumps(results("big", count)))
    path = folder / f"samples_quiz_{STAMP}.jsonl"
    source = random.Random(0)
    shots = ["\n\n".join(f"Question: {text(source, 60)}\nAnswer: {text(source, 30)}" for _ in range(5)) for _ in range(50)]
    with path.open("w") as file:
        for index in range(count):
            question, answer = text(source, 60), text(source, 120)
            score = index % 3 == 0
            if index == count - 7:
                answer += " a rare needle 4711"
            sample = {
                "doc_id": index,
                "doc": {"question": question, "answer": answer[:40], "subject": source.choice(WORDS)},
                "target": answer[:40],
                "arguments": {
                    "gen_args_0": {
                        "arg_0": f"{source.choice(shots)}\n\nQuestion: {question}\nAnswer:",
                        "arg_1": {"until": ["\n\n"], "max_gen_toks": 256},
                    }
                },
                "resps": [[answer]],
                "filtered_resps": [answer[:20]],
                "filter": "none",
                "metrics": ["acc"],
                "doc_hash": f"{index:064x}",
                "prompt_hash": f"{index:064x}",
                "target_hash": f"{index:064x}",
                "acc": float(score),
            }
            file.write(json.dumps(sample) + "\n")
    return path.stat().st_size


class Viewer:
    """A server, with the time at which it was started."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [binary, "view", str(folder), "--port", "0", "--no-open"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip().removeprefix("http://").rstrip("/")

    def get(self, path: str) -> Any:
        connection = http.client.HTTPConnection(self.address, timeout=600)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return json.loads(body)

    def timed(self, path: str) -> tuple[float, Any]:
        started = time.perf_counter()
        found = self.get(path)
        return time.perf_counter() - started, found

    def peak(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def one_large_run(binary: str, folder: Path, count: int) -> list[list[str]]:
    size = write_samples(folder, count)
    print(f"{count:,} samples, {size / 1e9:.2f} GB")
    viewer = Viewer(binary, folder)
    rows: list[list[str]] = []

    def line(what: str, seconds: float) -> None:
        print(f"{what:60} {seconds:8.3f} s", flush=True)
        rows.append([what, f"{seconds:.3f} s"])

    run = viewer.get("/api/runs")["runs"][0]["id"]
    base = f"/api/samples?run={run}&task=quiz"
    first = viewer.get(base)
    line(f"first {len(first['rows'])} rows after the start", time.perf_counter() - viewer.started)
    while not viewer.get(base + "&limit=1")["index"]["complete"]:
        time.sleep(0.02)
    line("complete index", time.perf_counter() - viewer.started)
    queries = {
        "filter by outcome": "&outcome=wrong",
        "filter and sort": "&outcome=right&sort=-answer_length",
        "regular expression over all prompts and answers": f"&regex=1&text={quote('needle [0-9]+')}",
        "regular expression with alternatives, a gap and an anchor": f"&regex=1&text={quote('(time|year) people .{0,20} (school|state)$')}",
        "string in any case": "&text=rare+NEEDLE",
        "expression, as for `samples --where`": f"&where={quote('acc == 1 and doc.subject == ' + repr('world'))}",
    }
    for what, query in queries.items():
        seconds, page = viewer.timed(base + query)
        line(f"{what} ({page['matched']:,} samples)", seconds)
    seconds, _ = viewer.timed(f"/api/sample?run={run}&task=quiz&row={count - 1}")
    line("one document", seconds)
    rows.append(["peak memory of the server", f"{viewer.peak():.0f} MB"])
    viewer.stop()
    return rows


def many_runs(binary: str, folder: Path, count: int) -> list[list[str]]:
    for index in range(count):
        below = folder / f"model_{index % 100}"
        below.mkdir(parents=True, exist_ok=True)
        stamp = f"2026-{index // 1000 + 1:02}-{index // 40 % 25 + 1:02}T{index % 24:02}-{index % 60:02}-50.{index:06}"
        (below / f"results_{stamp}.json").write_text(json.dumps(results(f"model_{index % 100}", 1000, tasks=10)))
    viewer = Viewer(binary, folder)
    listed = viewer.get("/api/runs")["runs"]
    seconds = time.perf_counter() - viewer.started
    print(f"{len(listed):,} runs listed after the start {seconds:.3f} s, peak memory {viewer.peak():.0f} MB")
    rows = [[f"{len(listed):,} runs listed after the start", f"{seconds:.3f} s"], ["peak memory of the server then", f"{viewer.peak():.0f} MB"]]
    viewer.stop()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", nargs="?", default="target/release/lm-eval")
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=1_400)
    parser.add_argument("--folder", type=Path)
    record.add_argument(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rows = one_large_run(arguments.binary, Path(folder) / "large", arguments.samples)
        rows += many_runs(arguments.binary, Path(folder) / "many", arguments.runs)
    if arguments.save:
        record.save("view", __file__, {"view": {"columns": ["", "time or memory"], "rows": rows}}, samples=arguments.samples)


if __name__ == "__main__":
    main()
