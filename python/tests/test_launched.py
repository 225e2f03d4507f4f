"""Models on servers that belong to an object, with stand-ins for vLLM and SGLang."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from lm_eval import simple_evaluate
from lm_eval.api.registry import get_model
from lm_eval.models.sglang_causallms import SGLangLM
from lm_eval.models.vllm_causallms import VLLM

from tests import engine
from tests.test_models_modules import TOKENIZER, ask

SERVERS = engine.REPOSITORY / "crates/lmeval-cli/tests/servers"


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


@unittest.skipUnless(sys.platform.startswith("linux"), "finds processes in /proc")
class Launched(unittest.TestCase):
    """Objects."""

    def setUp(self) -> None:
        """Put the stand-ins on the path of the servers."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.mark = f"LM_EVAL_TEST_LAUNCHED={folder.name}"
        name, _, value = self.mark.partition("=")
        path = f"{SERVERS}{os.pathsep}{engine.REPOSITORY / 'python'}"
        variables = {"PYTHONPATH": path, "STANDIN_FOLDER": folder.name, name: value}
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def processes(self) -> list[str]:
        """Return the processes that this test has started, as they call themselves."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            if path.name == str(os.getpid()):
                continue
            try:
                # A zombie has no environment.
                if self.mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def assert_ended(self) -> None:
        """Check that no process is left, after a while."""
        deadline = time.monotonic() + 30
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [])

    def test_methods(self) -> None:
        """The object answers outside of an evaluation, and its server ends with the block."""
        with VLLM(pretrained=TOKENIZER, max_model_len=64, dtype="float32", batch_size="auto:8") as lm:
            self.assertTrue(any("api_server" in line for line in self.processes()))
            [(score, greedy)] = ask(lm.loglikelihood, ("this is", " the answer"))
            self.assertEqual((score < 0, type(greedy)), (True, bool))
            [alone] = ask(lm.loglikelihood_rolling, ("this is",))
            self.assertLess(alone, 0)
            [text] = ask(lm.generate_until, ("this is", {"until": ["\n"], "max_gen_toks": 4}))
            self.assertIsInstance(text, str)
            self.assertEqual((lm.max_length, lm.max_gen_toks, lm.batch_size), (64, 256, "auto:8"))
            with self.assertRaisesRegex(AttributeError, "in the server's process"):
                lm.model.generate()
            with self.assertRaisesRegex(NotImplementedError, "call `loglikelihood`"):
                lm._loglikelihood_tokens([])
        self.assert_ended()
        with self.assertRaisesRegex(RuntimeError, "has exited"):
            ask(lm.loglikelihood, ("a", " b"))

    def test_evaluations(self) -> None:
        """An object, its class by name, a string and a dictionary of arguments give the same scores."""
        options: dict[str, Any] = {"tasks": ["demo_capitals"], "limit": 4, "bootstrap_iters": 0, "verbosity": "ERROR"}
        made = get_model("vllm").create_from_arg_string(f"pretrained={TOKENIZER},max_model_len=64,", {"batch_size": "auto"})
        by_object = simple_evaluate(model=made, **options)["results"]
        made.close()
        for arguments in (f"pretrained={TOKENIZER},max_model_len=64,", {"pretrained": TOKENIZER, "max_model_len": 64}):
            by_name = simple_evaluate(model="vllm", model_args=arguments, **options)["results"]
            self.assertEqual(by_name, by_object)
        self.assert_ended()

    def test_end_of_the_object_and_of_the_interpreter(self) -> None:
        """Neither a collected object nor an interpreter that ends, or is killed, leaves a server."""
        lm = SGLangLM(pretrained=TOKENIZER, context_length=64)
        self.assertTrue(any("launch_server" in line for line in self.processes()))
        del lm
        self.assert_ended()
        program = (
            "import os, sys\n"
            "from lm_eval.models.vllm_causallms import VLLM\n"
            f"lm = VLLM(pretrained={TOKENIZER!r}, max_model_len=64)\n"
            "print('ready', flush=True)\n"
            "if sys.argv[1] == 'kill': os.kill(os.getpid(), 9)\n"
        )
        for end in ("exit", "kill"):
            done = subprocess.run([sys.executable, "-c", program, end], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.stdout, "ready\n", done.stderr)
            self.assert_ended()

    def test_refused_classes_and_arguments(self) -> None:
        """What the engine would ignore is refused, and so is an object as the model."""

        class Mine(VLLM):
            def tok_encode(self, *args: Any, **kwargs: Any) -> Any:
                return []

        with self.assertRaisesRegex(NotImplementedError, "`Mine.tok_encode` would be ignored"):
            Mine(pretrained=TOKENIZER)
        with self.assertRaisesRegex(TypeError, "pass objects to `HFLM`"):
            VLLM(pretrained=object())  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "max_model_len"):
            VLLM(pretrained=TOKENIZER, max_model_lenn=64)
        self.assert_ended()
