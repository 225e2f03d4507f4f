#!/usr/bin/env python3
"""Says where the time of `--model hf` on a GPU goes, by kind of kernel.

    scripts/build-cuda
    python3 bench/gpu_profile.py --binary target/cuda/lm-eval --layers 32 --hidden 4096

The tasks and the model are those of `gpu_check.py`, or with `--experts` a mixture of experts of the shape of Qwen3-30B-A3B. A library that
the CUDA driver loads into the command (`gpu_profile.cpp`, built with g++ and CUPTI of the toolkit) writes when each kernel ran. Idle is the
time between the first and the last pass in which no kernel runs. Needs torch and transformers.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

import gpu_check
import gpu_run
import torch
from transformers import AutoConfig, AutoModelForCausalLM

KINDS = [
    ("products", ("multiply_experts", "gemm", "nvjet", "cutlass", "xmma", "splitk", "gemv", "cublas")),
    ("attention", ("attention", "softmax")),
    ("norms and residual sums", ("norm", "badd", "reduce")),
    ("rotation, keys and values", ("rotate", "rope", "store_rows")),
    ("activation", ("silu", "gelu")),
    ("sums of experts", ("combine",)),
    ("embedding, chosen rows", ("gather", "is_u32", "index", "ia_u32", "scatter")),
    ("statistics of logits", ("summarise", "pick")),
    ("expanding weights", ("expand",)),
    ("copies", ("copy", "fill", "cast", "ucopy")),
]


def kind_of(name):
    """The kind of a kernel."""
    return next((kind for kind, parts in KINDS if any(part in name.lower() for part in parts)), "other")


def summary(path):
    """The seconds by kind, and in which nothing ran, from the first pass on."""
    rows = [line.rstrip("\n").split("\t") for line in open(path)]
    events = sorted((int(begin), int(end), name) for begin, end, name in rows)
    first = next(begin for begin, _, name in events if "gather" in name or "is_u32" in name)
    events = [event for event in events if event[0] >= first]
    seconds, names, idle, until = {}, {}, 0, first
    for begin, end, name in events:
        idle += max(0, begin - until)
        until = max(until, end)
        kind = kind_of(name)
        seconds[kind] = seconds.get(kind, 0) + (end - begin) / 1e9
        total, count = names.get(name, (0, 0))
        names[name] = (total + (end - begin) / 1e9, count + 1)
    seconds["idle"] = idle / 1e9
    return (until - first) / 1e9, seconds, names, len(events)


def library(folder):
    """Build the library that writes when kernels ran."""
    home = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    extras = home / "extras/CUPTI"
    made = folder / "profile.so"
    command = [
        "g++",
        "-O2",
        "-shared",
        "-fPIC",
        gpu_run.ROOT / "bench/gpu_profile.cpp",
        "-o",
        made,
        "-lcupti",
    ]
    for place in [home, extras]:
        command += [f"-I{place}/include", f"-L{place}/lib64", f"-Wl,-rpath,{place}/lib64"]
    subprocess.run(command, check=True)
    return made


def make_experts(folder, given):
    """Write a mixture of experts with random weights in bfloat16."""
    config = AutoConfig.for_model(
        "qwen3_moe",
        hidden_size=2048,
        num_hidden_layers=given.layers,
        num_attention_heads=32,
        num_key_value_heads=4,
        head_dim=128,
        intermediate_size=6144,
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
        norm_topk_prob=True,
        vocab_size=gpu_check.VOCABULARY,
        tie_word_embeddings=False,
        max_position_embeddings=8192,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    del model
    torch.cuda.empty_cache()
    gpu_check.write_tokenizer(folder, gpu_check.VOCABULARY)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", default=gpu_run.ROOT / "target/cuda/lm-eval", type=pathlib.Path)
    parser.add_argument("--docs", type=int, default=400)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--experts", action="store_true")
    parser.add_argument("--tasks", default="letters,endings,texts,rolling")
    parser.add_argument("--names", type=int, default=0, help="print this many kernels, too")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    given.wide = 8192 if given.hidden == 2048 else 14336
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gpu_run.make_tasks(folder, given)
        (make_experts if given.experts else gpu_check.make_large)(folder / "large", given)
        torch.cuda.empty_cache()
        settings = types.SimpleNamespace(binary=given.binary, folder=folder / "large", dtype="bfloat16")
        made = library(folder)
        for task in given.tasks.split(","):
            os.environ.update(
                {"CUDA_INJECTION64_PATH": str(made), "GPU_PROFILE": str(folder / "kernels.tsv")}
            )
            seconds, _, _ = gpu_check.ours(folder, task, settings, folder / "run")
            whole, kinds, names, launches = summary(folder / "kernels.tsv")
            found[task] = {"command": seconds, "passes": whole, "launches": launches, "seconds": kinds}
            shares = ", ".join(
                f"{kind} {part / whole:.1%}"
                for kind, part in sorted(kinds.items(), key=lambda item: -item[1])
            )
            print(f"{task}: {whole:.2f} s of {seconds:.2f} s, {launches:,} launches: {shares}", flush=True)
            for name, (total, count) in sorted(names.items(), key=lambda item: -item[1][0])[: given.names]:
                print(f"    {total:7.3f} s {count:7} {total / count * 1e6:8.1f} us  {name[:110]}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(gpu_check.FAILED))


if __name__ == "__main__":
    main()
