#!/usr/bin/env python3
"""Compares two builds of lm-eval on models that both compute on the CPU: equal answers, and the ratio of CPU times.

    python3 bench/native_builds.py OLD NEW --save

OLD and NEW are binaries of the same profile. Twelve architectures with random weights, in 32 and in 16 bits, score endings and generate; each
build runs every case several times, in turn, and the shortest CPU time counts, less that of a run with one document. Needs torch and transformers.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import tempfile
from types import SimpleNamespace

import gpu_check
import gpu_run
import record
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 1536}
MORE = {"gpt2": {"n_embd": 512, "n_layer": 4, "n_head": 8}}


def make(folder, name):
    """Write a model with random weights and its tokenizer."""
    fields = gpu_check.SMALL | gpu_check.SHAPES[name] | SIZES | MORE.get(name, {})
    torch.manual_seed(1)
    config = AutoConfig.for_model(name, **fields)
    config.initializer_range = 0.2
    AutoModelForCausalLM.from_config(config).float().save_pretrained(folder)
    gpu_check.write_tokenizer(folder, fields["vocab_size"])


def run(binary, model, dtype, task, folder, limit):
    """Run a task. Return the CPU time and the answers."""
    output = folder / "out"
    command = [binary, "run", "--model", "hf", "--model_args", f"pretrained={model},dtype={dtype}", "--device", "cpu", "--tasks", task]
    command += ["--include_path", folder, "--library", "none", "--output_path", output, "--log_samples", "--fresh", "--quiet", "--limit", str(limit)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = sorted(output.rglob("samples_*.jsonl"))
    answers = [json.loads(line)["resps"] for line in files[-1].read_text().splitlines()]
    for file in output.rglob("*.json*"):
        file.unlink()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--documents", type=int, default=24)
    parser.add_argument("--shapes", default=",".join(gpu_check.SHAPES))
    parser.add_argument("--tasks", default="endings,texts")
    record.add_argument(parser)
    given = parser.parse_args()
    rows, differing = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gpu_run.make_tasks(folder, SimpleNamespace(docs=4 * given.documents))
        for shape in given.shapes.split(","):
            make(folder / shape, shape)
            for dtype in ("float32", "bfloat16"):
                for task in given.tasks.split(","):
                    times, answers = {}, {}
                    for _ in range(given.runs):
                        for side, binary in (("old", given.old), ("new", given.new)):
                            start, _ = run(binary, folder / shape, dtype, task, folder, 1)
                            whole, answers[side] = run(binary, folder / shape, dtype, task, folder, given.documents)
                            times.setdefault(side, []).append(whole - start)
                    what = f"{shape}, {dtype}, {task}"
                    if answers["old"] != answers["new"]:
                        differing.append(what)
                    rows.append(record.row(what, "s", min(times["old"]), min(times["new"])))
                    print(f"{what:36} {rows[-1]['a']:8.2f} s {rows[-1]['b']:8.2f} s {rows[-1]['a'] / rows[-1]['b']:6.2f}x {'' if what not in differing else 'DIFFERENT'}", flush=True)
    if given.save and not differing:
        record.save("native-builds", __file__, {"builds": record.pair(("before", "after"), rows)})
    raise SystemExit(f"answers differ: {', '.join(differing)}" if differing else 0)


if __name__ == "__main__":
    main()
