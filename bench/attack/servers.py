"""Answers as a hostile model server, proxy or network would, and looks for wrong answers, leaked keys, hangs and memory.

Raw loopback servers send what no honest server does. After each run:

- no answer differs from the one that the server gave to that prompt (`SILENT`);
- the key is in no output, file, journal, log, tracker or request to another server (`LEAK`);
- the run ends in time (`HANG`) and within a limit of memory (`MEMORY`).

    python bench/attack/servers.py --binary target/debug/lm-eval [--seed 0] [--scale 1]

Controls: each detector is shown something that it must notice first: a wrong answer, a word in the place of the key that is not
secret, a body that is too large, an endless answer without a time limit, a request with an injected header.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from support import Tally, arguments

KEY = "sk-attacked-0123456789-abcdefghijklmnop"
DOCUMENTS = 6

TASK = """\
task: words
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs: {until: ["?"], max_gen_toks: 4}
"""

#: Sends an answer: the connection, the head of the request, its body, and how many requests came before.
Answer = Callable[[socket.socket, bytes, bytes, int], None]


class Raw:
    """A server that answers each request with a function, on plain TCP or TLS."""

    def __init__(self, answer: Answer, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((host, port))
        self.listener.listen(256)
        self.host, self.port, self.answer, self.tls = host, self.listener.getsockname()[1], answer, tls
        self.heads: list[bytes] = []
        self.is_open = True
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while self.is_open:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            connection.settimeout(20)
            received = b""
            while True:
                while b"\r\n\r\n" not in received:
                    more = connection.recv(65536)
                    if not more:
                        return
                    received += more
                head, received = received.split(b"\r\n\r\n", 1)
                found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                length = int(found[1]) if found else 0
                while len(received) < length:
                    received += connection.recv(65536)
                body, received = received[:length], received[length:]
                self.heads.append(head)
                if head.startswith(b"GET"):
                    connection.sendall(response(b'{"data": [{"id": "m"}]}'))
                else:
                    self.answer(connection, head, body, len(self.heads) - 1)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}/v1/completions"

    def close(self) -> None:
        self.is_open = False
        self.listener.close()


def response(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def answer_of(prompt: str) -> str:
    return f" {hashlib.sha256(prompt.encode()).hexdigest()[:6]}"


def completion(body: bytes) -> bytes:
    prompt = json.loads(body)["prompt"]
    prompts = prompt if isinstance(prompt, list) else [prompt]
    choices = [{"index": index, "text": answer_of(one), "finish_reason": "stop"} for index, one in enumerate(prompts)]
    return json.dumps({"choices": choices}).encode()


def honest(connection: socket.socket, _: bytes, body: bytes, __: int) -> None:
    connection.sendall(response(completion(body)))


def text_answer(text: str) -> bytes:
    return json.dumps({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}).encode()


class Outcome:
    """A run and what it left."""

    def __init__(self, status: int, stdout: bytes, stderr: bytes, seconds: float, megabytes: float, folder: Path) -> None:
        self.status, self.stdout, self.stderr = status, stdout, stderr
        self.seconds, self.megabytes, self.folder = seconds, megabytes, folder

    def answers(self) -> dict[str, str]:
        """The answer to each prompt, from the samples."""
        found = {}
        for path in self.folder.rglob("samples_*.jsonl"):
            for line in path.read_text().splitlines():
                sample = json.loads(line)
                found[sample["arguments"]["gen_args_0"]["arg_0"]] = sample["resps"][0][0]
        return found

    def verdict(self, seconds: float = 60, megabytes: float = 400) -> str:
        wrong = {prompt: answer for prompt, answer in self.answers().items() if answer != answer_of(prompt)}
        if self.status is None:
            return "HANG"
        if b"panicked" in self.stderr or self.status < 0:
            return "CRASH"
        if wrong:
            return "SILENT"
        if self.seconds > seconds:
            return "HANG"
        if self.megabytes > megabytes:
            return "MEMORY"
        if self.status != 0:
            return "refused" if b"error" in self.stderr else "CRASH"
        return "answered" if len(self.answers()) == DOCUMENTS else "SILENT"

    def holds(self, word: str) -> list[str]:
        """Where a word is found: outputs and files."""
        forms = {word.encode(), word.encode().replace(b"-", b"\\u002d")}
        places = [("stdout", self.stdout), ("stderr", self.stderr)]
        places += [(str(path.relative_to(self.folder)), path.read_bytes()) for path in self.folder.rglob("*") if path.is_file()]
        return [name for name, content in places if any(form in content for form in forms)]


def peak_memory(process: int) -> float:
    """The most memory that a process has had, in megabytes."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) / 1024 if found else 0


