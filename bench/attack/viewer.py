"""Attacks `lm-eval view` and `lm-eval report`: other sites, other users, slow and many clients, paths, links, hostile names, large files.

    python bench/attack/viewer.py --binary target/debug/lm-eval [--seed 0] [--scale 1]

By default a samples file of 200 MB and 2,000 runs; `--scale 5` makes 1 GB and 10,000 runs, `--scale 50` 100,000 runs.

A run with a marker lies outside of the folder that is served: an answer with the marker is a LEAK. Controls: a server over both folders
does show the marker, a client that sends a whole request is answered, a page with a script of its own is noticed by the browser check.
The check of another user needs root and the user `nobody`; the check in a browser needs Chromium. Without them they are skipped, and
the last lines say so.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from support import Tally, arguments, run

STAMP = "2026-11-15T02-46-50.151442"
MARKER = "marker-7f3a91"

#: Memory of the server, in megabytes, that no attack may exceed: the index and a few blocks of a file.
MEMORY = 1500

#: Seconds within which a viewer has to answer a plain request while it is attacked.
PATIENCE = 20.0


def sample(document: int, prompt: str, answer: str) -> dict[str, object]:
    return {
        "doc_id": document,
        "doc": {"q": prompt, "subject": "law"},
        "target": "1",
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": f"{document:064x}",
        "prompt_hash": f"{document:064x}",
        "target_hash": "1" * 64,
        "acc": document % 2,
    }


def write_run(folder: Path, count: int, name: str = "m", task: str = "quiz", text: str = "question", stamp: str = STAMP) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "results": {task: {"alias": task, "acc,none": 0.5, "acc_stderr,none": 0.01}},
        "group_subtasks": {task: []},
        "configs": {task: {"task": task}},
        "versions": {task: 1},
        "n-shot": {task: 0},
        "higher_is_better": {task: {"acc": True}},
        "n-samples": {task: {"original": count, "effective": count}},
        "config": {"model": "dummy", "model_args": f"pretrained={name}"},
        "model_name": name,
        "date": 1.0,
    }
    (folder / f"results_{stamp}.json").write_text(json.dumps(results))
    if count:
        lines = (json.dumps(sample(index, f"{text} {index}", f"answer {index}")) + "\n" for index in range(count))
        with open(folder / f"samples_{task.replace('/', '_')}_{stamp}.jsonl", "w") as file:
            file.writelines(lines)
    return folder


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


class Viewer:
    """A running viewer."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def connect(self, timeout: float = 60) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, request: bytes, timeout: float = 60) -> Reply:
        """Sends bytes as they are: clients of libraries would tidy them up."""
        with self.connect(timeout) as client:
            client.sendall(request)
            answer = http.client.HTTPResponse(client)
            answer.begin()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, headers, answer.read())

    def get(self, path: str, timeout: float = 60, headers: dict[str, str] | None = None) -> Reply:
        given = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return self.raw(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode(), timeout)

    def query(self, path: str, timeout: float = 60, **parameters: str) -> Reply:
        return self.get(f"{path}?{urllib.parse.urlencode(parameters)}", timeout)

    def first_run(self) -> str:
        return str(self.get("/api/runs").json()["runs"][0]["id"])

    def megabytes(self) -> int:
        """The most memory that the server had so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", status)
        return int(found[1]) // 1024 if found else 0


@contextlib.contextmanager
def viewer(binary: str, *folders: Path, open_files: int = 0) -> Iterator[Viewer]:
    words = [binary, "view", *map(str, folders), "--port", "0", "--no-open"]
    if open_files:
        # It replaces itself by the program, so the process is the viewer's.
        words = ["prlimit", f"--nofile={open_files}", *words]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])
        yield Viewer(process, port)
    finally:
        process.kill()
        process.wait()


def answers(server: Viewer) -> str:
    """Whether a plain request is answered in time."""
    began = time.monotonic()
    try:
        reply = server.get("/api/runs", timeout=PATIENCE)
    except (OSError, http.client.HTTPException) as error:
        return f"HANG {error!r}"
    if reply.status != 200 or server.process.poll() is not None:
        return f"CRASH status {reply.status}"
    return f"held {time.monotonic() - began:.1f}"


def note(tally: Tally, attack: str, found: str) -> None:
    outcome, _, detail = found.partition(" ")
    tally.add(attack, outcome, detail)


# Reading what is not served.


def paths(run_id: str, outside: Path) -> list[str]:
    """Addresses that try to leave the folder, in every place that an address has."""
    secret = str(outside / f"results_{STAMP}.json").lstrip("/")
    tries = [
        f"{'../' * 12}{secret}",
        f"{'%2e%2e/' * 12}{secret}",
        f"{'..%2f' * 12}{secret.replace('/', '%2f')}",
        f"{'....//' * 12}{secret}",
        f"{'%252e%252e%252f' * 12}{secret}",
        f"{'..%5c' * 12}{secret.replace('/', '%5c')}",
        f"/{secret}",
        f"%2f{secret}",
        f"file:///{secret}",
        f"{secret}%00.json",
        f"/proc/self/root/{secret}",
        "/proc/self/environ",
    ]
    places = [
        "/{}",
        "/api/{}",
        "/api/run?run={}",
        "/api/task?run={}&task=quiz",
        "/api/samples?run={}&task=quiz",
        "/api/sample?run={}&task=quiz&row=0",
        "/api/answers?run={}",
        "/api/compare?base={}&new={}",
        "/api/flips?base={}&new={}&task=quiz&filter=none&metric=acc",
        f"/api/task?run={run_id}&task={{}}",
        f"/api/samples?run={run_id}&task={{}}",
        f"/api/samples?run={run_id}&task=quiz&filter={{}}",
        f"/api/samples?run={run_id}&task=quiz&sort={{}}",
        f"/api/samples?run={run_id}&task=quiz&where={{}}",
        f"/api/samples?run={run_id}&task=quiz&in={{}}&text=a",
        f"/api/compare?base={run_id}&new={{}}",
    ]
    return [place.format(*[text] * place.count("{}")) for place in places for text in tries]


def attack_paths(binary: str, scratch: Path, tally: Tally) -> None:
    inside, outside = scratch / "inside", scratch / "outside"
    write_run(inside / "m", 4)
    write_run(outside, 4, name=MARKER, text=MARKER)
    with viewer(binary, inside, outside) as server:
        assert MARKER.encode() in server.get("/api/runs").body, "control: the marker is shown by a server that may"
    for name, target in (
        ("m/results_2026-11-15T02-46-59.json", outside / f"results_{STAMP}.json"),
        (f"m/samples_other_{STAMP}.jsonl", outside / f"samples_quiz_{STAMP}.jsonl"),
        ("samples_alone_2026-11-15T02-46-51.jsonl", outside / f"samples_quiz_{STAMP}.jsonl"),
        ("folder", outside),
        ("chain", Path("folder")),
        ("up", Path("..")),
        ("answers.journal", outside / f"samples_quiz_{STAMP}.jsonl"),
        ("results.json", Path("../outside") / f"results_{STAMP}.json"),
    ):
        (inside / name).symlink_to(target)
    with viewer(binary, inside) as server:
        run_id = server.first_run()
        for path in paths(run_id, outside):
            for version in ("1.1", "1.0"):
                head = f"GET {path} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                try:
                    reply = server.raw(head.encode())
                except (OSError, http.client.HTTPException) as error:
                    tally.add("path traversal", "HANG", f"{path}: {error!r}")
                    continue
                if MARKER.encode() in reply.body and MARKER not in path:
                    tally.add("path traversal", "LEAK", path)
                else:
                    tally.add("path traversal", "held")
        listed = server.get("/api/runs")
        tally.add("links that lead out", "LEAK" if MARKER.encode() in listed.body else "held", "list")
        for entry in listed.json()["runs"]:
            for task in ("quiz", "other", "alone"):
                for what in ("task", "samples", "sample"):
                    reply = server.query(f"/api/{what}", run=entry["id"], task=task, row="0", text=MARKER)
                    leaked = MARKER.encode() in reply.body
                    tally.add("links that lead out", "LEAK" if leaked else "held", f"{what} of {task}")
        # A file becomes a link after it was listed.
        samples = inside / "m" / f"samples_quiz_{STAMP}.jsonl"
        assert server.query("/api/samples", run=run_id, task="quiz").status == 200
        samples.unlink()
        samples.symlink_to(outside / f"samples_quiz_{STAMP}.jsonl")
        for what in ("task", "samples", "sample"):
            reply = server.query(f"/api/{what}", run=run_id, task="quiz", row="0")
            tally.add("file replaced by a link", "LEAK" if MARKER.encode() in reply.body else "held", what)
    done = run(binary, scratch, "report", str(inside / "m"), "-o", "linked.html")
    page = (scratch / "linked.html").read_text() if done.returncode == 0 else ""
    tally.add("file replaced by a link", "LEAK" if MARKER in page else "held", "report")


# Other sites and other users.


def attack_sites(binary: str, scratch: Path, tally: Tally) -> None:
    folder = write_run(scratch / "sites" / "m", 4).parent
    with viewer(binary, folder) as server:
        own = f"127.0.0.1:{server.port}"
        assert server.get("/api/runs").status == 200, "control: an own request is answered"
        same = {"Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"}
        assert server.get("/api/runs", headers=same).status == 200, "control: the own page is answered"
        assert server.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status == 200, "control: a link to the viewer works"
        hosts = ["evil.example", f"evil.example:{server.port}", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0"]
        hosts += ["a@localhost", "localhost@evil.example", "evil.example#localhost", "127.1.evil.example", "[::ffff:10.0.0.1]", "", "[", "]"]
        hosts += ["localhost evil.example", "xn--localhost", "localhost%00.evil.example", "2130706433.evil.example", "evil.example:127.0.0.1"]
        for host in hosts:
            for path in ("/", "/api/runs", "/app.js", "/api/live"):
                reply = server.get(path, headers={"Host": host})
                tally.add("foreign Host (DNS rebinding)", "LEAK" if reply.status == 200 else "held", f"{host!r} {path}")
        absolute = server.raw(b"GET http://evil.example/api/runs HTTP/1.1\r\nConnection: close\r\n\r\n")
        tally.add("foreign Host (DNS rebinding)", "LEAK" if absolute.status == 200 else "held", "absolute address")
        foreign: list[dict[str, str]] = [
            {"Origin": origin}
            for origin in ("http://evil.example", "null", "https://127.0.0.1", f"http://127.0.0.1:{server.port + 1}", "http://localhost")
        ]
        foreign += [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "nonsense")]
        for headers in foreign:
            for path in ("/api/runs", "/api/run?run=x", "/api/samples?run=x&task=y&where=range(10**9)|list", "/api/live"):
                reply = server.get(path, headers=headers)
                readable = "access-control-allow-origin" in reply.headers
                tally.add("page of another site", "LEAK" if readable or reply.status != 403 else "held", f"{headers} {path}")
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"):
            head = f"{method} /api/runs HTTP/1.1\r\nHost: {own}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            reply = server.raw(head.encode())
            tally.add("other methods", "LEAK" if reply.status == 200 else "held", method)
        for path in ("/", "/app.js", "/api/runs", "/nothing"):
            reply = server.get(path)
            policy = reply.headers.get("content-security-policy", "")
            strict = "default-src 'none'" in policy and "unsafe" not in policy and reply.headers.get("x-content-type-options") == "nosniff"
            tally.add("policy of the pages", "held" if strict else "LEAK", path)


def attack_as_another_user(binary: str, scratch: Path, tally: Tally, skipped: list[str]) -> None:
    if os.getuid() != 0:
        skipped.append("another user of the machine: needs root")
        return
    folder = write_run(scratch / "users" / "m", 4, name=MARKER).parent
    nobody = pwd.getpwnam("nobody").pw_uid
    with viewer(binary, folder) as server:
        run_id = server.first_run()
        for path in ("/api/runs", f"/api/run?run={run_id}", f"/api/samples?run={run_id}&task=quiz", "/", "/app.js"):
            own, other = (ask_as(user, server.port, path) for user in (0, nobody))
            assert own.startswith("200"), f"control: the own user is answered: {own}"
            leaked = other.startswith("200") or MARKER in other
            tally.add("another user of the machine", "LEAK" if leaked else "held", f"{path}: {other[:80]}")


def ask_as(user: int, port: int, path: str) -> str:
    """The status and the body that a process of another user gets."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # The interpreter may be in a folder that the other user cannot read, so nothing is executed.
        with contextlib.suppress(BaseException):
            os.setuid(user)
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            client.request("GET", path)
            answer = client.getresponse()
            os.write(writing, f"{answer.status} ".encode() + answer.read(4000))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    return text


