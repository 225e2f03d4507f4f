"""Evaluations in threads and event loops, and when a process is interrupted or killed."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from lm_eval import _engine, simple_evaluate

from tests import engine
from tests.engine import Lengths, scores, sums_task


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


def _children(process: int) -> list[str]:
    """Return the process id and the command of each child process."""
    command = ["ps", "--ppid", str(process), "-o", "pid=,args="]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "ps --ppid" not in line]


class Surroundings(unittest.TestCase):
    """Threads, event loops, redirected streams, and processes that end."""

    def test_threads(self) -> None:
        """Evaluations in several threads are independent."""
        found: dict[str, Any] = {}

        def work(answer: str) -> None:
            found[answer] = scores(simple_evaluate(model=Lengths(answer), tasks=[sums_task()]), "sums")

        threads = [threading.Thread(target=work, args=(answer,)) for answer in ("4", "6")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {"4": {"exact_match,none": 0.5}, "6": {"exact_match,none": 0.25}})

    def test_debug_log(self) -> None:
        """`verbosity="DEBUG"` prints the log of the engine, and other levels do not."""
        program = "import sys, lm_eval; lm_eval.simple_evaluate(model='dummy', tasks=['demo_capitals'], limit=2, verbosity=sys.argv[1])"
        for level, is_logged in (("DEBUG", True), ("INFO", False)):
            command = [sys.executable, "-c", program, level]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            self.assertEqual("DEBUG lmeval_engine::dispatch: Batch requests=8" in done.stderr, is_logged, done.stderr)

    def test_event_loops(self) -> None:
        """Evaluation works inside a running event loop, as in a notebook."""

        async def work() -> Any:
            return simple_evaluate(model=Lengths(), tasks=[sums_task()])

        self.assertEqual(scores(asyncio.run(work()), "sums"), {"exact_match,none": 0.5})

    def test_messages(self) -> None:
        """Engine messages go to the object that replaces standard error."""
        stream = io.StringIO()
        with contextlib.redirect_stderr(stream):
            simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=1, write_out=True)
        self.assertIn("capital", stream.getvalue())

    def _child(self, body: str, folder: str) -> subprocess.Popen[str]:
        code = (
            "import os, sys, time\nimport lm_eval\nfrom tests.engine import Lengths\n"
            "class Slow(Lengths):\n"
            "    def loglikelihood(self, requests):\n"
            "        print('asked', flush=True)\n"
            "        for request in requests:\n"
            "            time.sleep(0.02)\n"
            "            answer = (-float(len(request.args[1])), False)\n"
            "            self.cache_hook.add_partial('loglikelihood', request.args, answer)\n"
            "            yield answer\n" + textwrap.dedent(body)
        )
        environment = {**os.environ, "PYTHONPATH": str(engine.REPOSITORY / "python"), "FOLDER": folder}
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell may have made its background processes ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )

    def _engine_of(self, process: int) -> list[int]:
        return [int(line.split()[0]) for line in _children(process)]

    def _answers(self, journal: str) -> int:
        listed = engine.run("journal", "ls", journal, "--json").stdout
        return int(json.loads(listed.splitlines()[0])["answered"])

    def test_interrupts(self) -> None:
        """Ctrl-C stops the engine gracefully, and the answers received so far are saved."""
        body = """
            try:
                cache = os.environ["FOLDER"] + "/cache"
                lm_eval.simple_evaluate(Slow(), tasks=["demo_capitals"], use_cache=cache)
            except KeyboardInterrupt as error:
                print("interrupted:", error, flush=True)
        """
        with tempfile.TemporaryDirectory() as folder:
            child = self._child(body, folder)
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "asked\n")
            journal = folder + "/cache.journal"
            while self._answers(journal) <= 5:
                self.assertIsNone(child.poll(), "The evaluation ended before it was interrupted")
                time.sleep(0.02)
            engines = self._engine_of(child.pid)
            child.send_signal(signal.SIGINT)
            output, errors = child.communicate(timeout=30)
            # With the number of answers, unless the exception of the call reached the engine before the signal.
            self.assertIn("interrupted: Interrupted.", output, errors)
            self.assertEqual(len(engines), 1)
            self._assert_ended(engines[0])
            self.assertGreater(self._answers(journal), 5)

    def test_interrupts_do_not_split_messages(self) -> None:
        """Ctrl-C does not interrupt a message that is being written, queued or sent."""
        mine, theirs = socket.socketpair()
        self.addCleanup(mine.close)
        self.addCleanup(theirs.close)
        channel = _engine._Channel(mine.fileno(), lambda *_: None, lambda *_: None)
        seen: list[bool] = []

        def dumps(message: Any) -> str:
            seen.append(channel.is_writing)
            return "{}"

        def write(descriptor: int, frames: Any) -> int:
            seen.append(channel.is_writing)
            return len(frames)

        with mock.patch("lm_eval._protocol._dumps", dumps), mock.patch("lm_eval._protocol.os.write", write):
            channel.hold({})
            channel.flush()
            channel.write({})
            channel._flushed = 0
            channel.hold({})
        self.assertEqual((seen, channel.is_writing), ([True] * 6, False))

    def test_interrupts_without_calls(self) -> None:
        """Ctrl-C also stops an engine that makes no calls to this process."""
        body = """
            import http.server, threading
            class Silent(http.server.BaseHTTPRequestHandler):
                def do_POST(self):
                    print("asked", flush=True)
                    time.sleep(60)
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/v1/completions"
            args = {"model": "m", "base_url": url, "tokenizer_backend": None, "timeout": 2, "max_retries": 1}
            try:
                lm_eval.simple_evaluate("local-completions", args, tasks=["demo_arithmetic"], limit=1)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """
        with tempfile.TemporaryDirectory() as folder:
            child = self._child(body, folder)
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "asked\n")
            engines = self._engine_of(child.pid)
            child.send_signal(signal.SIGINT)
            output, errors = child.communicate(timeout=30)
            self.assertIn("interrupted", output, errors)
            self._assert_ended(engines[0])

    def test_killed_callers(self) -> None:
        """An engine exits when its caller is gone."""
        with tempfile.TemporaryDirectory() as folder:
            child = self._child('lm_eval.simple_evaluate(Slow(), tasks=["demo_capitals"])', folder)
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "asked\n")
            engines = self._engine_of(child.pid)
            child.kill()
            child.communicate()
            self.assertEqual(len(engines), 1)
            self._assert_ended(engines[0])

    def test_killed_engines(self) -> None:
        """A killed engine raises an exception."""

        class Killer(Lengths):
            def loglikelihood(self, requests: list[Any]) -> Any:
                for line in _children(os.getpid()):
                    if "serve-python" in line:
                        os.kill(int(line.split()[0]), signal.SIGKILL)
                return super().loglikelihood(requests)

        with self.assertRaisesRegex(RuntimeError, "signal 9"):
            simple_evaluate(model=Killer(), tasks=["demo_capitals"])

    def _assert_ended(self, process: int) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                # Its parent was killed, and its new parent will reap it.
                return
            time.sleep(0.05)
        self.fail(f"the process {process} is still running")


if __name__ == "__main__":
    unittest.main()