class Bench:
    def __init__(self, binary: str, folder: Path) -> None:
        self.binary, self.folder, self.count = binary, folder, 0
        rows = [{"q": f"What is {i}+1?", "a": str(i + 1)} for i in range(DOCUMENTS)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "words.yaml").write_text(TASK.replace("rows.jsonl", str(folder / "rows.jsonl")))

    def execute(self, words: list[str], out: Path, timeout: float = 90, **variables: str) -> Outcome:
        environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        environment |= {"HOME": str(self.folder), "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": KEY, **variables}
        out.mkdir(exist_ok=True)
        began = time.monotonic()
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            # A limit far above what is tolerated, so that a fault harms nobody else.
            child = subprocess.Popen(
                ["prlimit", "--as=12000000000", self.binary, *words], cwd=self.folder, env=environment, stdout=stdout, stderr=stderr
            )
            # Not `ru_maxrss`, which begins with the memory of this script.
            peak = 0.0
            while child.poll() is None and time.monotonic() - began < timeout:
                peak = max(peak, peak_memory(child.pid))
                time.sleep(0.01)
            killed = child.poll() is None
            child.kill()
            child.wait()
            stdout.seek(0)
            stderr.seek(0)
            seconds = timeout + 999 if killed else time.monotonic() - began
            return Outcome(0 if killed else child.returncode, stdout.read(), stderr.read(), seconds, peak, out)

    def run(self, url: str, model_args: str = "", *more: str, timeout: float = 90, **variables: str) -> Outcome:
        """A run with samples and a journal in a folder of its own."""
        self.count += 1
        out = self.folder / f"out{self.count}"
        model = f"model=m,base_url={url},tokenizer_backend=none,retry_wait=0.01{model_args}"
        model += "" if "max_retries=" in model_args else ",max_retries=3"
        model += "" if "patience=" in model_args else ",patience=3"
        model += "" if "timeout=" in model_args else ",timeout=10"
        words = ["run", "--model", "local-completions", "--model_args", model, "--tasks", "words.yaml", "-s", "-o", str(out), *more]
        return self.execute(words, out, timeout, **variables)


