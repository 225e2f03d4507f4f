"""`--model hf` for models that the native engine cannot run: the engine starts `HFLM` on torch, and says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests import engine, hflm


def setUpModule() -> None:
    """Need torch."""
    hflm.set_up()


class Fallback(unittest.TestCase):
    """Whole commands."""

    def setUp(self) -> None:
        """Make a folder to work in."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def run_hf(self, model_args: str, *more: str, command: list[str] | None = None, **environment: str) -> tuple[int, str, Any]:
        """Run four documents of two tasks; return the status, standard error and the results."""
        output = tempfile.mkdtemp(dir=self.folder)
        words = ["--model", "hf", "--model_args", model_args, "--tasks", "demo_capitals,demo_translate"]
        words += ["--limit", "4", "--output_path", output, "--log_samples", *more]
        done = subprocess.run(
            [*(command or [engine.binary_path(), "run", "--python", sys.executable]), *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(engine.REPOSITORY / "python"), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        found = sorted(Path(output).rglob("results_*.json"))
        results = json.loads(found[-1].read_text()) if found else None
        return done.returncode, done.stderr, results

    def lines(self, results: Any) -> Any:
        """Return the scores of results."""
        return {task: {key: value for key, value in one.items() if "," in key} for task, one in results["results"].items()}

    def checkpoint(self, config: Any, model: Any) -> Path:
        """Save a random model with the tokenizer of the fixture."""
        import torch

        torch.manual_seed(1)
        path = self.folder / "checkpoint"
        model(config).save_pretrained(path)
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            if (hflm.LLAMA / name).is_file():
                shutil.copy(hflm.LLAMA / name, path)
        return path

    def test_unknown_architecture(self) -> None:
        """A class that the native engine lacks runs on torch, with the same scores as an `HFLM` object."""
        import transformers
        from lm_eval import simple_evaluate

        config = transformers.MambaConfig(vocab_size=512, hidden_size=16, state_size=4, num_hidden_layers=2)
        path = self.checkpoint(config, transformers.MambaForCausalLM)
        arguments = f"pretrained={path},dtype=float32"
        status, stderr, results = self.run_hf(arguments, "--device", "cpu")
        self.assertEqual(status, 0, stderr)
        self.assertRegex(stderr, r"Using torch [\d.]+.*, transformers [\d.]+ of `.*`: .*MambaForCausalLM")
        self.assertIn("torch ", results["config"]["engine"])
        lm = hflm.load(path)
        tasks = ["demo_capitals", "demo_translate"]
        of_object = simple_evaluate(model=lm, tasks=tasks, limit=4, verbosity="ERROR")
        self.assertEqual(self.lines(results), self.lines(of_object))
        status, stderr, _ = self.run_hf(arguments + ",engine=native")
        self.assertEqual(status, 1)
        self.assertRegex(stderr, r"MambaForCausalLM[\s\S]*hint: Without `engine=native`")

    def test_arguments_of_torch(self) -> None:
        """Arguments that only torch has select it; `engine=torch` selects it for any model."""
        expected = None
        for more in ("", ",engine=torch", ",parallelize=True", ",load_in_8bit=False,softmax_dtype=float32,mixed_precision_dtype=None"):
            status, stderr, results = self.run_hf(f"pretrained={hflm.LLAMA},dtype=float32{more}")
            self.assertEqual(status, 0, stderr)
            self.assertEqual("Using torch" in stderr, "engine" in more or "parallelize" in more, stderr)
            expected = expected or self.lines(results)
            self.assertEqual(self.lines(results), expected, more)
        status, stderr, _ = self.run_hf(f"pretrained={hflm.LLAMA},engine=cuda")
        self.assertEqual(status, 1)
        self.assertIn("`auto`, `native` or `torch`", stderr)

    def test_seq2seq(self) -> None:
        """An encoder-decoder is scored and generates."""
        import transformers

        config = transformers.T5Config(
            vocab_size=512, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
        )
        path = self.checkpoint(config, transformers.T5ForConditionalGeneration)
        status, stderr, results = self.run_hf(f"pretrained={path},dtype=float32,backend=seq2seq", "--device", "cpu")
        self.assertEqual(status, 0, stderr)
        self.assertIn("Using torch", stderr)
        self.assertIn("acc,none", results["results"]["demo_capitals"])

    def test_adapter(self) -> None:
        """A folder with only an adapter runs with the model that it names."""
        import peft
        import torch

        torch.manual_seed(2)
        model, _ = hflm.live()
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
        adapter = self.folder / "adapter"
        adapted.save_pretrained(adapter)
        named = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual(named["base_model_name_or_path"], str(hflm.LLAMA))
        scores = []
        for arguments in (f"pretrained={adapter}", f"pretrained={hflm.LLAMA},peft={adapter}"):
            status, stderr, results = self.run_hf(f"{arguments},dtype=float32", "--device", "cpu")
            self.assertEqual(status, 0, stderr)
            self.assertIn("Using torch", stderr)
            scores.append(self.lines(results))
        self.assertEqual(scores[0], scores[1])

    def test_without_torch(self) -> None:
        """One error says what the native engine lacks, what to install, and which server could run it."""
        empty = self.folder / "empty"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True)
        command = [engine.binary_path(), "run", "--python", str(empty / "bin/python")]
        arguments = f"pretrained={hflm.LLAMA},parallelize=True"
        status, stderr, _ = self.run_hf(arguments, command=command, PYTHONPATH="")
        self.assertEqual(status, 1)
        self.assertIn("error: The native engine does not have the argument `parallelize`. Torch cannot run it either", stderr)
        self.assertIn("pip install torch", stderr)
        self.assertIn(f"--model vllm --model_args pretrained={hflm.LLAMA}", stderr)

    def test_launchers(self) -> None:
        """Each process of a launcher loads the model, the first one evaluates, and all answer."""
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        shared = {
            **os.environ,
            "PYTHONPATH": str(engine.REPOSITORY / "python"),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        words = ["--model", "hf", "--model_args", f"pretrained={hflm.LLAMA},dtype=float32", "--device", "cpu"]
        words += ["--tasks", "demo_capitals,demo_translate", "--limit", "4", "--output_path", "out"]
        command = [sys.executable, "-m", "lm_eval", *words]
        started = [
            subprocess.Popen(
                command,
                cwd=self.folder,
                env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        ended = [process.communicate(timeout=300) for process in started]
        self.assertEqual([process.returncode for process in started], [0, 0], ended)
        self.assertIn("demo_capitals", ended[0][0])
        self.assertEqual(ended[1][0], "")
        [found] = (self.folder / "out").rglob("results_*.json")
        status, stderr, alone = self.run_hf(f"pretrained={hflm.LLAMA},dtype=float32,engine=torch", "--device", "cpu")
        self.assertEqual(status, 0, stderr)
        self.assertEqual(self.lines(json.loads(found.read_text())), self.lines(alone))
