"""A worker whose requests and answers are counted: `ray_count.py LOG BINARY worker --connect ADDRESS …`.

Starts the worker with a proxy between it and the run. Frames are passed on unchanged; each request and each answer is
a line of the log. The file `LOG.pace` contains the number of seconds per answer, and how many answers may be given.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HELLO, TAG = 48, 32
"""The sizes of the greeting of both sides, and of a proof or a tag."""


def log(path: str, what: str, keys: list[Any]) -> None:
    """Append a line; the kernel keeps lines of several processes apart."""
    line = json.dumps({"time": time.monotonic(), "what": what, "process": os.getpid(), "keys": keys})
    with open(path, "ab", buffering=0) as file:
        file.write(line.encode() + b"\n")


def answered(path: str) -> int:
    """Return the number of answers in a log."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except FileNotFoundError:
        return 0
    events = map(json.loads, lines)
    return sum(len(event["keys"]) for event in events if event["what"] == "answered")


def pace(path: str) -> tuple[float, float]:
    """Return the seconds that an answer takes, and the number of answers that may be given."""
    try:
        seconds, allowed = Path(f"{path}.pace").read_text().split()
    except FileNotFoundError:
        return 0.0, math.inf
    return float(seconds), float(allowed)


def wait_turn(path: str, count: int) -> None:
    """Take the time of some answers, and wait until more may be given."""
    time.sleep(pace(path)[0] * count)
    while answered(path) >= pace(path)[1]:
        time.sleep(0.05)


def main() -> int:
    """Run the worker; return its exit status."""
    path, *command = sys.argv[1:]
    at = command.index("--connect") + 1
    host, _, port = command[at].rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    command[at] = f"127.0.0.1:{listener.getsockname()[1]}"
    # The token is in a descriptor.
    worker = subprocess.Popen(command, close_fds=False)
    threading.Thread(target=accept, args=(listener, (host, int(port)), path), daemon=True).start()
    status = worker.wait()
    return status if status >= 0 else 128 - status


def accept(listener: socket.socket, run: tuple[str, int], path: str) -> None:
    """Connect the worker to the run, as often as it likes."""
    while True:
        worker, _ = listener.accept()
        try:
            upstream = socket.create_connection(run, timeout=10)
        except OSError:
            worker.close()
            continue
        upstream.settimeout(None)
        batch: list[Any] = []
        for source, target, is_run in ((upstream, worker, True), (worker, upstream, False)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=forward, args=(source, target, path, batch, is_run), daemon=True).start()


def forward(source: socket.socket, target: socket.socket, path: str, batch: list[Any], is_run: bool) -> None:
    """Pass one direction of a connection on."""
    with contextlib.suppress(OSError, EOFError), source.makefile("rb") as stream:
        target.sendall(exactly(stream, HELLO))
        target.sendall(exactly(stream, TAG))
        while True:
            head = exactly(stream, 8)
            body = exactly(stream, int.from_bytes(head, "big"))
            tag = exactly(stream, TAG)
            message = json.loads(body)
            given: list[Any] = []
            if is_run and isinstance(message, dict) and "requests" in message:
                batch[:] = [request[3:7] for request in message["requests"]]
                log(path, "asked", batch)
            elif not is_run and isinstance(message, dict) and "answers" in message:
                given = [batch[answer[0]] for answer in message["answers"]]
                wait_turn(path, len(given))
            target.sendall(head + body + tag)
            if given:
                log(path, "answered", given)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def exactly(stream: Any, count: int) -> bytes:
    """Read a number of bytes."""
    found: bytes = stream.read(count)
    if len(found) != count:
        raise EOFError
    return found


if __name__ == "__main__":
    sys.exit(main())
