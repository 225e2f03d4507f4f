"""Checkpoints, recordings and helpers for the tests of `HFLM`."""

from __future__ import annotations

import importlib.util
import json
import os
import unittest
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

from tests import engine

# oneDNN uses bfloat16 instructions that some virtual machines announce but do not have.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

CHECKPOINTS = engine.REPOSITORY / "crates/lmeval-candle/tests/fixtures"
RECORDED = engine.REPOSITORY / "crates/lmeval-candle/tests/data"
LLAMA = CHECKPOINTS / "llama"

SHARED = [("word " * 12 + "and", f" {letter}") for letter in "abcd"] + [
    ("word " * 12 + "and", " the answer is"),
    ("Question: this is", " the answer"),
    ("Question: this is", " a"),
    ("Question: this it", " the other answer"),
    ("Question: this it", " b"),
    ("", " b c"),
    ("x y z " * 50, " b c"),
]


def set_up() -> None:
    """Use the debug binary; without torch, skip the module and name the command that runs it."""
    if importlib.util.find_spec("torch") is None:
        if os.environ.get("CI") == "true" and not os.environ.get("LM_EVAL_TORCH_PYTHON"):
            raise AssertionError(
                "The tests of `HFLM` need torch: `scripts/test` installs it into `.torchenv`"
            )
        raise unittest.SkipTest("torch is not installed here; `scripts/test` runs these tests in `.torchenv`")
    engine.set_up()
    import torch

    # These models are too small for more threads, which would only wait for each other.
    torch.set_num_threads(1)


def load(folder: Path = LLAMA, **arguments: Any) -> Any:
    """Load a checkpoint as an `HFLM`, in 32 bits."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(folder), **{"device": "cpu", "dtype": "float32", **arguments})


def live(folder: Path = LLAMA) -> tuple[Any, Any]:
    """Return a model object and its tokenizer."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def ask(method: Any, *requests: tuple[Any, ...]) -> list[Any]:
    """Call a method of a model with requests, and return its answers."""
    kind = method.__name__
    instances = [
        Instance(request_type=kind, doc={}, arguments=arguments, idx=0, metadata=("t", number, 1))
        for number, arguments in enumerate(requests)
    ]
    answers: list[Any] = method(instances, disable_tqdm=True)
    return answers


def recorded(name: str) -> Any:
    """Return the recorded answers of the reference."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def choices(count: int = 6) -> dict[str, Any]:
    """Return the definition of a multiple-choice task."""
    documents = [{"q": "word " * n + "this is", "a": n % 3} for n in range(count)]
    return {
        "task": "choices",
        "custom_dataset": lambda **_: {"test": documents},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": ["the answer", "b", "Question answer the"],
        "doc_to_target": "a",
    }


class HFLMTestCase(unittest.TestCase):
    """Compares answers."""

    def assert_scores(self, found: list[Any], expected: list[Any], within: float) -> None:
        """Check log-likelihoods within a tolerance, and greedy flags."""
        for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            self.assertAlmostEqual(
                mine[0], theirs[0], delta=within * max(1.0, abs(theirs[0]) / 20), msg=number
            )
            self.assertEqual(mine[1], theirs[1], number)
