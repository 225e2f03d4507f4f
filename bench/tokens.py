#!/usr/bin/env python3
"""Tokenizes lines of mixed scripts with `transformers` and with lm-eval, and compares every line.

    python3 -m venv .venv && .venv/bin/pip install transformers==5.22.2 sentencepiece==0.2.3 mistral-common==1.13.1 protobuf
    cargo build --release -p lmeval-bench --bin tokenize-lines
    python3 bench/tokens.py --python .venv/bin/python --binary target/release/tokenize-lines \\
        $DATA/tokenizer.model.v1:mistral $DATA/tekken_240911.json:mistral

with the folder `mistral_common/data` of the environment as `DATA`.

Each vocabulary is a file (a SentencePiece model, a `tekken.json` or a `tokenizer.json`), the `model_type` and optionally the
tokenizer class of its model. The lines are the same in every run. They are words of twenty scripts, numbers, code, emoji, combining
marks, odd whitespace and control characters; with `--text`, the lines of a file come first. Tokens with and without special ones and
both ways of decoding must be equal. The exit status is 1 if any differs.

Special tokens are left out of lines for `tekken.json`: there, lm-eval recognises them, as chat templates need it, and `mistral-common`
does not.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

# Ranges of letters by script.
SCRIPTS = [
    [(0x61, 0x7A)],
    [(0x41, 0x5A), (0x61, 0x7A)],
    [(0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x17F), (0x61, 0x7A)],
    [(0x391, 0x3A1), (0x3B1, 0x3C9)],
    [(0x410, 0x44F)],
    [(0x531, 0x556), (0x561, 0x587)],
    [(0x5D0, 0x5EA)],
    [(0x620, 0x64A), (0x64B, 0x652)],
    [(0x904, 0x939), (0x93E, 0x94D)],
    [(0x985, 0x9B9), (0x9BE, 0x9CD)],
    [(0xB85, 0xBB9), (0xBBE, 0xBCD)],
    [(0xE01, 0xE3A), (0xE40, 0xE4E)],
    [(0x10D0, 0x10FA)],
    [(0x1200, 0x1248)],
    [(0xAC00, 0xD7A3)],
    [(0x1100, 0x1112), (0x1161, 0x1175)],
    [(0x3041, 0x3096)],
    [(0x30A1, 0x30FA), (0xFF66, 0xFF9D)],
    [(0x4E00, 0x9FA5)],
    [(0xFF01, 0xFF5E)],
    [(0x1F300, 0x1F64F), (0x200D, 0x200D), (0xFE0F, 0xFE0F), (0x1F3FB, 0x1F3FF)],
    [(0x61, 0x7A), (0x300, 0x36F)],
    [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
    [(0x30, 0x39)],
    [(0x2000, 0x206F), (0x2070, 0x2BFF)],
    [(0x20000, 0x2A6D6), (0x1D400, 0x1D7FF)],
    [(0x00, 0x1F), (0x7F, 0xA0), (0xFFFD, 0xFFFD)],
]
WORDS = "the of and to in is that it was for on are with they be at one have this from or had by but what all were when".split()
CODE = ["def f(x):\n    return x", "{'a': [1, 2.5e-3]}", "if (a != b) {\n\t\tc++;\n\t}", "https://a.b/c?d=%20e#f", "I'll don't WE'RE"]
BETWEEN = [" "] * 12 + ["", "  ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2581", ", ", ". "]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<0x0A>", "<extra_id_0>", "<bos>", "[INST]", "<|endoftext|>"]


def make_lines(count, special):
    """Make the lines, always the same."""
    rng = random.Random(34)
    lines = []
    for _ in range(count):
        own = rng.sample(SCRIPTS, rng.randint(1, 3))
        pieces = [rng.choice(["", "", "", " ", "\n"])]
        for _ in range(rng.randint(0, 14)):
            kind = rng.random()
            if kind < 0.3:
                pieces.append(rng.choice(WORDS))
            elif kind < 0.35:
                pieces.append(rng.choice(CODE))
            elif special and kind < 0.37:
                pieces.append(rng.choice(SPECIAL))
            else:
                ranges = rng.choice(own)
                letters = (chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 9)))
                pieces.append("".join(letters))
            pieces.append(rng.choice(BETWEEN))
        lines.append("".join(pieces))
    return lines


def reference(folder, lines):
    """Print tokens and texts of `transformers`; runs under `--python`."""
    import transformers

    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for line in pathlib.Path(lines).read_text().splitlines():
        text = json.loads(line)
        tokens = tokenizer(text)["input_ids"]
        plain = tokenizer(text, add_special_tokens=False)["input_ids"]
        texts = [tokenizer.decode(tokens), tokenizer.decode(tokens, skip_special_tokens=True)]
        print(json.dumps([tokens, plain, texts]))


def write_folder(folder, vocabulary):
    """Write the files of a tokenizer, and return whether special tokens in text are compared."""
    path, kind, *rest = vocabulary.split(":")
    is_json = path.endswith(".json")
    is_whole = is_json and "model" in json.loads(pathlib.Path(path).read_text())
    name = "tokenizer.json" if is_whole else "tekken.json" if is_json else "tokenizer.model"
    if kind in ("t5", "mt5") and not is_json:
        name = "spiece.model"
    shutil.copy(path, folder / name)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    fields = {"tokenizer_class": rest[0]} if rest else {}
    if rest[1:]:
        fields.update(json.loads(":".join(rest[1:])))
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))
    return name != "tekken.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocabularies", nargs="+", metavar="FILE:TYPE[:CLASS[:FIELDS]]")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--binary", default="target/release/tokenize-lines")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--text", type=pathlib.Path, help="a file of lines to compare first")
    options = parser.parse_args()
    failed = False
    for vocabulary in options.vocabularies:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "tokenizer"
            folder.mkdir()
            has_special = write_folder(folder, vocabulary)
            lines = options.text.read_text().splitlines() if options.text else []
            lines = (lines + make_lines(options.lines, has_special))[: options.lines]
            path = pathlib.Path(scratch) / "lines"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            script = [options.python, __file__, "--reference", folder, path]
            expected = subprocess.run(script, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
            found = subprocess.run([options.binary, folder, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if found.returncode:
                print(f"{vocabulary}: {found.stderr.strip()}")
                failed = True
                continue
            pairs = list(zip(lines, map(json.loads, expected), map(json.loads, found.stdout.rstrip("\n").split("\n")), strict=True))
            different = [pair for pair in pairs if pair[1] != pair[2]]
            failed |= bool(different)
            tokens = sum(len(pair[1][0]) for pair in pairs)
            print(f"{vocabulary}: {len(different)} of {len(pairs)} lines differ, {tokens} tokens; {found.stderr.strip()}", flush=True)
            for line, theirs, ours in different[:3]:
                print(f"  {line!r}\n    {theirs}\n    {ours}")
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1] == "--reference":
        reference(*sys.argv[2:4])
    else:
        sys.exit(main())
