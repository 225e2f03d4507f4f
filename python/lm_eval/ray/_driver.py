"""The driver of `lm-eval ray run`: connects to the cluster, looks after the replicas, and runs the engine."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any

from lm_eval.ray import _replica

_TICK = 0.2
_ENDPOINTS = {
    "local-completions": "/v1/completions",
    "local-chat-completions": "/v1/chat/completions",
    "vllm-vlm": "/v1/chat/completions",
    "sglang": "/generate",
}

# Starts the engine so that the kernel kills it when the driver ends, however that happens.
_ENGINE = """\
import ctypes, os, sys
if sys.platform.startswith("linux"):
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class DriverError(Exception):
    """A problem that the user can solve, with hints."""

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints


def main(settings: dict[str, Any]) -> int:
    """Run an evaluation on a cluster; return its exit status."""
    try:
        return Driver(settings).run()
    except DriverError as error:
        _print(f"error: {error}", *(f"hint: {hint}" for hint in error.hints))
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001
        _print(
            f"error: The Ray cluster failed: {type(error).__name__}: {error}",
            "hint: Answers received so far are saved; run the same command again to resume",
        )
        return 1


def _print(*lines: str) -> None:
    print("\n".join(lines), file=sys.stderr, flush=True)


class Driver:
    """One run. `settings` are those of `ray run` that the binary has parsed; under `run`, those of the engine."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._run_settings: dict[str, Any] = settings["run"]
        self._is_quiet = bool(self._run_settings.get("quiet"))
        self._signals = 0
        self._engine: subprocess.Popen[bytes] | None = None
        self._token = secrets.token_hex(32)
        self._published: list[str] | None = None

    def run(self) -> int:
        """Run the evaluation; return the exit status of the engine."""
        os.environ[_replica.RUN] = secrets.token_hex(16)
        mark = f"{_replica.RUN}={os.environ[_replica.RUN]}"
        watch = [sys.executable, "-I", "-c", _source("_guard"), "--watch", mark, str(os.getpid())]
        # It ends the engine and a local cluster, should this process be killed.
        nothing = subprocess.DEVNULL
        pipe = subprocess.PIPE
        with subprocess.Popen(watch, stdin=pipe, stdout=nothing, stderr=nothing, bufsize=0) as watching:
            status = self._run()
            assert watching.stdin is not None
            # It may have been killed.
            with contextlib.suppress(OSError):
                watching.stdin.write(b"x")
            return status

    def _run(self) -> int:
        self._connect()
        import ray

        from lm_eval.ray._fleet import Fleet

        # After Ray has installed its own handlers.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._interrupt)
        folder = tempfile.TemporaryDirectory(prefix="lm-eval-ray-")
        fleet = None
        try:
            with folder, tempfile.TemporaryFile() as token:
                os.fchmod(token.fileno(), 0o600)
                token.write(self._token.encode())
                token.flush()
                self._pool = Path(folder.name, "pool.json")
                fleet = Fleet(self._settings["replicas"], self._resources(), self._order(), self._note)
                return self._supervise(fleet, token)
        finally:
            if self._engine is not None and self._engine.poll() is None:
                self._engine.kill()
                self._engine.wait()
            if fleet is not None:
                fleet.close()
            ray.shutdown()

    def _supervise(self, fleet: Any, token: IO[bytes]) -> int:
        settings = self._settings
        is_serving = bool(settings["serve"])
        while True:
            if self._engine is None:
                if self._signals:
                    return 130
                # Workers join a run that exists; servers have to exist before it.
                if fleet.ready() >= settings["min_replicas"] or (
                    not is_serving and settings["min_replicas"] <= 1
                ):
                    self._publish(fleet.urls())
                    self._start_engine(fleet, token)
            else:
                status = self._engine.poll()
                if status is not None:
                    return status if status >= 0 else 128 - status
            fleet.tick()
            if is_serving:
                self._publish(fleet.urls())
            if fleet.have_failed():
                self._give_up()
            time.sleep(_TICK)

    def _give_up(self) -> None:
        if self._engine is not None:
            self._engine.send_signal(signal.SIGINT)
            try:
                self._engine.wait(30)
            except subprocess.TimeoutExpired:
                self._engine.kill()
        kind = "server" if self._settings["serve"] else "worker"
        raise DriverError(
            f"No replica is left: every {kind} ended with an error",
            "The lines above are the last ones that they printed",
            "Answers received so far are saved; run the same command again to resume",
        )

    def _connect(self) -> None:
        address = self._settings["address"] or os.environ.get("RAY_ADDRESS") or None
        if address and address.startswith("ray://"):
            raise DriverError(
                f"`{address}` is an address for Ray clients, which cannot run an engine on the cluster",
                "Submit the command as a job instead: `ray job submit -- lm-eval ray run …`",
            )
        import ray

        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False if address in (None, "local") else None,
                # Names of actors and their lifetime belong to this run.
                namespace=f"lm-eval-{secrets.token_hex(8)}",
            )
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            raise DriverError(
                f"Cannot connect to the Ray cluster at {address or 'this machine'}: {error}",
                "Set `--address` or RAY_ADDRESS to the address of the head node, or `--address local` for a "
                "cluster on this machine",
                "For a cluster with authentication set RAY_AUTH_MODE=token; Ray sends your token to no named address otherwise",
            ) from None

    def _resources(self) -> dict[str, float]:
        wanted = {"CPU": self._settings["cpus"], "GPU": self._settings["gpus"]}
        return {name: amount for name, amount in wanted.items() if amount}

    def _order(self) -> dict[str, Any]:
        """Return the instructions for a replica."""
        settings = self._settings
        order = {"guard": _source("_guard"), "folder": os.getcwd(), "environment": settings["environment"]}
        if settings["serve"]:
            return {
                **order,
                "kind": "server",
                "command": settings["serve"],
                "health": settings["health"],
                "limit": settings["ready_timeout"],
            }
        self._listen = settings["listen"] or f"{_replica.node_address()}:{_replica.free_port()}"
        return {
            **order,
            "kind": "worker",
            "binary": settings["binary"],
            "python": self._run_settings.get("python") or sys.executable,
            "command": settings["worker_command"],
            "connect": self._listen,
            "token": self._token,
            # Workers may have to wait for the other replicas.
            "patience": 120 if settings["min_replicas"] == 1 else 86_400,
        }

    def _start_engine(self, fleet: Any, token: IO[bytes]) -> None:
        if self._settings["serve"]:
            more = self._of_servers(fleet.model())
        else:
            more = {"workers": {"listen": self._listen, "token_file": f"/dev/fd/{token.fileno()}"}}
        file = self._pool.with_name("run.json")
        file.write_text(json.dumps({**self._run_settings, **more}), encoding="utf-8")
        words = [self._settings["binary"], "ray", "engine", str(file)]
        self._engine = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _ENGINE, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            pass_fds=(token.fileno(),),
            # Ctrl-C reaches the driver alone, which passes it on.
            start_new_session=True,
        )

    def _of_servers(self, served: str | None) -> dict[str, Any]:
        """Return the settings of the engine for the servers of this run."""
        arguments = {**self._run_settings.get("model_args", {}), "base_url": f"@{self._pool}"}
        if served:
            arguments.setdefault("model", served)
        # Servers that are started again may take this long.
        arguments.setdefault("patience", max(300, self._settings["ready_timeout"]))
        return {"model_args": arguments}

    def _publish(self, addresses: list[str]) -> None:
        """Write the pool file, which the engine watches, if the servers have changed."""
        if not self._settings["serve"] or addresses == self._published:
            return
        path = self._settings["endpoint"] or _ENDPOINTS.get(self._run_settings["model"], "/v1/completions")
        content = {"servers": [{"url": f"{address}{path}"} for address in addresses]}
        new = self._pool.with_suffix(".new")
        new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        new.replace(self._pool)
        self._published = addresses

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Pass the first signals on to the engine, which saves its answers; without one, stop."""
        self._signals += 1
        engine = self._engine
        if engine is not None and engine.poll() is None:
            engine.send_signal(number)

    def _note(self, text: str) -> None:
        if text.startswith("warning") or not self._is_quiet:
            _print(text)


def _source(module: str) -> str:
    """Return the source code of a module beside this one, which may be embedded in the binary."""
    name = f"lm_eval.ray.{module}"
    spec = importlib.util.find_spec(name)
    loader: Any = spec.loader if spec else None
    source: str = loader.get_source(name)
    return source
