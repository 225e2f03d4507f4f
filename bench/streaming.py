#!/usr/bin/env python3
"""Compares streamed generations with whole ones on a real server, kills runs in the middle, and compares scores by budget.

    cargo build --release -p lmeval-cli
    python3 bench/streaming.py --server http://127.0.0.1:8000/v1/completions --model my-model --tokenizer path/to/tokenizer

`--chat` talks to the chat API at that address instead. Prompts are greedy and different, answers up to `--tokens` long. Printed are: the
documents whose streamed text equals the whole one; the same after a run was killed `--kills` times; and, for each budget, the
documents whose score in the curve of one run equals the score of a run with that limit. The exit status is 1 if a text or a score differs where
nothing was interrupted. A server that batches may write another text for the same prompt, so the whole run is repeated for comparison.
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPICS = ["the sea", "a train", "winter", "bread", "a letter", "music", "a garden", "the moon", "a market", "a bridge", "rain", "a clock"]

TASK = """task: stories
dataset_path: json
dataset_kwargs: {data_files: {test: stories.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs: {until: [], max_gen_toks: 64}
metric_list: [{metric: chrf}]
"""


def run(options, folder, out, *more, kill_after=None):
    """Run an evaluation and return the text of each document, or kill it after `kill_after` seconds and return None."""
    back_end = "local-chat-completions" if options.chat else "local-completions"
    args = f"model={options.model},base_url={options.server},num_concurrent={options.concurrency},{more[0]}"
    if not options.chat:
        args += f",tokenizer={options.tokenizer}"
    words = [options.binary, "run", "--model", back_end, "--model_args", args, "--tasks", "stories.yaml"]
    words += ["--output_path", out, "--log_samples", "--quiet", *more[1:]]
    if options.chat:
        words.append("--apply_chat_template")
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    if kill_after:
        time.sleep(kill_after)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return None
    if process.wait():
        sys.exit(f"failed: {' '.join(words)}")
    samples = max((folder / out).rglob("samples_*.jsonl"))
    return {row["doc_id"]: row["resps"][0][0] for row in map(json.loads, samples.read_text().splitlines())}


def score(folder, out):
    """Return the score of the newest results."""
    results = max((folder / out).rglob("results_*.json"))
    return json.loads(results.read_text())["results"]["stories"]["chrf,none"]


def same(one, other):
    """Count equal texts."""
    return sum(one[document] == other[document] for document in one)


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "target" / "release" / "lm-eval"))
    parser.add_argument("--server", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokenizer")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    generator = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = [{"q": f"Write a story about {generator.choice(TOPICS)} and {number}.", "a": "Once upon a time"} for number in range(options.documents)]
        (folder / "stories.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (folder / "stories.yaml").write_text(TASK)
        limit = ["--gen_kwargs", f"max_gen_toks={options.tokens}"]
        whole = run(options, folder, "whole", "stream=False", *limit)
        again = run(options, folder, "again", "stream=False", *limit)
        streamed = run(options, folder, "streamed", "stream=True", *limit)
        print(f"{options.documents} answers of up to {options.tokens} tokens")
        print(f"whole, repeated: {same(whole, again)} equal texts")
        print(f"streamed: {same(whole, streamed)} equal texts")
        begin = time.time()
        run(options, folder, "timed", "stream=True", *limit)
        pause = (time.time() - begin) / 3
        for kill in range(options.kills):
            run(options, folder, "killed", "stream=True", *limit, kill_after=max(6.5, pause + kill))
        print(f"killed {options.kills} times: {same(whole, run(options, folder, 'killed', 'stream=True', *limit))} equal texts")
        budgets = [options.tokens // 8, options.tokens // 4, options.tokens // 2]
        curve = [options.binary, "budget", "streamed", "--tasks", "stories.yaml", "--format", "json", "--budgets", ",".join(map(str, budgets))]
        curve = json.loads(subprocess.run(curve, cwd=folder, check=True, capture_output=True, text=True).stdout)
        is_wrong = same(whole, streamed) < same(whole, again)
        for budget in budgets:
            run(options, folder, f"direct{budget}", "stream=False", "--gen_kwargs", f"max_gen_toks={budget}")
            point = next(point for point in curve["tasks"][0]["points"] if point["budget"] == budget)
            found, direct = point["scores"][0]["value"], score(folder, f"direct{budget}")
            print(f"budget {budget}: chrf {found:.6f} from one run, {direct:.6f} from a run with that limit")
            is_wrong |= found != direct and same(whole, again) == options.documents
    sys.exit(is_wrong)


if __name__ == "__main__":
    main()
