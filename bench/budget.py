#!/usr/bin/env python3
"""Compares the curve of one native run with separate runs at each token limit, document by document.

    python3 bench/budget.py --binary target/release/lm-eval --model path/to/SmolLM2

The exit status is 1 if a text or a score differs.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGETS = [4, 8, 16, 32, 48]
TASK = """task: stories
dataset_path: json
dataset_kwargs: {data_files: {test: stories.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs: {until: [], max_gen_toks: 48, do_sample: false}
metric_list: [{metric: chrf}, {metric: exact_match}]
"""
TOPICS = [
    "the sea",
    "a train",
    "winter",
    "bread",
    "a letter",
    "music",
    "a garden",
    "the moon",
    "a market",
    "a bridge",
    "rain",
    "a clock",
]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", default=ROOT / "target/release/lm-eval", type=pathlib.Path)
    parser.add_argument("--model", required=True, help="a folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = [{"q": f"Write about {topic}.", "a": f"It was about {topic}."} for topic in TOPICS]
        (folder / "stories.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (folder / "stories.yaml").write_text(TASK)

        def lm_eval(*words):
            done = subprocess.run([given.binary, *words], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            return done.stdout

        def run(out, *more):
            model = [
                "--model",
                "hf",
                "--model_args",
                f"pretrained={pathlib.Path(given.model).resolve()},device=cpu",
            ]
            lm_eval(
                "run",
                *model,
                "--tasks",
                "stories.yaml",
                "--output_path",
                out,
                "--log_samples",
                "--quiet",
                *more,
            )
            results = json.loads(max((folder / out).rglob("results_*.json")).read_text())["results"][
                "stories"
            ]
            samples = max((folder / out).rglob("samples_*.jsonl")).read_text().splitlines()
            return results, {row["doc_id"]: row["resps"][0][0] for row in map(json.loads, samples)}

        _, whole = run("whole")
        curve = json.loads(
            lm_eval(
                "budget",
                "whole",
                "--include_path",
                ".",
                "--budgets",
                ",".join(map(str, BUDGETS)),
                "--format",
                "json",
            )
        )
        points = {point["budget"]: point["scores"][0]["value"] for point in curve["tasks"][0]["points"]}
        differs = 0
        for budget in BUDGETS:
            results, direct = run(f"at-{budget}", "--gen_kwargs", f"max_gen_toks={budget}")
            same = sum(whole[document].startswith(text) for document, text in direct.items())
            print(
                f"{budget} tokens: {same} of {len(direct)} texts are beginnings of the long ones; chrf {points[budget]!r} by the curve, {results['chrf,none']!r} directly"
            )
            differs += same != len(direct)
            differs += points[budget] != results["chrf,none"]
        sys.exit(bool(differs))


if __name__ == "__main__":
    main()
