"""Attacks the connections between a run and its workers, and pools of servers.

A run with honest workers is disturbed by strangers on its port, certificates and clocks that do not fit, and a relay that knows the
token and changes the messages of a worker. After each attack the scores are those of an undisturbed run, or the run or the worker
says why not; the token is in no command line, environment, log, file or message; threads and memory of the run are limited.

A server of a pool that exchanges its weights under the same name must be noticed. A worker that knows the token and lies with plausible
numbers is not: `SECURITY.md` says so, and this script shows it.

    python bench/attack/workers.py --binary target/debug/lm-eval [--seed 0] [--scale 1]

Controls: a lie changes the scores, so the comparison notices wrong numbers; the flood is seen to be larger than the number of
connections that are kept; the relay without a change passes; the token is found in its own file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import re
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stand_in_model import Model
from support import Tally, arguments

TOKEN = "attack-token-0123456789abcdef0123456789"
DOCUMENTS = 60

PLUGIN = """\
import hashlib, os
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

@register_model("hashed")
class Hashed(LM):
    asked = 0

    def __init__(self, batch_size=1, device=None, **kwargs):
        super().__init__()

    def loglikelihood(self, requests):
        answers = []
        for context, continuation in [request.args for request in requests]:
            Hashed.asked += 1
            lies = "LIE_AFTER" in os.environ and Hashed.asked > int(os.environ["LIE_AFTER"])
            digest = hashlib.sha256((context + continuation + ("!" if lies else "")).encode()).digest()
            answers.append((-1 - digest[0] / 16, False))
        return answers

    def loglikelihood_rolling(self, requests):
        return [(-1.0, False) for _ in requests]

    def generate_until(self, requests):
        return ["x" for _ in requests]
