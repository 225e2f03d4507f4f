#!/usr/bin/env python3
"""Checks `--model hf` on a GPU in less than five minutes: right numbers, equal numbers, speed. Prints PASS or FAIL.

    scripts/build-cuda
    python3 bench/gpu_check.py --binary target/cuda/lm-eval

1. Twelve small models of different architectures with random weights: log-likelihoods and greedy texts equal those of `transformers` in
   float32, within 2e-5 per token; in bfloat16 within its noise.
2. A LLaMA of 1.24 billion parameters in bfloat16: log-likelihoods and texts are equal to the last bit for batches of 1, 7, 64 and 256,
   for the documents in reverse, and with two workers on the GPU.
3. The time of that model after its start against the limit of the GPU: the time of its products at the rate of a large product.
   `--layers 32 --hidden 4096` measures a model of 8 billion parameters, and `--json FILE` writes all figures.

Needs torch and transformers.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_run
import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 256,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SHAPES = {
    "llama": {},
    "mistral": {"sliding_window": 64},
    "qwen2": {},
    "qwen3": {},
    "gemma2": {"sliding_window": 64, "query_pre_attn_scalar": 32},
    "gemma3_text": {"sliding_window": 64, "query_pre_attn_scalar": 32},
    "phi3": {"original_max_position_embeddings": 4096},
    "olmo2": {},
    "gpt_neox": {},
    "gpt2": {"n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 4096},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "stablelm": {},
}
FAILED = []


class Failed(Exception):
    """A run that failed, which has been reported."""


def check(is_right, what):
    """Print a line, and remember failures."""
    print(f"{'ok  ' if is_right else 'FAIL'} {what}", flush=True)
    if not is_right:
        FAILED.append(what)


def peaks():
    """Measure the rate of a large product and of a copy."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    big = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)

    def rate(work, amount):
        times = []
        for _ in range(12):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return amount / statistics.median(times[2:])

    return rate(lambda: a @ a, 2 * 8192**3), rate(lambda: big.clone(), 2 * big.numel())


def write_tokenizer(folder, size):
    """Write a tokenizer with a string for each token."""
    source = gpu_run.ROOT / "crates/lmeval-candle/tests/fixtures/llama"
    (folder / "tokenizer_config.json").write_text((source / "tokenizer_config.json").read_text())
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    known = {*vocabulary.values(), *(token["id"] for token in tokenizer["added_tokens"])}
    vocabulary.update({f"[{token}]": token for token in range(size) if token not in known})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


class Small(gpu_run.Reference):
    """A small model in float32."""

    def __init__(self, folder):
        self.device = "cuda:0"
        self.model = (
            AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
            .to(self.device)
            .eval()
        )
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))


def shapes(folder, given):
    """Compare the small models with `transformers`."""
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, more in SHAPES.items():
        try:
            shape(folder, given, name, more)
        except Failed:
            continue


def shape(folder, given, name, more):
    """Compare a small model with `transformers`."""
    model = folder / name
    fields = {key: value for key, value in {**SMALL, **more}.items()}
    torch.manual_seed(1)
    config = AutoConfig.for_model(name, **fields)
    # Larger than usual, so that rounding has something to change.
    config.initializer_range = 0.2
    AutoModelForCausalLM.from_config(config).float().save_pretrained(model)
    write_tokenizer(model, SMALL["vocab_size"])
    reference = Small(model)
    for dtype in ["float32", "bfloat16"]:
        given.dtype, given.model_args, given.folder = dtype, "", model
        worst, texts = 0.0, 0.0
        for task in ["endings", "texts"]:
            _, records, _ = ours(folder, task, given, folder / f"{name}-{dtype}", limit=6)
            if task == "texts":
                prompts = [reference.encode(record["arguments"]["gen_args_0"]["arg_0"]) for record in records]
                theirs = [reference.tokenizer.decode(tokens) for tokens in reference.generate(prompts, 1)]
                texts = sum(record["resps"][0][0] == text for record, text in zip(records, theirs)) / len(
                    records
                )
            else:
                pairs = reference.pairs(records)
                mine = [float(answer[0][0]) for record in records for answer in record["resps"]]
                theirs = reference.score(pairs, 1)
                worst = max(abs(a - b) / len(tail) for a, b, (_, tail) in zip(mine, theirs, pairs))
        limit = 2e-5 if dtype == "float32" else 0.2
        is_right = worst < limit and (dtype == "bfloat16" or texts == 1)
        check(is_right, f"{name} {dtype}: {worst:.1e} per token, {texts:.0%} of the texts equal")