# Slow and many clients.


def attack_with_slow_clients(binary: str, scratch: Path, tally: Tally, count: int) -> None:
    """Clients that send their request a byte at a time, or nothing, while the server has few file descriptors."""
    folder = write_run(scratch / "slow" / "m", 4).parent
    with viewer(binary, folder, open_files=256) as server:
        assert answers(server).startswith("held"), "control: without an attack it answers"
        stop = threading.Event()

        def drip(index: int) -> None:
            while not stop.is_set():
                try:
                    with server.connect(30) as client:
                        client.sendall(b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n" if index % 3 else b"")
                        while not stop.wait(1):
                            client.sendall(b"X-a: b\r\n" if index % 3 == 1 else b"X")
                except OSError:
                    stop.wait(0.2)

        threads = [threading.Thread(target=drip, args=(index,), daemon=True) for index in range(count)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            note(tally, "slow clients", answers(server))
        stop.set()
        for thread in threads:
            thread.join(timeout=40)
        # A client that never reads its answer.
        with server.connect() as client:
            client.sendall(b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
            note(tally, "client that does not read", answers(server))
        note(tally, "after slow clients", answers(server))


def attack_with_many_clients(binary: str, scratch: Path, tally: Tally, count: int) -> None:
    folder = write_run(scratch / "many" / "m", 100).parent
    with viewer(binary, folder, open_files=256) as server:
        run_id = server.first_run()
        while not (first := server.query("/api/samples", run=run_id, task="quiz")).json()["index"]["complete"]:
            time.sleep(0.1)
        expected = first.body
        outcomes: list[str] = []

        def client() -> None:
            # A thread of this script that gets no time for seconds looks like a slow client, so it may try again.
            for attempt in range(3):
                try:
                    reply = server.query("/api/samples", timeout=120, run=run_id, task="quiz")
                    outcomes.append("held" if reply.body == expected else f"SILENT {reply.body[:80]!r}")
                    return
                except (OSError, http.client.HTTPException) as error:
                    if attempt == 2:
                        outcomes.append(f"HANG {error!r}")

        threads = [threading.Thread(target=client) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for outcome in outcomes:
            note(tally, "many clients at once", outcome)
        memory = server.megabytes()
        tally.add("memory with many clients", "held" if memory < MEMORY else "MEMORY", f"{memory} MB")


def attack_with_garbage(binary: str, scratch: Path, tally: Tally, rng: random.Random, count: int) -> None:
    folder = write_run(scratch / "garbage" / "m", 4).parent
    with viewer(binary, folder) as server:
        whole = f"GET /api/runs?x=1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode()
        for _ in range(count):
            damaged = bytearray(whole)
            for _ in range(rng.randrange(1, 6)):
                damaged[rng.randrange(len(damaged) - 4)] = rng.randrange(256)
            with contextlib.suppress(OSError), server.connect(15) as client:
                client.sendall(bytes(damaged))
                client.shutdown(socket.SHUT_WR)
                client.recv(1 << 16)
        huge = b"GET /" + b"a" * (4 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        many = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-a: b\r\n" * 200_000 + b"\r\n"
        for request in (huge, many):
            with contextlib.suppress(OSError), server.connect(15) as client:
                client.sendall(request)
                client.recv(1 << 16)
        note(tally, f"{count + 2} damaged requests", answers(server))


# Expensive questions.

EXPENSIVE = [
    "range(1000000000)|list|length > 0",
    "('a'*10000000000)|length > 0",
    "[0]*10**9 == 1",
    "10**10**10 > 1",
    "(10**100000)**1000 > 1",
    "'x'.ljust(10**10) == 'y'",
    "'%010000000000d' % 1 == 'x'",
    "'{:>9999999999}'.format(1) == 'x'",
    "range(10**9)|sum > 0",
    "range(10**7)|map('string')|join|length > 1",
    "2**(2**40) > 1",
    "('ab'*10000000)|upper|lower|length > 0",
    "('a,'*10**7).split(',')|length > 0",
    "lipsum(n=10**6)|length > 0",
    "(" * 5000 + "1" + ")" * 5000,
    "[" * 20000,
    "prompt|replace('', 'x'*10**6)|length > 0",
    "range(10**9)|batch(1)|list",
    "10**8 in range(10**9)|map('abs')",
    "(range(10**6)|list + range(10**6)|list)|sort|length > 0",
    "('a'*10**6) in ('a'*10**7 ~ 'b')",
]

PATTERNS = [
    "(a+)+$",
    "(a|aa)+$",
    "(.*)*x",
    "(?:a{0,1000}){0,1000}b",
    "a{1000}{1000}",
    "(x+x+)+y",
    ".*" * 50 + "z",
    "[a-z]*" * 100,
    "(?i)" + "(ä|ö)" * 2000,
    "\\pL{500}",
    "(" * 300 + "a" + ")" * 300,
]


def attack_with_questions(binary: str, scratch: Path, tally: Tally) -> None:
    """Expressions and patterns that cost a lot for every document. Several at a time must not keep the others waiting."""
    folder = write_run(scratch / "questions" / "m", 3000, text="a" * 200).parent
    with viewer(binary, folder) as server:
        run_id = server.first_run()
        plain = server.query("/api/samples", run=run_id, task="quiz", where="acc == 1").json()
        assert plain["matched"] == 1500, "control: a plain expression selects what it says"
        outcomes: list[tuple[str, str]] = []

        def ask(attack: str, parameters: dict[str, str]) -> None:
            began = time.monotonic()
            try:
                server.query("/api/samples", timeout=200, run=run_id, task="quiz", **parameters)
                outcomes.append((attack, "held"))
            except (OSError, http.client.HTTPException) as error:
                taken = time.monotonic() - began
                outcomes.append((attack, f"HANG {taken:.0f} s, {str(parameters)[:80]}, {error!r}"))

        asked = [("expensive expressions", {"where": text}) for text in EXPENSIVE]
        asked += [("expensive patterns", {"text": text, "regex": "1"}) for text in PATTERNS]
        # Fewer than the server has threads: all of them may be busy for as long as a search may take.
        for start in range(0, len(asked), 6):
            threads = [threading.Thread(target=ask, args=question) for question in asked[start : start + 6]]
            for thread in threads:
                thread.start()
            note(tally, "others during expensive questions", answers(server))
            for thread in threads:
                thread.join()
        for attack, outcome in outcomes:
            note(tally, attack, outcome)
        memory = server.megabytes()
        tally.add("memory with expensive questions", "held" if memory < 2 * MEMORY else "MEMORY", f"{memory} MB")


# Large files and many runs.


def attack_with_size(binary: str, scratch: Path, tally: Tally, megabytes: int) -> None:
    folder = write_run(scratch / "large" / "m", 0)
    block = b"".join(json.dumps(sample(index, "word " * 300 + str(index), "answer")).encode() + b"\n" for index in range(500))
    path = folder / f"samples_quiz_{STAMP}.jsonl"
    with open(path, "wb") as file:
        while file.tell() < megabytes << 20:
            file.write(block)
        size = file.tell()
    with open(folder / f"samples_line_{STAMP}.jsonl", "wb") as file:
        file.write(json.dumps(sample(0, "short", "answer")).encode() + b"\n")
        file.write(b'{"doc_id": 1, "x": "' + b"y" * (megabytes << 19) + b'"}\n')
        file.write(json.dumps(sample(2, "short", "answer")).encode() + b"\n")
    try:
        with viewer(binary, folder) as server:
            run_id = server.first_run()
            began = time.monotonic()
            first = server.query("/api/samples", run=run_id, task="quiz").json()
            assert len(first["rows"]) == 100, "control: the first page has rows"
            seconds = time.monotonic() - began
            tally.add("large file: first page", "held" if seconds < PATIENCE else "HANG", f"{seconds:.1f} s")
            note(tally, "large file: others meanwhile", answers(server))
            while not (page := server.query("/api/samples", run=run_id, task="quiz").json())["index"]["complete"]:
                assert time.monotonic() - began < 600, "the index is never complete"
                time.sleep(0.2)
            rows = size // len(block) * 500
            tally.add("large file: all rows", "held" if page["total"] == rows else "SILENT", f"{page['total']} of {rows}")
            server.query("/api/samples", timeout=200, run=run_id, task="quiz", text="no such text", regex="1")
            note(tally, "large file: search", answers(server))
            line = server.query("/api/samples", timeout=200, run=run_id, task="line").json()
            for _ in range(300):
                line = server.query("/api/samples", timeout=200, run=run_id, task="line").json()
                if line["index"]["complete"]:
                    break
                time.sleep(0.1)
            shown = len(line["rows"]) + len(line["index"]["bad_lines"])
            tally.add("one huge line", "held" if shown == 3 else "SILENT", f"{shown} of 3 lines")
            memory = server.megabytes()
            tally.add("large file: memory", "held" if memory < MEMORY + 2 * megabytes else "MEMORY", f"{memory} MB")
    finally:
        shutil.rmtree(folder)


def attack_with_many_runs(binary: str, scratch: Path, tally: Tally, count: int) -> None:
    folder = scratch / "runs"
    write_run(folder / "0", 0)
    content = (folder / "0" / f"results_{STAMP}.json").read_bytes()
    for index in range(1, count):
        inner = folder / str(index % 100)
        inner.mkdir(exist_ok=True)
        (inner / f"results_2026-11-15T02-46-50.{index:06}.json").write_bytes(content)
    with viewer(binary, folder) as server:
        for attempt in ("first", "again"):
            began = time.monotonic()
            found = len(server.get("/api/runs", timeout=600).json()["runs"])
            seconds = time.monotonic() - began
            # A hundred runs a second, without optimization and on a busy machine.
            in_time = seconds < 10 + count / 100
            tally.add(f"many runs: {attempt} list", "held" if found == count and in_time else "SILENT", f"{found} runs, {seconds:.1f} s")
        note(tally, "many runs: others", answers(server))
        memory = server.megabytes()
        tally.add("many runs: memory", "held" if memory < MEMORY else "MEMORY", f"{memory} MB")
    shutil.rmtree(folder)


# Names, prompts and answers that are HTML.

SCRIPTS = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=\"document.title='owned'\">",
    "</script><script>document.title='owned'</script>",
    "</title><script>document.title='owned'</script>",
    "{@html \"<script>document.title='owned'</script>\"}",
    "javascript:document.title='owned'",
    "<!--<script>",
    "]]><script>document.title='owned'</script>",
    "<a href=\"javascript:document.title='owned'\" autofocus onfocus=\"document.title='owned'\">x</a>",
]


#: The elements of a report.
EXPECTED = ["html", "head", "meta", "meta", "meta", "meta", "meta", "title", "style", "body", "div", "noscript", "script", "script"]


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        handlers = [name for name, _ in attrs if name.startswith("on")]
        self.found.append(" ".join([tag, *handlers]))


def elements(page: str) -> list[str]:
    parser = Elements()
    parser.feed(page)
    return parser.found


def attack_with_html(binary: str, scratch: Path, tally: Tally, skipped: list[str]) -> None:
    folder = scratch / "html"
    for index, text in enumerate(SCRIPTS):
        # A file name cannot have a slash.
        name = re.sub(r"[/\0]", "∕", text)
        write_run(folder / f"{index} {name}"[:120], 3, name=text, task=f"t{index} {text}", text=text)
    pages: list[tuple[str, str]] = []
    assert elements(SCRIPTS[1]) == ["img onerror"], "control: an element of a prompt would be found"
    for index, inner in enumerate(sorted(folder.iterdir())):
        report = scratch / f"html-{index}.html"
        done = run(binary, scratch, "report", str(inner), "-o", str(report))
        assert done.returncode == 0, done.stderr
        found = elements(report.read_text())
        # The only script elements are the data and the front end, and no element comes from a prompt or a name.
        tally.add("HTML in reports", "held" if found == EXPECTED else "LEAK", f"{inner.name}: {found}")
        pages.append((f"report {index}", report.as_uri()))
    with viewer(binary, folder) as server:
        for path in ("/api/runs", *(f"/api/run?run={entry['id']}" for entry in server.get("/api/runs").json()["runs"])):
            reply = server.get(path)
            plain = reply.headers["content-type"] == "application/json" and reply.headers["x-content-type-options"] == "nosniff"
            tally.add("HTML in answers", "held" if plain else "LEAK", path)
        for entry in server.get("/api/runs").json()["runs"]:
            own = f"http://127.0.0.1:{server.port}/#/"
            task = urllib.parse.quote(entry["tasks"][0]["task"], safe="")
            pages += [("run", f"{own}run/{entry['id']}"), ("samples", f"{own}samples/{entry['id']}/{task}")]
            pages += [("document", f"{own}sample/{entry['id']}/{task}/0")]
        pages.append(("runs", f"http://127.0.0.1:{server.port}/"))
        in_browser(pages, scratch, tally, skipped)


def in_browser(pages: list[tuple[str, str]], scratch: Path, tally: Tally, skipped: list[str]) -> None:
    """Opens pages in a browser and looks whether the script in a prompt or a name ran."""
    chromium = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if not chromium:
        skipped.append("pages in a browser: needs Chromium")
        return

    def opened(address: str) -> str:
        words = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch / 'chromium'}"]
        words += ["--virtual-time-budget=4000", "--dump-dom", address]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False).stdout

    control = scratch / "control.html"
    control.write_text(f"<!doctype html><title>x</title><body>{SCRIPTS[1]}</body>")
    assert "<title>owned</title>" in opened(control.as_uri()), "control: the browser runs the script of a page without protection"
    for name, address in pages:
        document = opened(address)
        shown = "lm-eval" in document
        owned = "<title>owned</title>" in document
        tally.add("HTML in a browser", "LEAK" if owned else "held" if shown else "CRASH", f"{name} {address}")


def main() -> int:
    given = arguments(__doc__).parse_args()
    rng = random.Random(given.seed)
    tally = Tally()
    skipped: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        # Other users have to be refused by the viewer, not by the folder.
        scratch.chmod(0o755)
        attack_paths(given.binary, scratch, tally)
        attack_sites(given.binary, scratch, tally)
        attack_as_another_user(given.binary, scratch, tally, skipped)
        attack_with_garbage(given.binary, scratch, tally, rng, int(300 * given.scale))
        attack_with_slow_clients(given.binary, scratch, tally, 400)
        attack_with_many_clients(given.binary, scratch, tally, min(int(1000 * given.scale), 2000))
        attack_with_questions(given.binary, scratch, tally)
        attack_with_size(given.binary, scratch, tally, int(200 * given.scale))
        attack_with_many_runs(given.binary, scratch, tally, int(2000 * given.scale))
        attack_with_html(given.binary, scratch, tally, skipped)
    status = tally.finish()
    for reason in skipped:
        print(f"skipped: {reason}")
    return status


if __name__ == "__main__":
    sys.exit(main())