"""

TASK = """\
task: choice
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_target: g
doc_to_choice: o
"""


class Bench:
    def __init__(self, binary: str, folder: Path) -> None:
        self.binary, self.folder, self.count = binary, folder, 0
        rows = [{"q": f"What is {i}+1?", "o": [f" {i}", f" {i + 1}", " x"], "g": 1} for i in range(DOCUMENTS)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "choice.yaml").write_text(TASK.replace("rows.jsonl", str(folder / "rows.jsonl")))
        (folder / "plugin.py").write_text(PLUGIN)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN)
        gcc = ["gcc", "-O1", "-shared", "-fPIC", "-o", folder / "faults.so", Path(__file__).with_name("faults.c"), "-ldl"]
        subprocess.run(gcc, check=True)
        run = Run(self)
        run.worker()
        assert run.end() == 0, run.stderr()
        self.expected = run.scores()
        assert self.expected

    def environment(self, **variables: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        kept |= {"HOME": str(self.folder), "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", **variables}
        if any(name.startswith("CLOCK_") for name in variables):
            kept["LD_PRELOAD"] = str(self.folder / "faults.so")
        return kept


class Run:
    """A run that waits for workers."""

    def __init__(self, bench: Bench, more: str = "", host: str = "127.0.0.1", **variables: str) -> None:
        bench.count += 1
        self.bench, self.out = bench, bench.folder / f"out{bench.count}"
        self.log = bench.folder / f"run{bench.count}.log"
        words = ["run", "--model", "hashed", "--plugins", "plugin.py", "--tasks", "choice.yaml", "-s", "-o", str(self.out)]
        words += ["--bootstrap_iters", "0", "--workers", f"listen={host}:0,token_file=token,stall=5{more}", "--verbosity", "DEBUG"]
        with self.log.open("wb") as log:
            # The usual limit of open files.
            limits = ["prlimit", "--nofile=1024", bench.binary]
            self.child = subprocess.Popen([*limits, *words], cwd=bench.folder, stdout=log, stderr=log, env=bench.environment(**variables))
        self.workers: list[tuple[subprocess.Popen[bytes], Path]] = []
        address = self.wait_for(r"Waiting for workers at (\S+): ")
        self.address = address
        self.port = int(address.rsplit(":", 1)[1])

    def stderr(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, seconds: float = 60) -> str:
        """Waits for a line of the run, which is killed if the line does not come."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := re.search(pattern, self.stderr()):
                return found[1] if found.groups() else found[0]
            if self.child.poll() is not None:
                break
            time.sleep(0.02)
        self.child.kill()
        raise TimeoutError(f"no {pattern} in {self.stderr()[-2000:]}")

    def worker(self, *more: str, address: str | None = None, token: str = "token", **variables: str) -> subprocess.Popen[bytes]:
        log = self.bench.folder / f"worker{self.bench.count}-{len(self.workers)}.log"
        words = ["worker", "--connect", address or self.address, "--token_file", token, "--patience", "20", *more]
        with log.open("wb") as file:
            child = subprocess.Popen([self.bench.binary, *words], cwd=self.bench.folder, stdout=file, stderr=file, env=self.bench.environment(**variables))
        self.workers.append((child, log))
        return child

    def end(self, seconds: float = 60) -> int | None:
        """Waits for the end; `None` if it does not come."""
        try:
            status: int | None = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
            self.child.kill()
            self.child.wait()
        for child, _ in self.workers:
            try:
                child.wait(3)
            except subprocess.TimeoutExpired:
                # One that lost its connection looks for the run for a while.
                child.kill()
                child.wait()
        return status

    def scores(self) -> object:
        found = sorted(self.out.rglob("results_*.json"))
        if not found:
            return None
        metrics = json.loads(found[-1].read_text())["results"]["choice"]
        samples = [json.loads(line) for line in next(self.out.rglob("samples_*.jsonl")).read_text().splitlines()]
        return {name: value for name, value in metrics.items() if "," in name}, [sample["resps"] for sample in samples]

    def verdict(self, seconds: float = 60) -> str:
        status = self.end(seconds)
        if status is None:
            return "HANG"
        if status < 0 or "panicked" in self.stderr() or any("panicked" in log.read_text(errors="replace") for _, log in self.workers):
            return "CRASH"
        if status == 0:
            return "complete" if self.scores() == self.bench.expected else "SILENT"
        return "refused" if "error" in self.stderr() else "CRASH"


# TLS and clocks.


