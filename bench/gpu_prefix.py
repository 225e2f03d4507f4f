#!/usr/bin/env python3
"""Scores 64 sequences of 640 tokens with a shared prefix of 560 on one GPU, with `transformers` and with lm-eval.

    cargo build --release -p lmeval-bench --features cuda --bin shared-prefix
    python3 bench/gpu_prefix.py

The model is a LLaMA of 1.24 billion parameters in bf16 with random weights; the last four positions of each sequence are scored.
Needs torch and transformers. Times are medians of ten passes after three warm-up passes.
"""

import argparse
import pathlib
import re
import subprocess
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREFIX, REST, TEXTS, SCORED = 560, 80, 64, 4


def milliseconds(work):
    """Return the median time of a pass."""
    times = []
    for round in range(13):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if round > 2:
            times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def reference():
    """Time plain passes, and a pass with a manually shared prefix."""
    config = LlamaConfig(
        hidden_size=2048,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=8192,
        vocab_size=128256,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).eval()
    texts = torch.randint(0, config.vocab_size, (TEXTS, PREFIX + REST), device="cuda")
    texts[:, :PREFIX] = texts[:1, :PREFIX]

    def shared():
        past = model(texts[:1, :PREFIX], use_cache=True, logits_to_keep=1).past_key_values
        past.batch_repeat_interleave(TEXTS)
        model(texts[:, PREFIX:], past_key_values=past, logits_to_keep=SCORED)

    with torch.inference_mode():
        yield "transformers, all logits", milliseconds(lambda: model(texts, use_cache=False))
        yield "transformers, scored positions", milliseconds(
            lambda: model(texts, use_cache=False, logits_to_keep=SCORED)
        )
        yield "transformers, manually shared prefix", milliseconds(shared)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target/release/shared-prefix", type=pathlib.Path)
    given = parser.parse_args()
    printed = subprocess.run([given.binary, "cuda", "bf16"], check=True, capture_output=True, text=True).stdout
    print(printed)
    ours = float(re.search(r"one pass: +([0-9.]+) ms", printed)[1])
    for name, time in reference():
        print(f"{name:36} {time:8.2f} ms, {time / ours:.2f}x ours", flush=True)


if __name__ == "__main__":
    main()