def check_the_check(bench: Bench) -> None:
    """The controls."""
    assert (healthy := bench.run(Raw(honest).url)).verdict() == "answered", healthy.stderr
    # A wrong answer is noticed.
    shifted = Raw(lambda connection, _, body, __: connection.sendall(response(completion(body).replace(b'"text": " ', b'"text": " x'))))
    assert bench.run(shifted.url).verdict() == "SILENT"
    # Memory is measured: an answer of 300 MB that is not compressed.
    big = b'{"x": "' + b"y" * 300_000_000 + b'"}'
    large = Raw(lambda connection, _, __, ___: connection.sendall(response(big)))
    assert bench.run(large.url, ",num_concurrent=2,timeout=20").megabytes > 400
    # A hang is noticed: an answer that drips, without limits.
    dripping = Raw(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", 0))
    assert bench.run(dripping.url, ",timeout=600", timeout=5).verdict() == "HANG"


# Bombs.


def zeros(size: int, rounds: int) -> bytes:
    """Zeros, compressed several times over."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = b"0" * (1 << 20)
    data = b"".join(compressor.compress(chunk) for _ in range(size >> 20)) + compressor.flush()
    for _ in range(rounds - 1):
        data = gzip.compress(data, 9)
    return data


def attack_bombs(bench: Bench, tally: Tally, tls: tuple[ssl.SSLContext, Path], scale: float) -> None:
    gigabyte = round(1000 * min(scale, 2)) << 20
    once, twice, thrice = zeros(gigabyte, 1), zeros(gigabyte, 2), zeros(gigabyte, 3)
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = b"".join(raw.compress(b"0" * (1 << 20)) for _ in range(256)) + raw.flush()
    bodies = {
        "gzip": once,
        "x-gzip": once,
        "gzip, gzip": twice,
        "gzip, gzip, gzip": thrice,
        "gzip, identity, gzip": twice,
        ", ".join(["gzip"] * 40): thrice,
        "deflate": deflated,
        "br": once[:4000],
        "zstd": once[:4000],
        "gzip, br": once[:4000],
        "GZIP": once,
        "gzip;q=1": once,
    }
    for encoding, body in bodies.items():
        for context in (None, tls[0]):
            sent = response(body, headers=f"Content-Encoding: {encoding}\r\n")
            server = Raw(lambda connection, _, __, ___, sent=sent: connection.sendall(sent), tls=context)  # type: ignore[misc]
            extra = f",ca_cert_path={tls[1]}" if context else ""
            done = bench.run(server.url, f"{extra},num_concurrent=6,timeout=20")
            name = f"bombs{' over TLS' if context else ''}"
            tally.add(name, done.verdict(60, 400), f"{encoding[:40]}, {len(body)} bytes: {done.megabytes:.0f} MB {done.stderr[-200:]!r}")
            server.close()
    # Control: an honest compressed answer is understood.
    for context in (None, tls[0]):
        honest_gzip = Raw(
            lambda connection, _, body, __: connection.sendall(response(gzip.compress(completion(body)), headers="Content-Encoding: gzip\r\n")),
            tls=context,
        )
        extra = f",ca_cert_path={tls[1]}" if context else ""
        assert (done := bench.run(honest_gzip.url, extra)).verdict() == "answered", done.stderr


# Redirects.


def attack_redirects(bench: Bench, tally: Tally, tls: tuple[ssl.SSLContext, Path]) -> None:
    sinks = {
        "another host": Raw(honest, host="127.0.0.2"),
        "another port": Raw(honest),
        "TLS": Raw(honest, tls=tls[0]),
        "IPv6": Raw(honest, host="::1"),
    }
    assert not any(KEY.encode() in head for sink in sinks.values() for head in sink.heads)
    for status in (301, 302, 303, 307, 308):
        for name, sink in sinks.items():
            for shape in ("{}", "{}#x", "//user:pass@{rest}", "http:{path}", "\\\\{rest}"):
                rest = sink.url.split("://")[1]
                location = shape.format(sink.url, rest=rest, path="//" + rest)
                headers = f"Location: {location}\r\n"
                server = Raw(lambda c, _, __, ___, s=status, h=headers: c.sendall(response(b"moved", f"{s} Moved", h)))  # type: ignore[misc]
                done = bench.run(server.url)
                leaked = any(KEY.encode() in head for head in sink.heads)
                followed = bool(sink.heads)
                sink.heads.clear()
                verdict = "LEAK" if leaked else "SILENT" if followed else done.verdict()
                tally.add("redirects to another origin", verdict, f"{status} to {name}, {location}: {done.stderr[-200:]!r}")
                server.close()
    # From TLS to plain text on the same host, and the models list of a server that redirects.
    plain = Raw(honest)
    down = Raw(lambda c, _, __, ___: c.sendall(response(b"", "307 Down", f"Location: {plain.url}\r\n")), tls=tls[0])
    done = bench.run(down.url, f",ca_cert_path={tls[1]}")
    tally.add("redirect from TLS to plain text", "LEAK" if plain.heads else done.verdict(), done.stderr[-200:].decode())
    # Control: within the same origin, the key travels, and is seen here.
    same = Raw(lambda c, head, body, n: c.sendall(response(b"", "307 On", "Location: /v1/other\r\n")) if b"/v1/completions" in head else honest(c, head, body, n))
    done = bench.run(same.url, ",timeout=20")
    assert done.verdict() == "answered" and any(KEY.encode() in head and b"/v1/other" in head for head in same.heads), (done.verdict(), same.heads[-2:], done.stderr)


# Addresses and proxies.


def attack_addresses(bench: Bench, tally: Tally) -> None:
    proxy = Raw(lambda c, head, body, n: honest(c, head, body, n))
    six, four = Raw(honest, host="::1"), Raw(honest)
    secret = "proxy-password-0123456789"
    address = f"http://user:{secret}@127.0.0.1:{proxy.port}"
    local = [
        six.url,
        four.url,
        four.url.replace("127.0.0.1", "localhost"),
        four.url.replace("127.0.0.1", "LOCALHOST"),
        four.url.replace("127.0.0.1", "127.1"),
        four.url.replace("127.0.0.1", "0x7f000001"),
        four.url.replace("127.0.0.1", "[::ffff:127.0.0.1]"),
        four.url.replace("127.0.0.1", "localhost."),
    ]
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        for url in local:
            done = bench.run(url, **{variable: address, "HTTPS_PROXY": address})
            verdict = "SILENT" if proxy.heads else done.verdict()
            if done.holds(secret):
                verdict = "LEAK"
            proxy.heads.clear()
            # Some resolvers do not know `localhost.`.
            if verdict == "refused" and not url.split("/")[2].startswith("localhost."):
                verdict = "SILENT"
            tally.add("loopback and proxies", verdict, f"{variable} {url}: {done.stderr[-200:]!r}")
        # Control: a server that is not local is reached through the proxy, which sees the request.
        remote = "http://model.invalid/v1/completions"
        if variable != "HTTP_PROXY":
            # `HTTP_PROXY` in capitals is not trusted by every client, since CGI sets it from a header.
            done = bench.run(remote, **{variable: address})
            assert done.verdict() == "answered" and proxy.heads, (variable, done.stderr)
            assert all(head.startswith((b"POST http://model.invalid/", b"GET http://model.invalid/")) for head in proxy.heads)
            tally.add("proxy password", "LEAK" if done.holds(secret) else "held", str(done.holds(secret)))
        proxy.heads.clear()
        for exception in ("model.invalid", ".invalid", "*") if variable == "http_proxy" else ():
            done = bench.run(remote, ",patience=0,max_retries=1", **{variable: address, "NO_PROXY": exception})
            verdict = "SILENT" if proxy.heads else done.verdict()
            tally.add("NO_PROXY", verdict, f"{variable} {exception}: {done.stderr[-200:]!r}")
            proxy.heads.clear()
    for host in ("[fe80::1%25lo]", "[::1%25lo]", "[fe80::1%lo]", "[::1", "::1", "[]", "[127.0.0.1]", "[::1]x", "%31", "127.0.0.1%2f", "a b"):
        done = bench.run(f"http://{host}:{six.port}/v1/completions")
        tally.add("IPv6 literals and zones", done.verdict(), f"{host}: {done.stderr[-200:]!r}")


# Injection.

CONTROLS = ("\r\nX-Injected: 1", "\nX-Injected: 1", "\rX-Injected: 1", "\r\n\r\nGET /injected HTTP/1.1\r\n\r\n", "\0X-Injected: 1", "\x7f", "\u2028X-Injected: 1", "\u560d\u560aX-Injected: 1", " \r\n X-Injected: 1")


def is_injected(heads: list[bytes]) -> bool:
    return any(re.search(rb"(?mi)^ ?x-injected|^GET /injected", head) for head in heads)


def attack_injection(bench: Bench, tally: Tally) -> None:
    server = Raw(honest)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Injected: 1\r\n\r\n")
        connection.recv(100)
    assert is_injected(server.heads), "the detector must notice"
    server.heads.clear()
    base = {"model": "m", "base_url": server.url, "tokenizer_backend": "none", "timeout": 2, "max_retries": 2, "patience": 2}
    for control in CONTROLS:
        places: list[tuple[str, dict[str, object], dict[str, str]]] = [
            ("header value", {"header": {"Authorization": f"Bearer {KEY}{control}"}}, {}),
            ("header name", {"header": {f"X-A{control}": "1"}}, {}),
            ("model", {"model": f"m{control}"}, {}),
            ("path", {"base_url": server.url + control}, {}),
            ("query", {"base_url": server.url + "?a=" + control}, {}),
            ("user", {"base_url": server.url.replace("//", f"//u{control}:p@")}, {}),
            ("host", {"base_url": server.url.replace("127.0.0.1", f"127.0.0.1{control}")}, {}),
            ("model_id", {"model_id": f"m{control}"}, {}),
        ]
        if "\0" not in control:
            places.append(("key", {}, {"OPENAI_API_KEY": f"{KEY}{control}"}))
        for name, change, variables in places:
            bench.count += 1
            out = bench.folder / f"out{bench.count}"
            model = json.dumps({**base, **change})
            words = ["run", "--model", "local-completions", "--model_args", model, "--tasks", "words.yaml", "-s", "-o", str(out)]
            done = bench.execute(words, out, **variables)
            verdict = "SILENT" if is_injected(server.heads) else "LEAK" if done.holds(KEY) else done.verdict()
            tally.add("control characters", verdict, f"{name}, {control!r}: {done.stderr[-200:]!r} {done.holds(KEY)}")
            server.heads.clear()
    bench.count += 1
    (bench.folder / "pool.json").write_text(json.dumps([{"url": server.url, "host": "a\r\nX-Injected: 1"}, server.url + "\r\nX-Injected: 1"]))
    done = bench.run("@pool.json")
    tally.add("control characters", "SILENT" if is_injected(server.heads) else done.verdict(), f"pool: {done.stderr[-200:]!r}")


# Answers without an end.


def drip(start: bytes, end: float, unit: bytes = b"x", pause: float = 0.15) -> Answer:
    """Sends a start, then a unit at a time, for ever."""

    def answer(connection: socket.socket, _: bytes, __: bytes, ___: int) -> None:
        connection.sendall(start)
        until = time.monotonic() + (end or 30)
        while time.monotonic() < until:
            connection.sendall(unit)
            time.sleep(pause)

    return answer


def attack_endless(bench: Bench, tally: Tally, tls: tuple[ssl.SSLContext, Path]) -> None:
    head = b"HTTP/1.1 200 OK\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    slow = {
        "status": (b"HTTP/1.1 200 ", b"x"),
        "header": (head + b"X: ", b"y"),
        "headers": (head, b"X: y\r\n"),
        "body": (head + b"Content-Length: 1000000\r\n\r\n", b"x"),
        "body to the end": (head + b"\r\n", b" "),
        "chunks": (chunked, b"1\r\n \r\n"),
        "chunk size": (chunked, b"0"),
        "chunk extension": (chunked + b"5;", b"x"),
        "trailers": (chunked + b"0\r\n", b"X: y\r\n"),
        "1xx": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "nothing": (b"", b""),
    }
    fast = {
        "header": (head + b"X: ", b"y" * 65536),
        "headers": (head, b"X: y\r\n" * 8192),
        "chunk size": (chunked, b"0" * 65536),
        "chunk extension": (chunked + b"5;", b"x" * 65536),
        "trailers": (chunked + b"0\r\n", b"X: y\r\n" * 8192),
        "1xx": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2048),
        "status": (b"HTTP/1.1 200 ", b"x" * 65536),
    }
    for kind, cases, pause in (("slow", slow, 0.15), ("fast", fast, 0)):
        for name, (start, unit) in cases.items():
            for context in (None, tls[0]):
                server = Raw(drip(start, 25, unit, pause), tls=context)
                extra = f",ca_cert_path={tls[1]}" if context else ""
                done = bench.run(server.url, f"{extra},timeout=0.5,patience=1,max_retries=2,num_concurrent=6", timeout=60)
                verdict = done.verdict(45, 400)
                tally.add(f"endless answers, {kind}", verdict, f"{name}{' over TLS' if context else ''}: {done.seconds:.0f} s, {done.megabytes:.0f} MB {done.stderr[-200:]!r}")
                server.close()


# Ambiguous answers.


def variants(right: bytes, wrong: bytes, rng: random.Random) -> dict[str, bytes]:
    """Answers that two readers may understand differently: one sees the right one, another one a part or something else."""
    size, chunk = len(right), f"{len(right):x}\r\n".encode() + right + b"\r\n0\r\n\r\n"
    other = response(wrong)
    cut = rng.randrange(1, size)
    ok = b"HTTP/1.1 200 OK\r\n"
    return {
        "two lengths": ok + f"Content-Length: {size}\r\nContent-Length: {cut}\r\n\r\n".encode() + right,
        "a list of lengths": ok + f"Content-Length: {size}, {cut}\r\n\r\n".encode() + right,
        "a signed length": ok + f"Content-Length: +{size}\r\n\r\n".encode() + right,
        "a hexadecimal length": ok + f"Content-Length: 0x{size:x}\r\n\r\n".encode() + right,
        "a negative length": ok + b"Content-Length: -1\r\n\r\n" + right,
        "a huge length": ok + b"Content-Length: 99999999999999999999999\r\n\r\n" + right,
        "too long": ok + f"Content-Length: {size + 9}\r\nConnection: close\r\n\r\n".encode() + right,
        "too short": ok + f"Content-Length: {cut}\r\n\r\n".encode() + right,
        "length and chunks": ok + f"Content-Length: {cut}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk,
        "chunks and length": ok + f"Transfer-Encoding: chunked\r\nContent-Length: {cut}\r\n\r\n".encode() + chunk,
        "chunked twice": ok + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + chunk,
        "not quite chunked": ok + b"Transfer-Encoding: xchunked\r\nConnection: close\r\n\r\n" + chunk,
        "a tab before chunked": ok + b"Transfer-Encoding:\tchunked\r\n\r\n" + chunk,
        "a space before the colon": ok + f"Content-Length : {cut}\r\nContent-Length: {size}\r\n\r\n".encode() + right,
        "a folded header": ok + f"X: a\r\n Content-Length: {cut}\r\nContent-Length: {size}\r\n\r\n".encode() + right,
        "bare line feeds": ok.replace(b"\r", b"") + f"Content-Length: {size}\n\n".encode() + right,
        "a bare carriage return": ok + f"X: a\rContent-Length: {cut}\r\nContent-Length: {size}\r\n\r\n".encode() + right,
        "NUL in a header": ok + f"X: a\0b\r\nContent-Length: {size}\r\n\r\n".encode() + right,
        "extensions": ok + b"Transfer-Encoding: chunked\r\n\r\n" + f"{size:x};a=\"\r\n\";b\r\n".encode() + right + b"\r\n0\r\n\r\n",
        "an extension with a line feed": ok + b"Transfer-Encoding: chunked\r\n\r\n" + f"{size:x};\n".encode() + right + b"\r\n0\r\n\r\n",
        "a chunk that is too long": ok + b"Transfer-Encoding: chunked\r\n\r\n" + f"{size - 1:x}\r\n".encode() + right + b"\r\n0\r\n\r\n",
        "an overflowing chunk": ok + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" + b"0" * 16 + chunk,
        "chunks without an end": ok + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunk[:-5],
        "HTTP/0.9": right,
        "HTTP/2.0": b"HTTP/2.0 200 OK\r\n" + f"Content-Length: {size}\r\n\r\n".encode() + right,
        "an answer too many": response(right) + other,
        "an answer before": b"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\n" + response(right),
        "100 and two answers": b"HTTP/1.1 100 Continue\r\n\r\n" + response(right) + other,
        "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + other,
        "204 with a body": b"HTTP/1.1 204 No Content\r\n" + f"Content-Length: {len(wrong)}\r\n\r\n".encode() + wrong,
        "304 with a body": b"HTTP/1.1 304 Not Modified\r\n" + f"Content-Length: {len(wrong)}\r\n\r\n".encode() + wrong,
        "206": response(right[:cut], "206 Partial Content", f"Content-Range: bytes 0-{cut - 1}/{size}\r\n"),
        "an empty line first": b"\r\n" + response(right),
        "garbage first": bytes(rng.randrange(256) for _ in range(20)) + response(right),
        "status 99": right.join([b"HTTP/1.1 99 Odd\r\n\r\n", b""]),
    }


def attack_framing(bench: Bench, tally: Tally, rng: random.Random, scale: float) -> None:
    """Each request gets an ambiguous answer first, and a proper one to its second attempt."""
    wrong = text_answer(" WRONG")
    names = list(variants(b"{}", wrong, rng))
    for name in names:
        for _ in range(max(1, round(scale))):
            seen: set[bytes] = set()

            def answer(connection: socket.socket, _: bytes, body: bytes, __: int, name: str = name, seen: set[bytes] = seen) -> None:
                if body in seen:
                    return honest(connection, b"", body, 0)
                seen.add(body)
                right = completion(body)
                connection.sendall(variants(right, wrong, rng)[name])
                if "close" in name or name in ("HTTP/0.9", "too long", "not quite chunked", "chunks without an end", "status 99"):
                    connection.close()

            server = Raw(answer)
            done = bench.run(server.url, ",num_concurrent=2,timeout=1")
            tally.add("ambiguous answers", done.verdict(), f"{name}: {done.answers()} {done.stderr[-300:]!r}")
            server.close()


# Keys in answers.


def attack_keys(bench: Bench, tally: Tally) -> None:
    def escaped(word: str) -> str:
        return word.replace("-", "\\u002d").replace("s", "\\u0073")

    def body(text: str) -> bytes:
        return b'{"choices": [{"index": 0, "text": " ' + text.encode() + b'", "finish_reason": "stop"}]}'

    answers: dict[str, Callable[[str], bytes]] = {
        "an answer": lambda word: response(body(word)),
        "an escaped answer": lambda word: response(body(escaped(word))),
        "a compressed answer": lambda word: response(gzip.compress(body(word)), headers="Content-Encoding: gzip\r\n"),
        "an error": lambda word: response(json.dumps({"error": {"message": f"bad key {word}"}}).encode(), "400 Bad"),
        "an escaped error": lambda word: response(b'{"error": {"message": "bad key ' + escaped(word).encode() + b'"}}', "400 Bad"),
        "401": lambda word: response(json.dumps({"error": f"{word} is not valid"}).encode(), "401 Unauthorized"),
        "500": lambda word: response(f"<html>{word}</html>".encode(), "500 Oops"),
        "429": lambda word: response(json.dumps({"error": {"message": f"quota of {word}"}}).encode(), "429 Slow", "Retry-After: 0\r\n"),
        "the reason": lambda word: response(b"{}", f"418 {word}"),
        "a redirect": lambda word: response(b"", "302 Found", f"Location: http://elsewhere.invalid/{word}?k={word}\r\n"),
        "a header": lambda word: response(body("x"), headers=f"X-Key: {word}\r\n"),
        "invalid JSON": lambda word: response(f'{{"choices": [ {word} '.encode()),
        "a finish reason": lambda word: response(json.dumps({"choices": [{"index": 0, "text": "x", "finish_reason": word}]}).encode()),
        "the encoding": lambda word: response(b"x", headers=f"Content-Encoding: {word}\r\n"),
        "a chunk": lambda word: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + word.encode() + b"\r\n",
        "a status line": lambda word: f"{word} 200 OK\r\n\r\n".encode(),
        "no choices": lambda word: response(json.dumps({"object": word, "message": word}).encode()),
    }
    more = ["--verbosity", "DEBUG", "--progress", "json"]
    seen = 0
    for name, make in answers.items():
        # Control: a word that is not a secret is shown wherever the key would be.
        for word in ("public-marker-0123456789-abcdefghijkl", KEY):
            server = Raw(lambda c, _, __, ___, sent=make(word): c.sendall(sent))  # type: ignore[misc]
            log = bench.folder / f"out{bench.count + 1}" / "log"
            log.parent.mkdir(exist_ok=True)
            done = bench.run(server.url, ",max_retries=2", *more, LM_EVAL_LOG_FILE=str(log))
            again = bench.run(server.url, ",max_retries=2", *more)
            places = done.holds(word) + again.holds(word)
            if word != KEY:
                seen += bool(places)
            else:
                tally.add("a server repeats the key", "LEAK" if places else "held", f"{name}: {places}")
            doctor = bench.execute(
                ["doctor", "--model", "local-completions", "--model_args", f"model=m,base_url={server.url},tokenizer_backend=none,max_retries=1,patience=1"],
                bench.folder / "doctor",
            )
            if word == KEY:
                tally.add("doctor", "LEAK" if doctor.holds(KEY) else "held", f"{name}: {doctor.stderr[-300:]!r}")
            server.close()
    assert seen >= 8, seen
    # Keys in all places at once, with a server that repeats whatever it gets, and a tracker that records its calls.
    secrets = {"header": KEY, "password": "pw-address-0123456789-abc", "query": "query-key-0123456789-abcd", "argument": "sk-argument-0123456789-ab"}
    echo = Raw(lambda c, head, _, __: c.sendall(response(text_answer(" " + head.decode("latin-1")))))
    packages = bench.folder / "packages"
    packages.mkdir()
    shutil.copy(Path(__file__).with_name("stand_in_wandb.py"), packages / "wandb.py")
    calls = bench.folder / "trackers" / "calls"
    calls.parent.mkdir()
    model = {
        "model": "m",
        "base_url": echo.url.replace("//", f"//user:{secrets['password']}@") + f"?code={secrets['query']}",
        "tokenizer_backend": "none",
        "header": {"X-Api-Key": secrets["header"]},
        "auth_token": secrets["argument"],
    }
    words = ["run", "--model", "local-completions", "--model_args", json.dumps(model), "--tasks", "words.yaml", "-s", "-o", str(calls.parent)]
    words += ["--wandb_args", "project=p", "--python", sys.executable, "--verbosity", "DEBUG", "--show_config"]
    done = bench.execute(words, calls.parent, PYTHONPATH=str(packages), CALLS=str(calls))
    assert calls.exists() and '"log"' in calls.read_text(), done.stderr
    assert any(b"x-api-key" in head.lower() for head in echo.heads), "the server must get the key"
    for name, secret in secrets.items():
        found = done.holds(secret)
        tally.add("keys in settings, echoed", "LEAK" if found else "held", f"{name}: {found}")
    encoded = "dXNlcjpwdy1hZGRyZXNzLTAxMjM0NTY3ODktYWJj"
    assert any(encoded.encode() in head for head in echo.heads)
    tally.add("keys in settings, echoed", "LEAK" if done.holds(encoded) else "held", f"basic: {done.holds(encoded)}")


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run([*words, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, folder / "cert.pem"


def main() -> int:
    given = arguments(__doc__).parse_args()
    rng = random.Random(given.seed)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(given.binary, Path(name))
        tls = certificate(bench.folder)
        check_the_check(bench)
        tally.attempt(attack_framing, bench, tally, rng, given.scale)
        tally.attempt(attack_keys, bench, tally)
        tally.attempt(attack_injection, bench, tally)
        tally.attempt(attack_redirects, bench, tally, tls)
        tally.attempt(attack_addresses, bench, tally)
        tally.attempt(attack_endless, bench, tally, tls)
        tally.attempt(attack_bombs, bench, tally, tls, given.scale)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
