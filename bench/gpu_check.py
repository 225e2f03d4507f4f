#!/usr/bin/env python3
"""Checks `--model hf` on a GPU in less than five minutes: right numbers, equal numbers, speed. Prints PASS or FAIL.

    scripts/build-cuda
    python3 bench/gpu_check.py --binary target/cuda/lm-eval

1. Twelve small models of different architectures with random weights: log-likelihoods and greedy texts equal those of `transformers` in
   float32, within 2e-5 per token; in bfloat16 within its noise.
2. A LLaMA of 1.24 billion parameters in bfloat16: `lm-eval verify` finds the same receipt for batches of 1, 7, 64 and 256, with two workers
   on the GPU, and for a run that was killed and resumed; the answers are the same for documents in reverse and beside others. The same for
   log-likelihoods of a small model in float32.
3. The time of that model after its start against the limit of the GPU: the operations of its matrix products and of attention at the rate
   of a large product, and for each step of generation the bytes of weights and keys at the rate of a copy. `--layers 32 --hidden 4096`
   measures a model of 8 billion parameters, `--transformers` times the endings there, too, and `--json FILE` writes all figures.

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
VOCABULARY = 128256
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


def command_of(folder, task, given, output, limit=None, more="", fresh=True):
    """The command that runs a task."""
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
        "--progress",
        "json",
    ]
    command += ["--fresh"] if fresh else []
    return command + (["--limit", str(limit)] if limit else [])


def ours(folder, task, given, output, limit=None, more="", fresh=True):
    """Run a task. Return the seconds, the records, and the facts of the last progress line."""
    command = command_of(folder, task, given, output, limit, more, fresh)
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if '"level": "error"' in line]
        check(False, f"{task} with{more or ' the defaults'}: {errors or done.stderr[-500:]}")
        raise Failed
    facts = [json.loads(line) for line in done.stderr.splitlines() if '"tokens_asked"' in line]
    records = (
        sorted(pathlib.Path(output).rglob(f"samples_{task.split(':')[0]}_*.jsonl"))[-1]
        .read_text()
        .splitlines()
    )
    return seconds, [json.loads(line) for line in records], facts[-1] if facts else {}


def answers(records):
    """Return the answers by document, or by question if the documents are in another order."""
    return {record["doc"]["q"]: record["resps"] for record in records}


def verified(folder, task, given, own, first):
    """Whether `lm-eval verify` finds that a run is whole, and the same run as the first one."""
    command = [given.binary, "verify", own, "--include_path", folder, "--library", "none"]
    command += ["--against", first] if first != own else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"     {task}: {(done.stdout + done.stderr).strip()[:600]}")
    return done.returncode == 0


def killed(folder, task, given, output):
    """Start a run and kill it in the middle. Return whether it was still running."""
    command = command_of(folder, task, given, output, more=",batch_size=8")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in process.stderr:
        if line.startswith("{") and json.loads(line).get("done", 0) > 0:
            break
    is_running = process.poll() is None
    process.kill()
    process.wait()
    return is_running


def receipts(folder, given, task, limit):
    """Compare the receipts of a task."""
    first = folder / f"{task}-{given.dtype}-first"
    ours(folder, task, given, first, limit=limit)
    check(
        verified(folder, task, given, first, first), f"{task} {given.dtype}: the receipt is that of the run"
    )
    for size in [1, 7, 64, 256]:
        own = folder / f"{task}-{given.dtype}-{size}"
        ours(folder, task, given, own, limit=limit, more=f",batch_size={size}")
        check(
            verified(folder, task, given, own, first),
            f"{task} {given.dtype}: equal receipts in batches of {size}",
        )
    own = folder / f"{task}-{given.dtype}-two"
    ours(folder, task, given, own, limit=limit, more=",data_parallel=2")
    check(verified(folder, task, given, own, first), f"{task} {given.dtype}: equal receipts with two workers")


def batches(folder, given, _):
    """Compare the answers in batches of any size."""
    for task in ["endings", "texts"]:
        receipts(folder, given, task, 24)
        _, records, _ = ours(folder, task, given, folder / "whole", limit=24)
        expected = answers(records)
        for name, limit in [("more", 40), (f"reversed_{task}", None)]:
            other = task if limit else name
            _, records, _ = ours(folder, other, given, folder / name, limit=limit)
            found = {key: value for key, value in answers(records).items() if key in expected}
            check(
                found == expected,
                f"{task}: equal answers {'beside other documents' if limit else 'in reverse order'}",
            )
    ours(folder, "endings", given, folder / "all")
    was_running = killed(folder, "endings", given, folder / "killed")
    ours(folder, "endings", given, folder / "killed", more=",batch_size=8", fresh=False)
    is_equal = verified(folder, "endings", given, folder / "killed", folder / "all")
    check(is_equal and was_running, "endings: equal receipts after a kill")


def reverse(folder):
    """Write the tasks of the first documents in reverse order."""
    for task in ["endings", "texts"]:
        fields = json.loads((folder / f"{task}.yaml").read_text())
        rows = (folder / f"{task}.jsonl").read_text().splitlines()[:24]
        (folder / f"reversed_{task}.jsonl").write_text("".join(f"{row}\n" for row in reversed(rows)))
        fields["task"] = f"reversed_{task}"
        fields["dataset_kwargs"] = {"data_files": {"test": str(folder / f"reversed_{task}.jsonl")}}
        (folder / f"reversed_{task}.yaml").write_text(json.dumps(fields))


def passes(task, records, encode):
    """The tokens that a perfect run computes, the keys that they attend to, and the rows of logits."""
    sequences, scored = [], 0
    for record in records:
        seen = set()
        for arguments in record["arguments"].values():
            if task == "texts":
                sequences.append(encode(arguments["arg_0"]))
                continue
            if task == "rolling":
                text = encode(arguments["arg_1"])
                sequences.append([1, *text[:-1]])
                scored += len(text)
                continue
            whole, context = encode(arguments["arg_0"] + arguments["arg_1"])[:-1], encode(arguments["arg_0"])
            sequences.append(whole)
            # Rows with the same tokens before them are one.
            rows = {tuple(whole[: end + 1]) for end in range(len(context) - 1, len(whole))}
            scored += len(rows - seen)
            seen |= rows
    tokens, keys, before = 0, 0, []
    for sequence in sorted(sequences):
        common = next((index for index, pair in enumerate(zip(sequence, before)) if pair[0] != pair[1]), None)
        common = min(len(sequence), len(before)) if common is None else common
        tokens += len(sequence) - common
        keys += sum(range(common + 1, len(sequence) + 1))
        before = sequence
    return tokens, keys, scored, sequences


def limit_of(task, records, given, encode, peak, copy):
    """The seconds that a task takes at the rates of a large product and of a copy."""
    hidden, layers = given.hidden, given.layers
    wide, kv = given.wide, 8 * (64 if hidden == 2048 else 128)
    weights = layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * wide)
    tokens, keys, scored, sequences = passes(task, records, encode)
    work = 2 * tokens * weights + 4 * layers * hidden * keys + 2 * scored * hidden * VOCABULARY
    seconds = work / peak
    if task == "texts":
        # Each step reads all weights, and the keys and values so far.
        for step in range(gpu_run.ADDED):
            read = 2 * (weights + hidden * VOCABULARY)
            read += sum(2 * 2 * kv * layers * (len(sequence) + step) for sequence in sequences)
            seconds += read / copy
    return seconds


def speeds(folder, given, peaks):
    """Time the large model against the limit."""
    tokenizer = Tokenizer.from_file(str(given.folder / "tokenizer.json"))
    files = sorted(given.folder.glob("*.safetensors"))
    begin = time.perf_counter()
    for file in files:
        with open(file, "rb", buffering=0) as opened:
            room = bytearray(64 << 20)
            while opened.readinto(room):
                pass
    found = {"read": time.perf_counter() - begin}
    print(
        f"     reading {sum(file.stat().st_size for file in files) / 1e9:.1f} GB of weights: {found['read']:.2f} s"
    )
    for task in ["letters", "endings", "texts", "rolling"]:
        starts, times, facts = [], [], {}
        for round in range(given.rounds):
            # The start of any task is that of a question.
            starts.append(ours(folder, "letters", given, folder / f"start-{round}", limit=1)[0])
            seconds, records, facts = ours(folder, task, given, folder / f"run-{round}")
            times.append(seconds)
        start, seconds = statistics.median(starts), statistics.median(times)
        limit = limit_of(task, records, given, lambda text: tokenizer.encode(text).ids, *peaks)
        computed = facts.get("tokens_computed", 0)
        found[task] = {"seconds": seconds, "start": start, "limit": limit, "tokens": computed}
        print(
            f"     {task}: {seconds:.2f} s, start {start:.2f} s, {computed:,} tokens computed, limit {limit:.2f} s, ",
            end="",
        )
        print(f"{(seconds - start) / max(limit, 1e-9):.2f}x of the limit after the start", flush=True)
        if task == "endings" and given.transformers:
            theirs = transformers_seconds(given, records)
            found["transformers"] = {"endings": theirs}
            print(f"     endings with transformers: {theirs:.2f} s, {theirs / seconds:.1f}x", flush=True)
    return found


def transformers_seconds(given, records):
    """The time of `transformers` for scoring alone, without its start, with the faster of two batch sizes."""
    reference = gpu_run.Reference.__new__(gpu_run.Reference)
    reference.device = "cuda:0"
    model = AutoModelForCausalLM.from_pretrained(given.folder, dtype=torch.bfloat16)
    reference.model = model.to("cuda:0").eval()
    reference.tokenizer = Tokenizer.from_file(str(given.folder / "tokenizer.json"))
    pairs = reference.pairs(records)
    reference.score(pairs[:32], 32)
    times = [reference.timed(lambda: reference.score(pairs, size))[1] for size in [32, 64]]
    del reference, model
    torch.cuda.empty_cache()
    return min(times)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", default=gpu_run.ROOT / "target/cuda/lm-eval", type=pathlib.Path)
    parser.add_argument("--docs", type=int, default=400)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--transformers", action="store_true", help="time the endings with transformers, too")
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
        reverse(folder)
        if "shapes" in only:
            shapes(folder, given)
            given.folder, given.dtype = folder / "llama", "float32"
            for task in ["endings", "texts"]:
                receipts(folder, given, task, 12)
        if "batches" in only or "speeds" in only:
            make_large(folder / "large", given)
            given.folder, given.dtype = folder / "large", "bfloat16"
        for name, work in [("batches", batches), ("speeds", speeds)]:
            if name in only:
                try:
                    figures[name] = work(folder, given, (product, copy))
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
        vocab_size=VOCABULARY,
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
    write_tokenizer(folder, VOCABULARY)


if __name__ == "__main__":
    main()
