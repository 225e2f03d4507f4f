#!/usr/bin/env python3
"""Writes checkpoints of a tiny model without skills, for the examples of docs/watch.md.

    scripts/tiny_checkpoints.py FOLDER STEP…      the last one is only half there
"""

import pathlib
import random
import shutil
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "crates/lmeval-candle/tests/fixtures/llama"


def main() -> None:
    folder, *steps = sys.argv[1:]
    weights = (SOURCE / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(weights[:8], "little")
    for number, step in enumerate(steps):
        target = pathlib.Path(folder) / f"checkpoint-{step}"
        target.mkdir(parents=True)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(SOURCE / name, target)
        # Weights have two bytes each; some of them change places.
        pairs = [weights[place : place + 2] for place in range(start, len(weights), 2)]
        dice = random.Random(number)
        for place in dice.sample(range(len(pairs)), len(pairs) * number // 10):
            other = dice.randrange(len(pairs))
            pairs[place], pairs[other] = pairs[other], pairs[place]
        content = weights[:start] + b"".join(pairs)
        if number + 1 == len(steps):
            content = content[: len(content) // 2]
        (target / "model.safetensors").write_bytes(content)


if __name__ == "__main__":
    main()
