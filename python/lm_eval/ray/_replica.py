"""One replica: a worker or a server that runs on a node and is started again when it ends.

Ray sends this class by value, so a node needs Ray and the `lm-eval` binary, not this package.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import secrets
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

ATTEMPTS = 5
"""A replica is given up after this many ends in a row with an error of its own and without having been ready."""

REPLICA = "LM_EVAL_REPLICA"
"""The environment variable that marks the processes of a replica."""

RUN = "LM_EVAL_RAY_RUN"
"""The environment variable that marks the processes of a driver, including those of a cluster that it starts."""

_SHORTEST, _LONGEST = 0.5, 30.0
"""Seconds before a process is started again: twice as long each time it ended early."""

_EARLY = 180.0
"""A process that ran for this many seconds has not ended early. A worker that cannot reach the run ends before."""

_SHOWN = 12
"""Lines of output shown when a process ends with an error."""

_END_LIMIT = 10.0


class Replica:
    """Runs the command of an order until it is stopped.

    An order contains `kind` (`worker` or `server`), `guard` (source code), `folder`, `environment`, and for a
    worker `binary`, `python`, `command`, `connect`, `token` and `patience`; for a server `command`, `health` and `limit`.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._state = "starting"
        self._url: str | None = None
        self._model: str | None = None
        self._events: list[str] = []
        self._lines: collections.deque[str] = collections.deque(maxlen=_SHOWN)
        self._stopping = threading.Event()
        self._command: Command | None = None
        threading.Thread(target=_end_with_node, args=(os.getppid(),), daemon=True).start()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    def report(self) -> dict[str, Any]:
        """Return the state, the address of a server that is ready, and messages since the last report."""
        events, self._events = self._events, []
        return {
            "state": self._state,
            "url": self._url,
            "model": self._model,
            "node": socket.gethostname(),
            "events": events,
        }

    def stop(self) -> None:
        """End the command and wait for it."""
        self._stopping.set()
        if self._command is not None:
            self._command.stop()
        self._thread.join(_END_LIMIT)

    def _supervise(self) -> None:
        failures, pause = 0, _SHORTEST
        while not self._stopping.is_set():
            began = time.monotonic()
            was_ready = False
            try:
                status, was_ready = self._run()
            except Exception as error:  # noqa: BLE001
                status = 1
                self._lines.append(str(error))
            self._url = None
            if self._stopping.is_set():
                return
            if status == 0 and self._order["kind"] == "worker":
                self._state = "done"
                return
            is_early = time.monotonic() - began < _EARLY
            if not is_early:
                pause = _SHORTEST
            # A signal comes from outside; it says nothing about the command.
            worked = was_ready or status >= 128 or (self._order["kind"] == "worker" and not is_early)
            failures = 0 if worked else failures + 1
            how = f"was killed by signal {status - 128}" if status >= 128 else f"failed with status {status}"
            output = "".join(f"\n    {line}" for line in self._lines)
            self._lines.clear()
            if failures >= ATTEMPTS:
                self._events.append(f"{how} {failures} times in a row and is given up:{output}")
                self._state = "failed"
                return
            self._events.append(f"{how}; it is started again{':' if output else ''}{output}")
            self._state = "starting"
            self._stopping.wait(pause)
            pause = min(2 * pause, _LONGEST)

    def _run(self) -> tuple[int, bool]:
        """Run the command once; return its status, and whether it was ready."""
        with contextlib.ExitStack() as cleanup:
            port = 0 if self._order["kind"] == "worker" else free_port()
            words, kept = (self._server(port), ()) if port else self._worker(cleanup)
            self._command = command = Command(self._order, words, kept)
            cleanup.callback(command.close)
            if self._stopping.is_set():
                command.kill()
            reading = threading.Thread(target=self._read, args=(command,), daemon=True)
            reading.start()
            if port:
                was_ready = self._wait_until_ready(command, port)
            else:
                self._state, was_ready = "ready", False
            status = command.wait()
            reading.join(_END_LIMIT)
            return status, was_ready

    def _read(self, command: Command) -> None:
        for line in command.output:
            self._lines.append(line.rstrip()[:2000])
            # Into the log files of Ray on this node.
            print(line, end="", file=sys.stderr, flush=True)

    def _worker(self, cleanup: contextlib.ExitStack) -> tuple[list[str], tuple[int, ...]]:
        order = self._order
        # Without a name, so that nothing is left when this process is killed.
        token = cleanup.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        os.fchmod(token.fileno(), 0o600)
        token.write(order["token"].encode())
        token.flush()
        words = shlex.split(order["command"]) if order["command"] else [find_binary(order["binary"]), "worker"]
        python = order["python"]
        if python and not order["command"] and os.path.exists(python):
            words += ["--python", python]
        words += ["--connect", order["connect"], "--token_file", f"/dev/fd/{token.fileno()}"]
        words += ["--patience", str(order["patience"])]
        return words, (token.fileno(),)

    def _server(self, port: int) -> list[str]:
        command = self._order["command"]
        words = shlex.split(command)
        if "{port}" not in command:
            words += ["--port", "{port}"]
        values = {"{port}": str(port), "{host}": node_address(), "{python}": sys.executable}
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]
        return words

    def _wait_until_ready(self, command: Command, port: int) -> bool:
        address = f"http://{node_address()}:{port}"
        deadline = time.monotonic() + self._order["limit"]
        while not command.has_ended(0.25):
            if self._is_healthy(address):
                self._model = self._model or served_model(address)
                self._url, self._state = address, "ready"
                return True
            if time.monotonic() >= deadline:
                command.kill()
                command.wait()
                raise TimeoutError(f"The server did not answer within {self._order['limit']:g} s")
        return False

    def _is_healthy(self, address: str) -> bool:
        paths = [self._order["health"]] if self._order["health"] else ["/health", "/v1/models"]
        return any(fetch(f"{address}{path}") is not None for path in paths)


