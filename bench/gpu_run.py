#!/usr/bin/env python3
"""Times `lm-eval run --model hf` on a GPU against `transformers`, end to end.

    cargo build --release -p lmeval-cli --features cuda
    python3 bench/gpu_run.py

The model is a LLaMA of 1.24 billion parameters in bf16 with random weights; the tokenizer has about a token per character. There
are three tasks: 5-shot questions with one-letter options (like MMLU), contexts with four endings (like HellaSwag), and greedy
generation; `gpu_check.py` adds the perplexity of long texts. `transformers` gets the recorded requests sorted by length, with the fastest of several batch sizes and one pass per
sequence; one-letter options of a question share a pass, as in the reference. Our time is that of the whole command, minus that of a
run with one document for the scoring tasks; the time of `transformers` covers only its passes. Log-likelihoods and generations are
compared. Needs torch and transformers.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = (ROOT / "README.md").read_text().split()
ADDED = 128
ROLLING = [{"metric": "word_perplexity"}]


def make_model(folder, given):
    """Write the model and its tokenizer."""
    config = LlamaConfig(
        hidden_size=2048 if given.layers > 2 else 64,
        num_hidden_layers=given.layers,
        num_attention_heads=32 if given.layers > 2 else 4,
        num_key_value_heads=8 if given.layers > 2 else 2,
        intermediate_size=8192 if given.layers > 2 else 128,
        vocab_size=128256,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        max_position_embeddings=8192,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(given.device):
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    source = ROOT / "crates/lmeval-candle/tests/fixtures/llama"
    shutil.copy(source / "tokenizer_config.json", folder)
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    # Give every token of the vocabulary a distinct string.
    vocabulary = tokenizer["model"]["vocab"]
    known = {*vocabulary.values(), *(token["id"] for token in tokenizer["added_tokens"])}
    vocabulary.update({f"[{token}]": token for token in range(config.vocab_size) if token not in known})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def make_tasks(folder, given):
    """Write the task files and their documents."""
    draws = random.Random(7)

    def words(count):
        return " ".join(draws.choice(WORDS).replace("`", "") for _ in range(count))

    def write(name, count, **more):
        with open(folder / f"{name}.jsonl", "w") as file:
            for index in range(count):
                row = {"q": f"{index}. {words(40)}", "o": [words(12) for _ in range(4)], "a": index % 4}
                file.write(json.dumps(row) + "\n")
        fields = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(folder / f"{name}.jsonl")}},
            "test_split": "test",
            "doc_to_text": "{{q}}",
            "doc_to_target": "{{a}}",
            **more,
        }
        (folder / f"{name}.yaml").write_text(json.dumps(fields))

    letters = [" A", " B", " C", " D"]
    asked = "{{q}} A {{o[0]}} B {{o[1]}} C {{o[2]}} D {{o[3]}} Answer:"
    shots = {"num_fewshot": 5, "fewshot_split": "test", "fewshot_config": {"sampler": "first_n"}}
    write("letters", given.docs, output_type="multiple_choice", doc_to_text=asked, doc_to_choice=letters, **shots)
    write("endings", given.docs, output_type="multiple_choice", doc_to_choice="{{o}}")
    settings = {"until": [], "max_gen_toks": ADDED, "do_sample": False}
    write("texts", given.docs // 4, output_type="generate_until", generation_kwargs=settings)
    # The documents of another task as texts of about 3,600 tokens.
    write("rolling", given.docs // 10, output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="{{q}}", metric_list=ROLLING)
    rows = [{"q": f"{index}. {words(600)}", "o": [], "a": 0} for index in range(given.docs // 10)]
    (folder / "rolling.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def ours(folder, task, given, output, limit=None):
    """Run a task. Return the seconds and the records in order."""
    arguments = f"pretrained={folder / 'model'},dtype={given.dtype},device={given.device}"
    command = [given.binary, "run", "--model", "hf", "--model_args", arguments + given.model_args, "--tasks", task]
    command += ["--include_path", folder, "--library", "none", "--output_path", output, "--log_samples", "--fresh"]
    command += ["--limit", str(limit)] if limit else []
    begin = time.perf_counter()
    done = subprocess.run([*command, "--progress", "json"], capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(done.stderr)
    facts = [json.loads(line) for line in done.stderr.splitlines() if '"tokens_asked"' in line]
    records = sorted(pathlib.Path(output).rglob(f"samples_{task}_*.jsonl"))[-1].read_text().splitlines()
    return seconds, [json.loads(line) for line in records], facts[-1] if facts else {}


class Reference:
    """Answers requests with `transformers`."""

    def __init__(self, folder, given):
        self.device = given.device
        dtype = getattr(torch, given.dtype)
        self.model = LlamaForCausalLM.from_pretrained(folder / "model", dtype=dtype).to(given.device).eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def timed(self, work):
        """Return the result of `work` and its seconds."""
        synchronize = torch.cuda.synchronize if self.device.startswith("cuda") else lambda: None
        synchronize()
        begin = time.perf_counter()
        result = work()
        synchronize()
        return result, time.perf_counter() - begin

    def pairs(self, records):
        """Encode the contexts and continuations of records."""
        pairs = []
        for record in records:
            for arguments in record["arguments"].values():
                context, continuation = arguments["arg_0"], arguments["arg_1"]
                # Trailing whitespace of a context belongs to the continuation, as in the reference.
                blanks = len(context) - len(context.rstrip())
                if blanks:
                    context, continuation = context[:-blanks], context[-blanks:] + continuation
                whole, length = self.encode(context + continuation), len(self.encode(context))
                pairs.append((whole[:length], whole[length:]))
        return pairs

    @torch.inference_mode()
    def score(self, pairs, size):
        """Compute log-likelihoods, with one pass for sequences that differ only in the last token."""
        passes = {}
        for index, (context, continuation) in enumerate(pairs):
            passes.setdefault(tuple(context + continuation[:-1]), []).append(index)
        order = sorted(passes, key=len, reverse=True)
        scores = [0.0] * len(pairs)
        for first in range(0, len(order), size):
            texts = order[first : first + size]
            longest = len(texts[0])
            batch = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts], device=self.device)
            logits = torch.log_softmax(self.model(batch, use_cache=False).logits.float(), dim=-1)
            for row, text in enumerate(texts):
                for index in passes[text]:
                    tail = pairs[index][1]
                    chosen = logits[row, len(text) - len(tail) : len(text)]
                    tokens = torch.tensor(tail, device=self.device)[:, None]
                    scores[index] = chosen.gather(1, tokens).sum()
        return [float(score) for score in scores]

    @torch.inference_mode()
    def generate(self, prompts, size):
        """Generate greedy continuations."""
        texts = [None] * len(prompts)
        order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
        for first in range(0, len(order), size):
            part = order[first : first + size]
            longest = len(prompts[part[0]])
            rows = [[0] * (longest - len(prompts[index])) + prompts[index] for index in part]
            mask = [[0] * (longest - len(prompts[index])) + [1] * len(prompts[index]) for index in part]
            made = self.model.generate(
                torch.tensor(rows, device=self.device),
                attention_mask=torch.tensor(mask, device=self.device),
                max_new_tokens=ADDED,
                do_sample=False,
                pad_token_id=0,
            )
            for index, row in zip(part, made.tolist()):
                texts[index] = row[longest:]
        return texts


def best(reference, work, sizes):
    """Return the fastest of several batch sizes, after a warm-up pass."""
    results = []
    for size in sizes:
        try:
            result, seconds = reference.timed(lambda: work(size))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            continue
        results.append((seconds, size, result))
    return min(results, key=lambda result: result[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target/release/lm-eval", type=pathlib.Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--docs", type=int, default=800)
    parser.add_argument("--layers", type=int, default=16, help="2 or fewer make a tiny model, to test the script")
    parser.add_argument("--sizes", default="16,32,64")
    parser.add_argument("--tasks", default="letters,endings,texts")
    parser.add_argument("--model-args", default="", help="additional model arguments, with a leading comma")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_model(folder / "model", given)
        make_tasks(folder, given)
        reference = None
        for task in given.tasks.split(","):
            start, _, _ = ours(folder, task, given, folder / "start", limit=1)
            seconds, records, facts = ours(folder, task, given, folder / "out")
            asked, computed = facts.get("tokens_asked", 0), facts.get("tokens_computed", 0)
            # A single sequence takes as many steps as all of them.
            net = seconds if task == "texts" else max(seconds - start, 1e-3)
            print(f"{task}: {seconds:.2f} s, start {start:.2f} s, {asked} tokens, {1 - computed / max(asked, 1):.0%} shared, ", end="")
            print(f"{asked / net:,.0f} tokens/s", flush=True)
            reference = reference or Reference(folder, given)
            if task == "texts":
                prompts = [reference.encode(record["arguments"]["gen_args_0"]["arg_0"]) for record in records]
                reference.generate(prompts[:4], 4)
                time_, size, found = best(reference, lambda size: reference.generate(prompts, size), sizes)
                mine = [record["resps"][0][0] for record in records]
                theirs = [reference.tokenizer.decode(tokens) for tokens in found]
                same = [os.path.commonprefix(pair) for pair in zip(mine, theirs)]
                share = sum(map(len, same)) / max(sum(map(len, mine)), 1)
                equal = sum(a == b for a, b in zip(mine, theirs))
                print(f"  {equal} of {len(mine)} generations are equal; {share:.0%} of the characters come before the first difference")
            else:
                pairs = reference.pairs(records)
                reference.score(pairs[:8], 4)
                time_, size, found = best(reference, lambda size: reference.score(pairs, size), sizes)
                mine = [float(answer[0][0]) for record in records for answer in record["resps"]]
                apart = [abs(a - b) for a, b in zip(mine, found)]
                length = max(len(tail) for _, tail in pairs)
                print(f"  log-likelihoods of up to {length} tokens: maximum difference {max(apart):.4f}, mean {sum(apart) / len(apart):.4f}")
            print(f"  transformers, batches of {size}: {time_:.2f} s, {time_ / net:.2f}x ours", flush=True)


if __name__ == "__main__":
    main()
