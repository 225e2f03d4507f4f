"""The server of the stand-ins for vLLM and SGLang.

The folder STANDIN_FOLDER holds one record per start, `start-N.json`: arguments, environment and process ids. A file
`fault-N` there tells start N what goes wrong: `crash` (it ends while it loads, with CUDA out of memory), `hold` (it loads
until the file `go` appears), `taken` (its port is), `sick` (its engine is dead, which only /health says), `refuse` (it
accepts another key) or `die:K` (it ends when request K arrives). The last request of start N is in `request-N.json`, the
seeds of all are in `seeds-N`. Every answer begins with STANDIN_THOUGHTS.
"""

from __future__ import annotations

import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

STAGES = [
    "Initializing a V1 LLM engine (v0.32.0)",
    "Starting to load model",
    "Loading safetensors checkpoint shards: 100% Completed | 1/1",
    "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|####| 3/3",
    "Graph capturing finished in 1 secs, took 0.1 GiB",
]


def log(who: str, message: str) -> None:
    """Write a line as vLLM does."""
    now = time.strftime("%m-%d %H:%M:%S")
    print(f"\x1b[36m({who} pid={os.getpid()})\x1b[0m INFO {now} [core.py:58] {message}", flush=True)


def logprob(before: int, token: int) -> float:
    """Return the log-probability of a token after another one."""
    return -(1 + (31 * token + 17 * before) % 97) / 50


def scores(prompt: list[int]) -> tuple[list, list]:
    """Return the log-probabilities of a prompt's tokens, and the likeliest tokens with theirs."""
    values: list = [None]
    tops: list = [None]
    for before, token in zip(prompt, prompt[1:]):
        value = logprob(before, token)
        values.append(value)
        other = {} if (before + token) % 3 == 0 else {"other": value / 2}
        tops.append({f"token_id:{token}": value, **other})
    return values, tops


def text_of(prompt: list[int] | str) -> str:
    """Return the answer to a prompt."""
    number = sum(index * token for index, token in enumerate(prompt, 1)) if isinstance(prompt, list) else len(prompt)
    return f"{os.environ.get('STANDIN_THOUGHTS', '')} The answer is {number % 1000}."


def stopped(text: str, stops: list[str]) -> str:
    """Cut a string at the first stop string."""
    for stop in stops:
        text = text.split(stop)[0] if stop else text
    return text


def completions(request: dict) -> dict:
    """Answer /v1/completions."""
    prompts = request["prompt"]
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        prompts = [prompts]
    choices = []
    for index, prompt in enumerate(prompts):
        text = stopped(text_of(prompt), request.get("stop") or [])
        choice = {"index": index, "text": text, "finish_reason": "stop", "logprobs": None}
        if request.get("logprobs") is not None and request.get("echo"):
            values, tops = scores(prompt)
            names = [f"token_id:{token}" for token in prompt]
            if request.get("max_tokens"):
                values, tops, names = [*values, -0.5], [*tops, {"token_id:1": -0.5}], [*names, "token_id:1"]
            offsets = list(range(len(names)))
            choice["logprobs"] = {"tokens": names, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}
        elif request.get("logprobs") is not None:
            choice["logprobs"] = {
                "tokens": ["token_id:1"],
                "token_logprobs": [-0.5],
                "top_logprobs": [{"token_id:1": -0.5}],
                "text_offset": [0],
            }
        choices.append(choice)
    usage = {"prompt_tokens": sum(map(len, prompts)), "completion_tokens": len(prompts)}
    return {"object": "text_completion", "model": request.get("model"), "choices": choices, "usage": usage}


def chat(request: dict) -> dict:
    """Answer /v1/chat/completions."""
    message = {"role": "assistant", "content": text_of(json.dumps(request["messages"]))}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"model": request.get("model"), "choices": [choice], "usage": {"prompt_tokens": 8, "completion_tokens": 4}}


def generate(request: dict) -> dict | list:
    """Answer SGLang's /generate."""
    prompts = request.get("input_ids")
    if prompts is None:
        prompts = request["text"]
    many = isinstance(prompts, list) and prompts and not isinstance(prompts[0], int)
    answers = []
    for prompt in prompts if many else [prompts]:
        stops = request.get("sampling_params", {}).get("stop") or []
        meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": len(prompt), "completion_tokens": 1}
        if request.get("return_logprob"):
            values, _ = scores(prompt)
            pairs = list(zip(values, prompt))
            start = max(request.get("logprob_start_len", 0), 0)
            meta["input_token_logprobs"] = [[value, token, None] for value, token in pairs][start:]
            meta["input_top_logprobs"] = [
                None if value is None else [[value, token, None]] for value, token in pairs
            ][start:]
        answers.append({"text": stopped(text_of(prompt), stops), "meta_info": meta})
    return answers if many else answers[0]