def _end_with_node(parent: int) -> None:
    """End this process when the raylet that started it is gone. Ray notices late if the whole cluster is."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


class Command:
    """A command under a guard, which kills it with all its processes when this process is gone."""

    def __init__(self, order: dict[str, Any], words: list[str], kept: tuple[int, ...]) -> None:
        self._lock = threading.Lock()
        self._guard = [sys.executable, "-I", "-c", order["guard"]]
        self._mark = f"{REPLICA}={secrets.token_hex(16)}"
        self._status, status = os.pipe()
        reader, self._control = os.pipe()
        output, printed = os.pipe()
        self.output: IO[str] = open(output, encoding="utf-8", errors="replace")  # noqa: SIM115
        folder = order["folder"]
        environment = {**os.environ, **order["environment"]}
        # The mark of the driver, if it has started this cluster: guards have to outlive it.
        environment.pop(RUN, None)
        try:
            # The guard detaches itself, so this returns at once.
            subprocess.run(
                [*self._guard, "--run", self._mark, str(status), *words],
                stdin=reader,
                stdout=printed,
                stderr=printed,
                cwd=folder if os.path.isdir(folder) else None,
                env=environment,
                pass_fds=(*kept, status),
                check=True,
            )
        finally:
            for end in (status, reader, printed):
                os.close(end)

    def has_ended(self, limit: float) -> bool:
        """Wait some time; return whether the command has ended."""
        return bool(select.select([self._status], [], [], limit)[0])

    def wait(self) -> int:
        """Wait for the end of the command; return its status, or 128 plus the signal that ended it."""
        text = os.read(self._status, 16)
        if text:
            return int(text)
        # The guard was killed, and has left its processes to this one.
        subprocess.run([*self._guard, "--end", self._mark], check=False)
        return 128 + signal.SIGKILL

    def stop(self) -> None:
        """Ask the command to end."""
        with self._lock, contextlib.suppress(OSError):
            os.write(self._control, b"x")

    def kill(self) -> None:
        """Kill the command."""
        with self._lock:
            control, self._control = self._control, -1
            if control >= 0:
                os.close(control)

    def close(self) -> None:
        """Release the descriptors; kills the command if it runs."""
        self.kill()
        os.close(self._status)
        self.output.close()


def fetch(url: str) -> bytes | None:
    """Return the content of an address, without a proxy; `None` if it does not answer with success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            content: bytes = answer.read()
            return content
    except (OSError, ValueError, urllib.error.URLError):
        return None


def served_model(address: str) -> str | None:
    """Return the name of the first model of a server."""
    content = fetch(f"{address}/v1/models")
    try:
        name = json.loads(content or b"")["data"][0]["id"]
    except (ValueError, LookupError, TypeError):
        return None
    return name if isinstance(name, str) else None


def free_port() -> int:
    """Return a port that nothing listens on.

    It is neither among those that the kernel hands out nor among those of Ray's workers, so that nobody else takes it soon.
    """
    import random

    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("No free port between 20000 and 32000")


def node_address() -> str:
    """Return the address of this node, as the other nodes know it."""
    import ray

    address: str = ray.util.get_node_ip_address()
    return address


def find_binary(path: str) -> str:
    """Return the `lm-eval` binary of this node: the path of the driver, beside the interpreter, or on `PATH`."""
    for candidate in (path, str(Path(sys.executable).with_name("lm-eval")), shutil.which("lm-eval")):
        if candidate and os.access(candidate, os.X_OK):
            with open(candidate, "rb") as file:
                # Not the launcher of another package with the same name.
                if candidate == path or file.read(2) != b"#!":
                    return candidate
    raise FileNotFoundError(
        f"`lm-eval` was not found on {socket.gethostname()}: neither {path} nor `lm-eval` on PATH; "
        "install the same release there, or set `--worker-command`"
    )
