"""The engine client: finds the `lm-eval` binary, starts it, and answers its calls until it returns a result."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lm_eval._code import RUNNER
from lm_eval._live import SCHEME, Live, Server
from lm_eval._loader import Loader
from lm_eval._protocol import VERSION, Channel, _from_wire, to_wire

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EngineError", "Session", "UnknownNameError", "call", "find_binary"]

BINARY_VARIABLE = "LM_EVAL_BINARY"
"""The environment variable with the path of the `lm-eval` binary."""

_logger = logging.getLogger("lm_eval")

_NAME = "lm-eval.exe" if os.name == "nt" else "lm-eval"
_END_LIMIT = 15.0


class EngineError(RuntimeError):
    """An error reported by the engine."""


class UnknownNameError(KeyError):
    """A name that the engine does not know; the message suggests similar ones."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


_KINDS: dict[str, Callable[[str], Exception]] = {
    "KeyError": UnknownNameError,
    "NotImplementedError": NotImplementedError,
    "OSError": OSError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


def find_binary() -> str:
    """Return the path of the `lm-eval` binary.

    A worker uses that of its engine. Otherwise it is searched in this order: `LM_EVAL_BINARY`, the scripts installed
    with this package, `PATH`, and the build folder of a source checkout.
    """
    given = RUNNER.program or os.environ.get(BINARY_VARIABLE)
    if given:
        return given
    for candidate in _candidates():
        if candidate.is_file() and os.access(candidate, os.X_OK) and not _is_script(candidate):
            return str(candidate)
    raise FileNotFoundError(
        f"The `{_NAME}` binary was not found; reinstall the package, or set `{BINARY_VARIABLE}` to its path"
    )


def _candidates() -> Iterator[Path]:
    for scheme in (None, f"{os.name}_user"):
        with contextlib.suppress(KeyError):
            scripts = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
            yield Path(scripts, _NAME)
    package = Path(__file__).resolve().parent
    # `pip install --target FOLDER` installs binaries in `FOLDER/bin`.
    yield package.parent / "bin" / _NAME
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which(_NAME, path=folder) if folder else None
        if found:
            yield Path(found)
    repository = package.parents[1]
    if (repository / "Cargo.toml").is_file():
        target = Path(os.environ.get("CARGO_TARGET_DIR") or repository / "target")
        built = [target / profile / _NAME for profile in ("release", "debug")]
        yield from sorted(
            (path for path in built if path.is_file()), key=lambda path: path.stat().st_mtime, reverse=True
        )


def _is_script(path: Path) -> bool:
    """Whether a file is a script, such as the launcher of another package with the same name."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def call(operation: str, live: Live | None = None, **parts: Any) -> Any:
    """Start the engine with one request, answer its calls, and return the result."""
    live = live or Live()
    # Without a `logging` set-up, the engine writes to standard error itself.
    request = live.sendable(
        {"protocol": VERSION, "op": operation, "log": _logger.hasHandlers(), **parts}
    )
    with _Conversation(live, as_text=operation == "evaluate") as conversation:
        return conversation.run(to_wire(request))


class Session:
    """A persistent engine that handles one request at a time."""

    def __init__(self, operation: str, **parts: Any) -> None:
        self.is_closed = False
        self._conversation = _Conversation(Live(), as_text=False).__enter__()
        self._exchange(to_wire({"protocol": VERSION, "op": operation, **parts}))

    def turn(self, wanted: Any) -> Any:
        """Send a request and return its result."""
        return self._exchange({"ok": to_wire(wanted)})

    def close(self) -> None:
        """Stop the engine."""
        if not self.is_closed:
            self.is_closed = True
            self._conversation.__exit__()

    def _exchange(self, sent: Any) -> Any:
        try:
            message = self._conversation.send(sent)
        except BaseException:
            self.close()
            raise
        if message is None or "op" not in message:
            self.close()
            return self._conversation.outcome(message)
        said = message["said"]
        if "failure" in said:
            self._conversation._fail(said["failure"])
        return said["done"]


def command(arguments: list[str], registered: list[str]) -> int:
    """Run a command line with the objects that this process registered (`kind/name`); return its exit status."""
    parts = {"arguments": arguments, "registered": registered, "python": sys.executable}
    with _Conversation(Live(), as_text=True, is_command=True) as conversation:
        status: int = conversation.run({"protocol": VERSION, "op": "command", **parts})
        return status


class _Channel(Channel):
    """This end of the socket. Functions in results are decoded differently from those in calls."""

    def __init__(
        self, descriptor: int, resolve: Callable[[str, str], Any], of_results: Callable[[str, str], Any]
    ) -> None:
        super().__init__(descriptor, resolve)
        self._decode_call: Callable[[str], Any] = self._decode
        self._decode_result = json.JSONDecoder(object_hook=_from_wire(of_results)).decode
        self._decode = self._decode_any  # type: ignore[assignment]
        self.is_writing = False

    def read(self) -> Any:
        """Return the next message, forwarding log messages to `logging` meanwhile."""
        while True:
            message = super().read()
            if message is None or "log" not in message:
                return message
            level, text = message["log"]
            _logger.log(getattr(logging, level), "%s", text)

    def _decode_any(self, text: str) -> Any:
        return self._decode_result(text) if text.startswith('{"result":') else self._decode_call(text)

    def write(self, message: Any) -> None:
        """Send a message without interruption."""
        with self._uninterrupted():
            super().write(message)

    def hold(self, message: Any) -> None:
        """Queue a message, without interruption."""
        with self._uninterrupted():
            super().hold(message)

    def flush(self) -> None:
        """Send queued messages without interruption."""
        with self._uninterrupted():
            super().flush()

    @contextlib.contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        outer, self.is_writing = self.is_writing, True
        try:
            yield
        finally:
            self.is_writing = outer


class _Conversation:
    """A running engine that this thread communicates with."""

    def __init__(self, live: Live, as_text: bool, is_command: bool = False) -> None:
        self._live = live
        self._as_text = as_text
        self._is_command = is_command

    def __enter__(self) -> Self:
        mine, theirs = socket.socketpair()
        self._socket = mine
        stream, errors = _stream(sys.stderr, sys.__stderr__)
        # A command prints results to standard output; other requests print none.
        output_stream, output = _stream(sys.stdout, sys.__stdout__) if self._is_command else (stream, errors)
        if errors == subprocess.PIPE and not self._is_command:
            errors = subprocess.STDOUT
        try:
            # Start a new session: this process receives Ctrl-C from the terminal and passes it on.
            self._process = subprocess.Popen(
                [find_binary(), "serve-python"],
                stdin=theirs.fileno(),
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except BaseException:
            mine.close()
            raise
        finally:
            theirs.close()
        self._pumps: list[tuple[threading.Thread, Any]] = []
        for pipe, target in ((self._process.stdout, output_stream), (self._process.stderr, stream)):
            if pipe is not None:
                pump = threading.Thread(target=_pump, args=(pipe, target), daemon=True)
                self._pumps.append((pump, pipe))
                pump.start()
        loader = Loader([])
        loader.schemes[SCHEME] = self._live.find
        channel = _Channel(mine.fileno(), loader.resolve, self._live.text if self._as_text else self._live.function)
        self._channel = channel
        self._server = Server(channel, loader, self._live.needs_identity)
        self._interrupts = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._server.release()
        # The engine exits when its caller is gone.
        self._socket.close()
        try:
            self._process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            for pump, pipe in self._pumps:
                pump.join(5)
                pipe.close()

    def run(self, request: Any) -> Any:
        """Send the request and answer calls until the result arrives."""
        with self._interruptible():
            message = self._exchange_messages(request)
        if self._interrupts:
            told = (message or {}).get("failure") or {}
            # The exception of the call may reach the engine before the signal; both are the same interruption.
            is_told = told.get("kind") == "KeyboardInterrupt"
            raise KeyboardInterrupt(told["message"] if is_told else "Interrupted.")
        return self.outcome(message)

    def send(self, message: Any) -> Any:
        """Send a message and answer calls until a result arrives or it is the caller's turn."""
        try:
            return self._exchange_messages(message)
        except BaseException:
            # An interrupted exchange cannot be continued.
            self._process.kill()
            raise

    def outcome(self, message: Any) -> Any:
        """Return the result in the last message, or raise the error it reports."""
        if message is None:
            status = self._process.wait()
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise EngineError(f"The engine {how} before it returned a result")
        if "failure" in message:
            self._fail(message["failure"])
        return message["result"]

    def _exchange_messages(self, request: Any) -> Any:
        try:
            self._channel.write(request)
            while True:
                message = self._channel.read()
                if message is None or message.get("op", "turn") == "turn":
                    return message
                self._server.serve(message)
        except (BrokenPipeError, ConnectionResetError):
            return None

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C stop the engine gracefully, so that the answers received so far are saved."""
        previous = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(previous):
            yield
            return

        def interrupt(number: int, frame: Any) -> None:
            self._interrupts += 1
            if self._interrupts > 1:
                self._process.kill()
                raise KeyboardInterrupt
            self._process.send_signal(signal.SIGINT)
            if previous is not signal.default_int_handler:
                previous(number, frame)
            elif self._server.is_calling and not self._channel.is_writing:
                # Calls may be interrupted, messages may not.
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _fail(self, told: dict[str, Any]) -> NoReturn:
        """Raise the error that the engine reports; an exception of this process is raised as the original object."""
        message, traceback = told["message"], told["traceback"]
        if told["kind"] == "KeyboardInterrupt":
            raise KeyboardInterrupt(message)
        for text, original in self._server.raised:
            if text == traceback:
                if original.__cause__ is None and not original.__suppress_context__:
                    raise original from EngineError(message)
                raise original
        if traceback:
            message = f"{message}\n\n{traceback.rstrip()}"
        raise _KINDS.get(told["kind"], EngineError)(message)


def _stream(stream: Any, original: Any) -> tuple[Any, int]:
    """Return the engine's output file: a stream of this process, or a pipe to the object that replaces it."""
    if stream is None:
        return None, subprocess.DEVNULL
    if stream is original and isinstance(stream, io.TextIOBase):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
            return stream, stream.fileno()
    return stream, subprocess.PIPE


def _pump(pipe: Any, stream: Any) -> None:
    """Copy the engine's output to a stream that has no file descriptor, such as that of a notebook."""
    for line in pipe:
        # The stream may have been closed; the engine must not stop because of that.
        with contextlib.suppress(Exception):
            stream.write(line.decode("utf-8", "replace"))
            stream.flush()