def certificate(folder: Path, name: str, subject: str, names: str) -> None:
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
    words += ["-subj", subject, "-addext", f"subjectAltName={names}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
    subprocess.run(words, check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)


def issued(folder: Path, name: str, names: str) -> None:
    """A certificate that the authority `ca` issued."""
    (folder / "names").write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
    words = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"]
    subprocess.run([*words, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr"], check=True, capture_output=True)
    words = ["openssl", "x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-days", "30"]
    subprocess.run([*words, "-CAcreateserial", "-extfile", folder / "names", "-out", folder / f"{name}.pem"], check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)


def attack_tls(bench: Bench, tally: Tally) -> None:
    folder = bench.folder
    certificate(folder, "ca", "/CN=authority", "DNS:authority")
    certificate(folder, "other", "/CN=other", "IP:127.0.0.1")
    certificate(folder, "own", "/CN=own", "DNS:elsewhere")
    issued(folder, "right", "IP:127.0.0.1,DNS:localhost")
    issued(folder, "elsewhere", "DNS:elsewhere.example")
    years = str(int(time.time()) + 86400 * 3650)
    past = str(int(time.time()) - 86400 * 3650)
    # The certificate of the run, that which the worker trusts, changes of the worker, whether it may join.
    cases: list[tuple[str, str, str | None, dict[str, str], bool]] = [
        ("of the authority", "right", "ca.pem", {}, True),
        ("itself, another name", "own", "own.pem", {}, True),
        ("another authority", "right", "other.pem", {}, False),
        ("self-signed, another one", "own", "other.pem", {}, False),
        ("another host", "elsewhere", "ca.pem", {}, False),
        ("expired by the clock of the worker", "right", "ca.pem", {"CLOCK_BASE": years}, False),
        ("itself, expired", "own", "own.pem", {"CLOCK_BASE": years}, False),
        ("not valid yet", "right", "ca.pem", {"CLOCK_BASE": past}, False),
        ("the worker without TLS", "right", None, {}, False),
    ]
    for name, shown, trusted, variables, joins in cases:
        run = Run(bench, f",tls_cert={shown}.pem,tls_key={shown}.key")
        child = run.worker(*(["--tls_ca", trusted] if trusted else []), **variables)
        if joins:
            tally.add("TLS", run.verdict(), f"{name}: {run.stderr()[-500:]}")
            continue
        try:
            status = child.wait(30)
        except subprocess.TimeoutExpired:
            status = 0
        joined = "joined" in run.stderr()
        # The right worker finishes the run, with the right scores.
        run.worker("--tls_ca", "right.pem" if shown == "right" else f"{shown}.pem")
        verdict = run.verdict()
        text = run.workers[0][1].read_text(errors="replace")
        if joined or status == 0:
            verdict = "SILENT"
        tally.add("TLS", "refused" if verdict == "complete" and "error" in text else verdict, f"{name}: {text[-300:]} {run.stderr()[-300:]}")
    run = Run(bench)
    child = run.worker("--tls_ca", "ca.pem")
    status = child.wait(30)
    run.worker()
    verdict = run.verdict()
    tally.add("TLS", "SILENT" if status == 0 else verdict, "the run without TLS")
    for step in ("-3600", "3600", "-86400", "86400"):
        run = Run(bench)
        run.worker(CLOCK_STEP=step)
        run.worker()
        tally.add("clocks that disagree", run.verdict(), f"{step}: {run.stderr()[-300:]}")
    run = Run(bench, CLOCK_STEP="3600", CLOCK_AFTER="3")
    run.worker(CLOCK_STEP="-3600", CLOCK_AFTER="3")
    tally.add("clocks that disagree", run.verdict(), f"jumping: {run.stderr()[-300:]}")


# The token.


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def attack_token(bench: Bench, tally: Tally) -> None:
    run = Run(bench)
    run.worker(LIE_AFTER="1000000")
    found: set[str] = set()
    looked = 0
    while run.child.poll() is None:
        for process in processes():
            for name in ("cmdline", "environ"):
                try:
                    content = Path(f"/proc/{process}/{name}").read_bytes()
                except OSError:
                    continue
                looked += 1
                if TOKEN.encode() in content:
                    found.add(f"{name} of {process}")
        time.sleep(0.01)
    assert run.verdict() == "complete", run.stderr()
    assert looked > 10 and TOKEN in (bench.folder / "token").read_text()
    tally.add("token in processes", "LEAK" if found else "held", str(found))
    wrong = bench.folder / "wrong"
    wrong.touch(mode=0o600)
    wrong.write_text("another-token-0123456789abcdef0123")
    run = Run(bench)
    run.worker(token="wrong")
    run.wait_for("another token")
    run.worker()
    verdict = run.verdict()
    tally.add("another token", "refused" if verdict == "complete" else verdict, run.stderr()[-500:])
    bench.folder.joinpath("open").write_text(TOKEN)
    bench.folder.joinpath("open").chmod(0o644)
    leaks = []
    for path in bench.folder.rglob("*"):
        if path.is_file() and path.name not in ("token", "open") and TOKEN.encode() in path.read_bytes():
            leaks.append(str(path))
    tally.add("token in files", "LEAK" if leaks else "held", str(leaks))


# Strangers.


class Flood:
    """Connections that say nothing, and are opened again when they are closed."""

    def __init__(self, port: int, size: int, sources: list[str], first: bytes = b"") -> None:
        self.port, self.sources, self.first = port, sources, first
        self.connections: list[socket.socket] = []
        self.opened = 0
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.keep, args=(size // 4, number), daemon=True) for number in range(4)]
        for thread in self.threads:
            thread.start()

    def keep(self, size: int, number: int) -> None:
        own: list[socket.socket] = []
        while not self.is_over.is_set():
            while len(own) < size and not self.is_over.is_set():
                connection = socket.socket()
                connection.settimeout(0.2)
                try:
                    connection.bind((self.sources[(number + len(own)) % len(self.sources)], 0))
                    connection.connect(("127.0.0.1", self.port))
                    connection.setblocking(False)
                    if self.first:
                        connection.send(self.first)
                except OSError:
                    connection.close()
                    break
                own.append(connection)
                self.opened += 1
            alive = []
            for connection in own:
                try:
                    if connection.recv(4096):
                        alive.append(connection)
                    else:
                        connection.close()
                except BlockingIOError:
                    alive.append(connection)
                except OSError:
                    connection.close()
            own = alive
            time.sleep(0.01)
        for connection in own:
            connection.close()

    def end(self) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def attack_floods(bench: Bench, tally: Tally, scale: float) -> None:
    size = round(2000 * scale)
    greeting = b"lm-eval worker 2" + b"\0" * 31
    cases = {
        "silent, other addresses": (["127.0.0.9", "127.0.0.8"], b""),
        "silent, the worker's address": (["127.0.0.1"], b""),
        "half a greeting": (["127.0.0.9"], greeting),
        "TLS records": (["127.0.0.9"], b"\x16\x03\x01\x02\x00\x01"),
    }
    for name, (sources, first) in cases.items():
        run = Run(bench)
        flood = Flood(run.port, size, sources, first)
        most, memory = 0, 0.0
        until = time.monotonic() + 60
        while flood.opened < size // 2 and time.monotonic() < until:
            time.sleep(0.05)
        run.worker()
        while run.child.poll() is None and time.monotonic() < until:
            status = Path(f"/proc/{child_of(run.child.pid)}/status").read_text()
            most = max(most, int(re.search(r"Threads:\s+(\d+)", status)[1]))  # type: ignore[index]
            memory = max(memory, int(found[1]) / 1024 if (found := re.search(r"VmRSS:\s+(\d+)", status)) else 0)
            time.sleep(0.05)
        ended_in_time = run.child.poll() is not None
        flood.end()
        verdict = run.verdict() if ended_in_time else "HANG"
        assert flood.opened > 500, flood.opened
        if verdict == "complete" and (most > 600 or memory > 400):
            verdict = "MEMORY"
        detail = f"{name}: {flood.opened} connections, {most} threads, {memory:.0f} MB {run.stderr()[-300:]}"
        tally.add("floods of connections", verdict, detail)
        if not ended_in_time:
            run.end(1)


def child_of(process: int) -> int:
    """The process that `prlimit` became: itself."""
    return process


# A relay that knows the token.


def mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


class Channel:
    """One side of an authenticated connection."""

    def __init__(self, connection: socket.socket, side: str) -> None:
        self.connection, self.sent, self.received = connection, 0, 0
        connection.settimeout(30)
        own = os.urandom(32)
        connection.sendall(b"lm-eval worker 2" + own)
        other = self.read(48)[16:]
        run, worker = (own, other) if side == "run" else (other, own)
        claim, token = run + worker, TOKEN.encode()
        if side == "worker":
            connection.sendall(mac(token, b"worker", claim))
            self.read(32)
        else:
            self.read(32)
            connection.sendall(mac(token, b"run", claim))
        theirs = "run" if side == "worker" else "worker"
        self.out_key = mac(token, f"frames of the {side}".encode(), claim)
        self.in_key = mac(token, f"frames of the {theirs}".encode(), claim)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.connection.recv(size - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def receive(self) -> bytes:
        (length,) = struct.unpack(">Q", self.read(8))
        body, tag = self.read(length), self.read(32)
        assert tag == mac(self.in_key, struct.pack(">Q", self.received), body)
        self.received += 1
        return body

    def frame(self, body: bytes) -> bytes:
        number = struct.pack(">Q", self.sent)
        self.sent += 1
        return struct.pack(">Q", len(body)) + body + mac(self.out_key, number, body)

    def send(self, body: bytes) -> None:
        self.connection.sendall(self.frame(body))


#: Changes the answers of a worker: a message, and a generator of random numbers. Returns messages.
Change = Callable[[dict[str, Any], random.Random], list[Any]]


class Relay:
    """Sits between a run and a worker, and changes the answers of the worker."""

    def __init__(self, address: str, change: Change, rng: random.Random) -> None:
        self.address, self.change, self.rng, self.changed = address, change, rng, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.pass_on, args=(connection,), daemon=True).start()
            except OSError:
                return

    def pass_on(self, connection: socket.socket) -> None:
        try:
            host, port = self.address.rsplit(":", 1)
            to_run = Channel(socket.create_connection((host, int(port))), "worker")
            to_worker = Channel(connection, "run")
        except (OSError, ConnectionError):
            connection.close()
            return

        def down() -> None:
            try:
                while True:
                    to_worker.send(to_run.receive())
            except (OSError, ConnectionError, AssertionError):
                connection.close()

        threading.Thread(target=down, daemon=True).start()
        try:
            while True:
                body = to_worker.receive()
                message = json.loads(body)
                if "answers" not in message:
                    to_run.send(body)
                    continue
                self.changed += 1
                for part in self.change(message, self.rng):
                    if isinstance(part, bytes):
                        to_run.connection.sendall(part)
                    elif isinstance(part, str):
                        to_run.send(part.encode())
                    elif callable(part):
                        part(to_run)
                    else:
                        to_run.send(json.dumps(part).encode())
        except (OSError, ConnectionError, AssertionError):
            to_run.connection.close()
            connection.close()


def each(change: Callable[[list[Any]], Any]) -> Change:
    """Changes one answer of a message: a list of the index and the answer."""

    def changed(message: dict[str, Any], rng: random.Random) -> list[Any]:
        place = rng.randrange(len(message["answers"]))
        message["answers"][place] = change(message["answers"][place])
        return [message]

    return changed


def valued(value: Any) -> Change:
    return each(lambda answer: [answer[0], [[value, False], *answer[1][1:]]])


def flipped(channel: Channel) -> None:
    frame = bytearray(channel.frame(b'{"alive":true}'))
    frame[-1] ^= 1
    channel.connection.sendall(frame)


CHANGES: dict[str, Change] = {
    "nothing": lambda message, _: [message],
    "NaN": valued(float("nan")),
    "infinity": valued(float("-inf")),
    "above zero": valued(3.5),
    "a string": valued("-1.0"),
    "a huge integer": valued(-(10**400)),
    "null": valued(None),
    "generated text": each(lambda answer: [answer[0], ["text", *answer[1][1:]]]),
    "a rolling answer": each(lambda answer: [answer[0], [-1.5, *answer[1][1:]]]),
    "an index out of range": each(lambda answer: [10**6, answer[1]]),
    "a negative index": each(lambda answer: [-1, answer[1]]),
    "a fractional index": each(lambda answer: [0.5, answer[1]]),
    "no answer": lambda message, _: [{"answers": message["answers"][1:]}],
    "the same answer twice, then another": lambda message, _: [message, {"answers": [[a[0], [[-0.001, True], *a[1][1:]]] for a in message["answers"]]}],
    "another shape": lambda _, __: [{"answers": 7}],
    "an unknown message": lambda message, _: [{"unknown": 1}, message],
    "not JSON": lambda _, __: ["{"],
    "deep JSON": lambda _, __: ['{"answers":' + "[" * 100_000 + "]" * 100_000 + "}"],
    "an early end": lambda message, _: [{"done": True}, message],
    "a second description": lambda message, _: [{"ready": {}}, message],
    "a flipped bit": lambda message, _: [message, flipped],
    "a repeated frame": lambda message, _: [lambda channel, m=message: channel.connection.sendall(channel.frame(json.dumps(m).encode()) * 2)],
    "an endless frame": lambda message, _: [message, struct.pack(">Q", 1 << 40)],
    "negative usage": each(lambda answer: [answer[0], [*answer[1][:2], -5, -5]]),
}


def attack_messages(bench: Bench, tally: Tally, rng: random.Random) -> None:
    for name, change in CHANGES.items():
        run = Run(bench)
        relay = Relay(run.address, change, rng)
        run.worker(address=relay.own)
        if name != "nothing":
            # An honest worker takes over what the other one does not answer.
            run.wait_for("joined")
            run.worker()
        verdict = run.verdict(90)
        assert name != "nothing" or (verdict == "complete" and relay.changed), run.stderr()
        # A wrong value fails its request: the run says so, and has no score for the document.
        status = run.child.returncode
        if verdict == "SILENT" and status != 0:
            verdict = "refused"
        tally.add("changed messages", verdict, f"{name}, {relay.changed} messages: {status} {run.stderr()[-600:]}")
        relay.listener.close()


def attack_lies(bench: Bench, tally: Tally) -> None:
    """Shows what is accepted: plausible numbers of somebody who knows the token."""
    run = Run(bench)
    run.worker(LIE_AFTER="100")
    status = run.end()
    assert status == 0 and run.scores() != bench.expected, "a lie must change the scores, or this script would notice nothing"
    tally.add("a worker that lies plausibly", "accepted", "")


# Pools.


def attack_pools(bench: Bench, tally: Tally, scale: float) -> None:
    def run(servers: list[Model], recheck: str) -> tuple[int, str, str]:
        bench.count += 1
        out = bench.folder / f"out{bench.count}"
        (bench.folder / "pool.json").write_text(json.dumps([server.url for server in servers]))
        model = f"model=m,base_url=@pool.json,tokenizer_backend=remote,scoring=echo,num_concurrent=1,recheck={recheck}"
        words = ["run", "--model", "local-completions", "--model_args", model, "--tasks", "choice.yaml", "-s", "-o", str(out)]
        done = subprocess.run(
            [bench.binary, *words, "--bootstrap_iters", "0"], cwd=bench.folder, env=bench.environment(), capture_output=True, text=True, timeout=120
        )
        table = "\n".join(line for line in done.stdout.splitlines() if line.startswith("|"))
        return done.returncode, table, done.stderr

    status, expected, text = run([Model(0.05), Model(0.05)], "1")
    assert status == 0 and "warning" not in text, text
    for swapped in range(2):
        for after in (20, 40, 60)[: max(1, round(scale))]:
            servers = [Model(0.05, after if number == swapped else None) for number in range(2)]
            status, table, text = run(servers, "1")
            said = "gives other numbers than when it joined" in text
            tally.add("a server exchanges its weights", "reported" if said else "SILENT", f"server {swapped} after {after}: {table} {text[-500:]}")
    # Control: without the comparison, the same exchange passes unnoticed, and changes the scores.
    status, table, text = run([Model(0.05, 20), Model(0.05)], "0")
    assert status == 0 and "other numbers" not in text and table != expected, (table, expected, text)


def main() -> int:
    given = arguments(__doc__).parse_args()
    rng = random.Random(given.seed)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(given.binary, Path(name))
        tally.attempt(attack_messages, bench, tally, rng)
        tally.attempt(attack_lies, bench, tally)
        tally.attempt(attack_token, bench, tally)
        tally.attempt(attack_tls, bench, tally)
        tally.attempt(attack_pools, bench, tally, given.scale)
        tally.attempt(attack_floods, bench, tally, given.scale)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
