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
from unittest import mock

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

    def run_hf(
        self, model_args: str, *more: str, command: list[str] | None = None, output: str | None = None, **environment: str
    ) -> tuple[int, str, Any]:
        """Run four documents of two tasks; return the status, standard error and the results."""
        output = output or tempfile.mkdtemp(dir=self.folder)
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

        config = transformers.XGLMConfig(
            vocab_size=512, d_model=16, ffn_dim=32, num_layers=2, attention_heads=2, decoder_start_token_id=1
        )
        path = self.checkpoint(config, transformers.XGLMForCausalLM)
        arguments = f"pretrained={path},dtype=float32"
        status, stderr, results = self.run_hf(arguments, "--device", "cpu")
        self.assertEqual(status, 0, stderr)
        self.assertRegex(stderr, r"Using torch of `.*`: .*XGLMForCausalLM")
        self.assertRegex(results["config"]["engine"], r"torch [\d.]+.*, transformers [\d.]+")
        lm = hflm.load(path)
        tasks = ["demo_capitals", "demo_translate"]
        of_object = simple_evaluate(model=lm, tasks=tasks, limit=4, verbosity="ERROR")
        self.assertEqual(self.lines(results), self.lines(of_object))
        status, stderr, _ = self.run_hf(arguments + ",engine=native")
        self.assertEqual(status, 1)
        self.assertRegex(stderr, r"XGLMForCausalLM[\s\S]*hint: Without `engine=native`")

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
        """An encoder-decoder is scored and generates, natively and on torch."""
        import transformers

        config = transformers.T5Config(
            vocab_size=512, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
        )
        path = self.checkpoint(config, transformers.T5ForConditionalGeneration)
        scores = []
        for more in ("", ",engine=torch"):
            arguments = f"pretrained={path},dtype=float32,backend=seq2seq{more}"
            status, stderr, results = self.run_hf(arguments, "--device", "cpu")
            self.assertEqual(status, 0, stderr)
            self.assertEqual("Using torch" in stderr, bool(more), stderr)
            scores.append(self.lines(results))
        self.assertEqual(*scores)

    def test_adapter(self) -> None:
        """A folder with only an adapter runs with the model that it names, natively and on torch."""
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
        for engine_name in ("native", "torch"):
            for arguments in (f"pretrained={adapter}", f"pretrained={hflm.LLAMA},peft={adapter}"):
                arguments = f"{arguments},dtype=float32,engine={engine_name}"
                status, stderr, results = self.run_hf(arguments, "--device", "cpu")
                self.assertEqual(status, 0, stderr)
                self.assertEqual("Using torch" in stderr, engine_name == "torch")
                scores.append(self.lines(results))
        self.assertEqual(scores[0], scores[1])
        self.assertEqual(scores[2], scores[3])
        self.assertEqual(scores[0], scores[2])

    def test_changed_weights(self) -> None:
        """Answers are reused for the same files only: retraining a model or its adapter in place computes them again."""
        import peft
        import safetensors.torch
        import torch

        path = self.folder / "model"
        shutil.copytree(hflm.LLAMA, path)
        model, _ = hflm.live()
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
        adapter = self.folder / "adapter"
        adapted.save_pretrained(adapter)
        arguments = f"pretrained={path},peft={adapter},dtype=float32"
        output = tempfile.mkdtemp(dir=self.folder)

        def run() -> tuple[bool, Any]:
            status, stderr, results = self.run_hf(arguments, "--device", "cpu", output=output)
            self.assertEqual(status, 0, stderr)
            return "will be reused" in stderr, results["samples"] if "samples" in results else self.lines(results)

        self.assertFalse(run()[0])
        self.assertTrue(run()[0])
        for weights in (path / "model.safetensors", adapter / "adapter_model.safetensors"):
            tensors = safetensors.torch.load_file(weights)
            safetensors.torch.save_file({name: torch.flip(one, [0]) for name, one in tensors.items()}, weights, {"format": "pt"})
            self.assertFalse(run()[0], weights)
            self.assertTrue(run()[0], weights)
        settings = json.loads((adapter / "adapter_config.json").read_text())
        (adapter / "adapter_config.json").write_text(json.dumps({**settings, "lora_alpha": 2 * settings["lora_alpha"]}))
        self.assertFalse(run()[0])

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
        words = ["--model", "hf", "--model_args", f"pretrained={hflm.LLAMA},dtype=float32,engine=auto", "--device", "cpu"]
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