class State:
    """What the handlers share."""

    def __init__(self, fault: str, folder: Path, number: int, key: str | None, models: list[dict]) -> None:
        self.die_at = int(fault.partition(":")[2]) if fault.startswith("die:") else None
        self.fault, self.folder, self.number, self.key, self.models = fault, folder, number, key, models
        self.lock = threading.Lock()
        self.requests = 0

    def is_sick(self) -> bool:
        """Tell whether the engine is dead: it is once it has answered a few requests."""
        return self.fault == "sick" and self.requests > 3

    def count(self, request: dict) -> None:
        """Count a request, and record it; end at the one that a fault names."""
        with self.lock:
            self.requests += 1
            (self.folder / f"request-{self.number}.json").write_text(json.dumps(request))
            with (self.folder / f"seeds-{self.number}").open("a") as seeds:
                seeds.write(f"{request.get('seed')}\n")
            (self.folder / f"requests-{self.number}").write_text(str(self.requests))
            if self.die_at is not None and self.requests >= self.die_at:
                log("APIServer", "Dying as told")
                os.kill(os.getpid(), signal.SIGKILL)


class Handler(BaseHTTPRequestHandler):
    """Routes requests."""

    protocol_version = "HTTP/1.1"
    state: State

    def address_string(self) -> str:
        """Return a name for the client, which has no address on a Unix socket."""
        return "client"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def reply(self, body: object, status: int = 200) -> None:
        """Send JSON."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def is_allowed(self) -> bool:
        """Check the key, which everything but /health needs."""
        if self.path == "/health" or self.headers.get("Authorization") == f"Bearer {self.state.key}":
            return True
        self.reply({"error": "Unauthorized"}, 401)
        return False

    def do_GET(self) -> None:
        """Answer the query for health or models."""
        if not self.is_allowed():
            return
        if self.path == "/v1/models":
            self.reply({"object": "list", "data": self.state.models})
        elif self.path == "/health":
            self.reply({}, 503 if self.state.is_sick() else 200)
        else:
            self.reply({"error": "Not Found"}, 404)

    def do_POST(self) -> None:
        """Answer a request."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_allowed():
            return
        routes = {"/v1/completions": completions, "/v1/chat/completions": chat, "/generate": generate}
        route = routes.get(self.path)
        if route is None:
            self.reply({"error": "Not Found"}, 404)
            return
        self.state.count(request)
        if self.state.is_sick():
            # The engine does not answer.
            threading.Event().wait()
        self.reply(route(request))


class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A server on a Unix socket."""

    daemon_threads, request_queue_size = True, 1024


class Tcp(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A server on a port."""

    daemon_threads, request_queue_size, allow_reuse_address = True, 1024, True


def start_number(folder: Path) -> int:
    """Return the number of this start, counted from 1."""
    number = 1
    while True:
        try:
            (folder / f"start-{number}").open("x").close()
            return number
        except FileExistsError:
            number += 1


def serve(
    model: str,
    max_length: int | None,
    owner: str,
    socket_path: str | None = None,
    port: int | None = None,
    key_variable: str | None = None,
    key: str | None = None,
    adapters: list[str] | None = None,
) -> None:
    """Load for a while, then serve until told to end."""
    folder = Path(os.environ["STANDIN_FOLDER"])
    number = start_number(folder)
    fault = folder / f"fault-{number}"
    fault = fault.read_text().strip() if fault.exists() else ""
    log("APIServer", f"non-default args: {{'model': {model!r}}}")
    # The title of a process replaces its environment, so engine and worker have none of the run.
    script = "sleep 100000 & echo $!; wait $!; exit 1"
    engine = subprocess.Popen(["/bin/sh", "-c", script], env={"PATH": os.defpath}, stdout=subprocess.PIPE)
    worker = int(engine.stdout.readline())
    pids = {"pid": os.getpid(), "engine": engine.pid, "worker": worker}
    arguments = Path(f"/proc/{os.getpid()}/cmdline").read_text().split("\0")
    record = {"argv": sys.argv[1:], "cmdline": arguments, "env": dict(os.environ), **pids}
    is_ready = threading.Event()

    def watch() -> None:
        code = engine.wait()
        if is_ready.is_set():
            log("APIServer", "EngineDeadError: the engine core has died")
        else:
            cores = {"EngineCore": code}
            print(f"RuntimeError: Engine core initialization failed. Failed core proc(s): {cores}", file=sys.stderr, flush=True)
        os._exit(1)

    if fault != "sick":
        threading.Thread(target=watch, daemon=True).start()
    partial = folder / f"start-{number}.partial"
    partial.write_text(json.dumps(record))
    partial.rename(folder / f"start-{number}.json")
    for stage in STAGES:
        log("EngineCore", stage)
    if fault == "crash":
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB", file=sys.stderr, flush=True)
        os._exit(1)
    if fault == "taken":
        print("OSError: [Errno 98] Address already in use", file=sys.stderr, flush=True)
        os._exit(1)
    while fault == "hold" and not (folder / "go").exists():
        time.sleep(0.01)
    key = key or (os.environ.get(key_variable) if key_variable else None)
    if fault == "refuse":
        key = "another"
    names = [model, *(adapters or [])]
    models = [{"id": name, "owned_by": owner, "root": model, "max_model_len": max_length or 512} for name in names]
    handler = type("OwnHandler", (Handler,), {"state": State(fault, folder, number, key, models)})
    server = Unix(socket_path, handler) if socket_path else Tcp(("127.0.0.1", port or 0), handler)

    def end(*_: object) -> None:
        os.kill(worker, signal.SIGKILL)
        log("APIServer", "[shutdown] API server: shutdown triggered")
        engine.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    is_ready.set()
    log("APIServer", "Application startup complete.")
    server.serve_forever(poll_interval=0.05)
