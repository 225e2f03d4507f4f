"""A server that answers like vLLM, SGLang or llama.cpp, for the commands of the documentation: every answer is the same."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "<think>Option A looks wrong.</think>B"


def completion(request: dict) -> dict:
    """Answer a request to /v1/completions, with log-probabilities of the prompt where it asks for them."""
    prompts = request["prompt"]
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        prompts = [prompts]
    choices = []
    for index, prompt in enumerate(prompts):
        choice = {"index": index, "text": " Paris", "finish_reason": "stop", "logprobs": None}
        if request.get("logprobs") is not None:
            tokens = [str(token) for token in prompt] if isinstance(prompt, list) else prompt.split(" ")
            tokens = [*tokens, "Paris"]
            values = [None, *(-0.25 - (len(token) % 4) / 4 for token in tokens[1:])]
            choice["logprobs"] = {
                "tokens": tokens,
                "token_logprobs": values,
                "top_logprobs": [None, *({token: value} for token, value in zip(tokens[1:], values[1:]))],
                "text_offset": list(range(len(tokens))),
            }
        choices.append(choice)
    return {"model": request.get("model"), "choices": choices, "usage": {"prompt_tokens": 8, "completion_tokens": 1}}


TOP = {"B": 0.4, " B": 0.15, "A": 0.25, "C": 0.1, "The": 0.05}
"""The probabilities of the first token; `D` is not among them."""


def chat(request: dict) -> dict:
    """Answer a request to /v1/chat/completions, with likely tokens where it asks for them."""
    if request.get("model") == "thinker":
        return think(request)
    message = {"role": "assistant", "content": ANSWER}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    if request.get("logprobs"):
        top = [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in TOP.items()]
        message["content"], choice["finish_reason"] = "B", "length"
        choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top[: request.get("top_logprobs", 0)]}]}
    return {"model": request.get("model"), "choices": [choice], "usage": {"prompt_tokens": 8, "completion_tokens": 4}}


ASKED: dict[tuple[int, ...], Iterator[int]] = {}
"""Counts how often each sum was asked for with a temperature: every third answer is wrong. One step is one operation, since requests
arrive on several threads."""


def think(request: dict) -> dict:
    """Answer a sum after thinking, longer about larger numbers, unless the limit ends it; one word is one token."""
    numbers = [int(number) for number in re.findall(r"\d+", request["messages"][-1]["content"])]
    thoughts = ["So"] * max(20, int(2 ** (4 + sum(numbers) / 20)))
    result = sum(numbers)
    if request.get("temperature"):
        result += (result + next(ASKED.setdefault(tuple(numbers), itertools.count()))) % 3 == 0
    answer = ["The", "answer", "is", f"{result}."]
    limit = request.get("max_tokens", 16)
    thought, said = thoughts[:limit], answer[: max(0, limit - len(thoughts))]
    message = {"role": "assistant", "content": " ".join(said) or None, "reasoning_content": " ".join(thought) + " "}
    reason = "stop" if said == answer else "length"
    usage = {"prompt_tokens": 8, "completion_tokens": len(thought) + len(said)}
    return {
        "model": "thinker",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": usage,
    }


def generate(request: dict) -> dict:
    """Answer a request to SGLang's /generate."""
    ids = request.get("input_ids") or [1] * 8
    meta = {
        "finish_reason": {"type": "stop"},
        "input_token_logprobs": [[None if i == 0 else -0.25 - (t % 4) / 4, t, None] for i, t in enumerate(ids)],
        "input_top_logprobs": [None if i == 0 else [[-0.25, t, None]] for i, t in enumerate(ids)],
    }
    return {"text": " Paris", "meta_info": meta}


class Handler(BaseHTTPRequestHandler):
    """Routes requests."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Print nothing."""

    def reply(self, body: dict, status: int = 200) -> None:
        """Send JSON."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        """List the model; there is nothing else to read."""
        if self.path == "/v1/models":
            self.reply({"object": "list", "data": [{"id": "my-model", "object": "model"}]})
        else:
            self.reply({"error": {"message": "not found"}}, 404)

    def do_POST(self) -> None:
        """Answer a request."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        routes = {"/v1/completions": completion, "/v1/chat/completions": chat, "/generate": generate}
        if route := routes.get(self.path):
            self.reply(route(request))
        else:
            self.reply({"error": {"message": "not found"}}, 404)


def start() -> ThreadingHTTPServer:
    """Start a server on a free port of loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