class Arguments(unittest.TestCase):
    """What the constructor passes to `from_pretrained`."""

    def options(self, folder: Path = hflm.LLAMA, **arguments: Any) -> dict[str, Any]:
        """Return the arguments of `from_pretrained`."""
        import transformers

        model, _ = hflm.live()
        with mock.patch.object(transformers.AutoModelForCausalLM, "from_pretrained", return_value=model) as called:
            hflm.load(folder, **arguments)
        options: dict[str, Any] = called.call_args.kwargs
        return options

    def test_bitsandbytes(self) -> None:
        """Settings of bitsandbytes become one configuration, and the weights are loaded to the device."""
        import torch

        off = self.options(load_in_8bit=False, load_in_4bit=None, bnb_4bit_use_double_quant=False)
        self.assertFalse({"load_in_8bit", "load_in_4bit", "quantization_config", "device_map"} & set(off), off)
        eight = self.options(load_in_8bit=True, llm_int8_threshold=5.0)
        self.assertEqual(eight["quantization_config"].llm_int8_threshold, 5.0)
        four = self.options(load_in_4bit=True, bnb_4bit_compute_dtype="bfloat16", bnb_4bit_quant_type="nf4")
        config = four["quantization_config"]
        self.assertTrue(config.load_in_4bit)
        self.assertEqual((config.bnb_4bit_compute_dtype, config.bnb_4bit_quant_type), (torch.bfloat16, "nf4"))
        self.assertEqual(four["device_map"], {"": "cpu"})
        with self.assertLogs("lm_eval", "WARNING") as logged:
            self.assertNotIn("bnb_4bit_quant_type", self.options(bnb_4bit_quant_type="nf4"))
        self.assertIn("`bnb_4bit_quant_type` has no effect", logged.output[0])

    def test_checkpoints_with_quantised_weights(self) -> None:
        """Arguments for loaders of other packages have no effect where `transformers` reads the checkpoint itself."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "model"
            shutil.copytree(hflm.LLAMA, folder)
            config = json.loads((folder / "config.json").read_text())
            config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
            (folder / "config.json").write_text(json.dumps(config))
            for argument in ("autogptq", "gptqmodel"):
                self.assertNotIn(argument, self.options(folder, **{argument: True}))
        with self.assertRaisesRegex(NotImplementedError, "`autogptq`.*no `quantization_config`"):
            self.options(autogptq=True)

    def test_distribution(self) -> None:
        """`device_map` keeps the limits of memory; tensor parallelism is left to servers."""
        spread = self.options(
            parallelize=True, device_map="balanced", max_memory_per_gpu="3GB", max_cpu_memory="9GB", offload_folder="away"
        )
        self.assertEqual((spread["device_map"], spread["offload_folder"]), ("balanced", "away"))
        self.assertEqual(spread["max_memory"]["cpu"], "9GB")
        self.assertEqual(self.options(device_map="cpu")["device_map"], "cpu")
        with self.assertRaisesRegex(NotImplementedError, "--model vllm.*tensor_parallel_size=N"):
            self.options(tp_plan="auto")

    def test_arguments_of_the_native_engine(self) -> None:
        """The run's seed is torch's, and a launcher starts several processes."""
        import torch

        options = self.options(seed=3, data_parallel=1, torch_dtype="float16", dtype="auto", use_cache=False)
        self.assertEqual((options["dtype"], options["use_cache"]), (torch.float16, False))
        self.assertFalse({"seed", "data_parallel", "torch_dtype"} & set(options))
        with self.assertRaisesRegex(ValueError, "accelerate launch --num_processes 4"):
            self.options(data_parallel=4)
        with mock.patch.dict(os.environ, WORLD_SIZE="2"), self.assertRaisesRegex(ValueError, "engine=native.*data_parallel=2"):
            self.options(engine="native")

    def test_adapter_on_the_hub(self) -> None:
        """An adapter's repository names its model, and a revision is the adapter's."""
        from lm_eval.models._loading import split_adapter

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "adapter_config.json"
            path.write_text(json.dumps({"base_model_name_or_path": "org/base", "revision": None}))

            def files(name: str, file: str, **_: Any) -> str | None:
                return str(path) if file == path.name and name == "org/adapter" else None

            with mock.patch("transformers.utils.cached_file", files):
                self.assertEqual(split_adapter("org/adapter", None, "v2"), ("org/base", "main", "org/adapter", "v2"))
                self.assertEqual(split_adapter("org/other", None, "v2"), ("org/other", "v2", None, None))
