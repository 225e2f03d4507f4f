#!/usr/bin/env python3
"""Measures memory and time of `lm-eval run --model hf` with quantised weights on a GPU.

    cargo build --release -p lmeval-cli --features cuda
    python3 bench/gpu_quantised.py

The model is a LLaMA of 8 billion parameters with random weights, once in bf16 and then quantised: to 8-bit floats with a scale per block
of 128 x 128 weights, and to 4-bit integers (GPTQ) with a scale and a zero point per 128 weights. The task is multiple choice; its
documents are made of the words of the README. Memory is what the device lacks while the command runs, sampled every 10 ms, less what it
lacked before: once for a run of one document, whose cache is small, and once for the whole task. Log-likelihoods are compared with those
in bf16. Needs torch and safetensors.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import torch
from gpu_run import make_tasks
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUP = 128


def fields(given):
    """Return the configuration."""
    tiny = given.layers <= 2
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 256 if tiny else 4096,
        "intermediate_size": 512 if tiny else 14336,
        "num_hidden_layers": given.layers,
        "num_attention_heads": 4 if tiny else 32,
        "num_key_value_heads": 2 if tiny else 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def plain(name, weight):
    return {f"{name}.weight": weight}


def blocks(name, weight):
    """Quantise to 8-bit floats by blocks."""
    rows, columns = weight.shape
    split = weight.float().reshape(rows // GROUP, GROUP, columns // GROUP, GROUP)
    scales = split.abs().amax((1, 3)) / 448
    codes = (split / scales[:, None, :, None]).to(torch.float8_e4m3fn).reshape(rows, columns)
    return {f"{name}.weight": codes, f"{name}.weight_scale_inv": scales}


def packed(codes, axis):
    """Pack eight codes of four bits per word along an axis."""
    parts = codes.long().unflatten(axis, (-1, 8)).unbind(axis + 1)
    words = sum(part << (4 * index) for index, part in enumerate(parts))
    return (words - (words >> 31 << 32)).int()


def gptq(name, weight):
    """Quantise to 4-bit integers by groups of inputs."""
    split = weight.float().t().unflatten(0, (-1, GROUP))
    low, high = split.amin(1), split.amax(1)
    scales = ((high - low) / 15).half()
    zeros = (-low / scales.float()).round().clamp(1, 15)
    codes = (split / scales.float()[:, None] + zeros[:, None]).round().clamp(0, 15).flatten(0, 1)
    return {
        f"{name}.qweight": packed(codes, 0),
        # Stored zero points are smaller by one.
        f"{name}.qzeros": packed(zeros - 1, 1),
        f"{name}.scales": scales,
        f"{name}.g_idx": (torch.arange(weight.shape[1]) // GROUP).int(),
    }


FORMATS = {
    "bf16": (plain, None),
    "fp8": (blocks, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [GROUP, GROUP], "fmt": "e4m3"}),
    "int4": (
        gptq,
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": False, "checkpoint_format": "gptq"},
    ),
}


def make_model(folder, given, name):
    """Write the model in a format. Return the bytes of its tensors."""
    quantise, settings = FORMATS[name]
    config = fields(given)
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    width = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    draws = torch.Generator(given.device).manual_seed(7)

    def weight(rows, columns):
        made = torch.randn(rows, columns, generator=draws, device=given.device) * 0.02
        return made.bfloat16()

    def ones():
        return torch.ones(hidden, dtype=torch.bfloat16)

    folder.mkdir()
    shards, total = {}, 0

    def save(tensors, shard):
        nonlocal total
        file = f"model-{shard:05}.safetensors"
        save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, folder / file)
        shards.update(dict.fromkeys(tensors, file))
        total += sum(tensor.nbytes for tensor in tensors.values())

    outer = {f"{name}.weight": weight(vocabulary, hidden) for name in ["model.embed_tokens", "lm_head"]}
    save({**outer, "model.norm.weight": ones()}, 0)
    for layer in range(given.layers):
        prefix = f"model.layers.{layer}"
        tensors = {f"{prefix}.{norm}.weight": ones() for norm in ["input_layernorm", "post_attention_layernorm"]}
        for part, rows, columns in [
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.k_proj", width, hidden),
            ("self_attn.v_proj", width, hidden),
            ("self_attn.o_proj", hidden, hidden),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ]:
            tensors.update(quantise(f"{prefix}.{part}", weight(rows, columns)))
        save(tensors, layer + 1)
    index = {"metadata": {"total_size": total}, "weight_map": shards}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    more = {"quantization_config": settings} if settings else {}
    (folder / "config.json").write_text(json.dumps({**config, **more}))
    source = ROOT / "crates/lmeval-candle/tests/fixtures/llama"
    shutil.copy(source / "tokenizer_config.json", folder)
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    vocabulary_ = tokenizer["model"]["vocab"]
    known = {*vocabulary_.values(), *(token["id"] for token in tokenizer["added_tokens"])}
    vocabulary_.update({f"[{token}]": token for token in range(vocabulary) if token not in known})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    torch.cuda.empty_cache()
    return total


class Memory:
    """The most memory that other processes take while this is entered, in bytes."""

    def __init__(self):
        self.before, self.most, self.ends = self.taken(), 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def taken(self):
        free, all_ = torch.cuda.mem_get_info()
        return all_ - free

    def watch(self):
        while not self.ends.wait(0.01):
            self.most = max(self.most, self.taken() - self.before)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def run(folder, task, given, output, limit=None):
    """Run a task. Return the seconds, the most memory, the log-likelihoods and the tokens that were asked and computed."""
    arguments = f"pretrained={folder / 'model'},device={given.device}{given.model_args}"
    command = [given.binary, "run", "--model", "hf", "--model_args", arguments, "--tasks", task, "--include_path", folder]
    command += ["--library", "none", "--output_path", output, "--log_samples", "--fresh", "--progress", "json"]
    command += ["--limit", str(limit)] if limit else []
    with Memory() as memory:
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(done.stderr)
    facts = [json.loads(line) for line in done.stderr.splitlines() if '"tokens_asked"' in line]
    records = sorted(pathlib.Path(output).rglob(f"samples_{task}_*.jsonl"))[-1].read_text().splitlines()
    scores = [float(answer[0][0]) for record in map(json.loads, records) for answer in record["resps"]]
    tokens = [facts[-1].get(name, 0) for name in ["tokens_asked", "tokens_computed"]] if facts else [0, 0]
    return seconds, memory.most, scores, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target/release/lm-eval", type=pathlib.Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--docs", type=int, default=400)
    parser.add_argument("--layers", type=int, default=32, help="2 or fewer make a tiny model, to test the script")
    parser.add_argument("--formats", default="bf16,fp8,int4")
    parser.add_argument("--task", default="endings", choices=["endings", "letters"])
    parser.add_argument("--model-args", default="", help="additional model arguments, with a leading comma")
    given = parser.parse_args()
    torch.zeros(1, device=given.device)
    expected = None
    for name in given.formats.split(","):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            begin = time.perf_counter()
            size = make_model(folder / "model", given, name)
            make_tasks(folder, given)
            print(f"{name}: {size / 1e6:,.0f} MB of tensors, written in {time.perf_counter() - begin:.1f} s", flush=True)
            run(folder, given.task, given, folder / "warm", limit=1)
            start, least, _, _ = run(folder, given.task, given, folder / "start", limit=1)
            seconds, most, scores, tokens = run(folder, given.task, given, folder / "out")
            print(f"  one document: {start:.2f} s, {least / 1e6:,.0f} MB ({least / size:.2f} of the tensors)")
            print(f"  whole task: {seconds:.2f} s, {most / 1e6:,.0f} MB, {tokens[0]} tokens asked, {tokens[1]} computed")
            expected = expected or scores
            apart = [abs(a - b) for a, b in zip(scores, expected, strict=True)]
            mean = sum(map(abs, expected)) / len(expected)
            print(f"  log-likelihoods: {sum(apart) / len(apart):.4f} from the first format on average, of {mean:.1f}", flush=True)


if __name__ == "__main__":
    main()