def ours(folder, task, given, output, limit=None, more=""):
    """Run a task. Return the seconds, the records, and the facts of the last progress line."""
    arguments = f"pretrained={given.folder},dtype={given.dtype},device=cuda:0{more}"
    command = [
        given.binary,
        "run",
        "--model",
        "hf",
        "--model_args",
        arguments,
        "--tasks",
        task,
        "--include_path",
        folder,
    ]
    command += [
        "--library",
        "none",
        "--output_path",
        output,
        "--log_samples",
        "--fresh",
        "--progress",
        "json",
    ]
    command += ["--limit", str(limit)] if limit else []
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if '"level": "error"' in line]
        check(False, f"{task} with {arguments}: {errors or done.stderr[-500:]}")
        raise Failed
    facts = [json.loads(line) for line in done.stderr.splitlines() if '"tokens_asked"' in line]
    records = (
        sorted(pathlib.Path(output).rglob(f"samples_{task.split(':')[0]}_*.jsonl"))[-1]
        .read_text()
        .splitlines()
    )
    return seconds, [json.loads(line) for line in records], facts[-1] if facts else {}


def answers(records):
    """Return the answers by document."""
    return {record["doc_id"]: record["resps"] for record in records}


def batches(folder, given, _):
    """Compare the answers in batches of any size."""
    for task in ["endings", "texts"]:
        _, records, _ = ours(folder, task, given, folder / "whole", limit=24)
        expected = answers(records)
        for size in [1, 7, 64, 256]:
            _, records, _ = ours(
                folder, task, given, folder / f"size-{size}", limit=24, more=f",batch_size={size}"
            )
            check(answers(records) == expected, f"{task}: equal answers in batches of {size}")
        _, records, _ = ours(folder, task, given, folder / "more", limit=40)
        check(
            {key: value for key, value in answers(records).items() if key < 24} == expected,
            f"{task}: equal answers beside other documents",
        )
    _, records, _ = ours(folder, "endings", given, folder / "two", limit=24, more=",data_parallel=2")
    _, alone, _ = ours(folder, "endings", given, folder / "one", limit=24)
    check(answers(records) == answers(alone), "endings: equal answers with two workers")


def speeds(folder, given, peak):
    """Time the large model against the limit."""
    hidden, layers = given.hidden, given.layers
    per_layer = hidden * hidden * 2 + hidden * (hidden // 4) * 2 + 3 * hidden * given.wide
    found = {}
    for task in ["letters", "endings", "texts"]:
        starts, times, facts = [], [], {}
        for round in range(given.rounds):
            starts.append(ours(folder, task, given, folder / f"start-{round}", limit=1)[0])
            seconds, records, facts = ours(folder, task, given, folder / f"run-{round}")
            times.append(seconds)
        start, seconds = statistics.median(starts), statistics.median(times)
        computed = facts.get("tokens_computed", 0)
        scored = (
            sum(len(record["resps"]) for record in records) * {"letters": 1, "endings": 70, "texts": 0}[task]
        )
        work = 2 * computed * per_layer * layers + 2 * scored * hidden * 128256
        limit = work / peak
        found[task] = {"seconds": seconds, "start": start, "limit": limit, "tokens": computed}
        print(
            f"     {task}: {seconds:.2f} s, start {start:.2f} s, {computed:,} tokens computed, products alone {limit:.2f} s, ",
            end="",
        )
        print(f"{(seconds - start) / max(limit, 1e-9):.2f}x of the limit after the start", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", default=gpu_run.ROOT / "target/cuda/lm-eval", type=pathlib.Path)
    parser.add_argument("--docs", type=int, default=400)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="shapes,batches,speeds")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    given.wide = 8192 if given.hidden == 2048 else 14336
    only = given.only.split(",")
    product, copy = peaks()
    print(
        f"     {torch.cuda.get_device_name()}: products {product / 1e12:.0f} TFLOP/s, copies {copy / 1e12:.2f} TB/s",
        flush=True,
    )
    figures = {"products": product, "copies": copy}
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gpu_run.make_tasks(folder, given)
        if "shapes" in only:
            shapes(folder, given)
        if "batches" in only or "speeds" in only:
            make_large(folder / "large", given)
            given.folder, given.dtype = folder / "large", "bfloat16"
        for name, work in [("batches", batches), ("speeds", speeds)]:
            if name in only:
                try:
                    figures[name] = work(folder, given, product)
                except Failed:
                    continue
    figures["seconds"] = time.perf_counter() - begin
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{'FAIL' if FAILED else 'PASS'} after {figures['seconds']:.0f} s")
    sys.exit(bool(FAILED))


def make_large(folder, given):
    """Write a LLaMA with random weights in bfloat16."""
    config = AutoConfig.for_model(
        "llama",
        hidden_size=given.hidden,
        num_hidden_layers=given.layers,
        num_attention_heads=given.hidden // (64 if given.hidden == 2048 else 128),
        num_key_value_heads=8,
        intermediate_size=given.wide,
        vocab_size=128256,
        rms_norm_eps=1e-5,
        tie_word_embeddings=given.hidden == 2048,
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
    torch.set_default_dtype(torch.float32)
    write_tokenizer(folder, 128256)


if __name__ == "__main__":
    main()
