"""A loopback server of completions: log-probabilities and answers are hashes of the prompt, and every character is a token."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model:
    """The server. `asked` has the prompts so far; other `weights` give other numbers, from the request `swap_after` on."""

    def __init__(self, delay: float = 0, swap_after: int | None = None) -> None:
        self.asked: list[str] = []
        self.weights, self.delay, self.swap_after = "", delay, swap_after
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def reply(self, value: object) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                if self.path == "/tokenizer_info":
                    return self.reply({"eos_token": "</s>", "bos_token": None, "pad_token": None, "chat_template": None})
                self.reply({"data": [{"id": "m"}]})

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path == "/tokenize":
                    return self.reply({"tokens": [ord(character) for character in request["prompt"]]})
                if self.path == "/detokenize":
                    return self.reply({"prompt": "".join(map(chr, request["tokens"]))})
                self.reply({"choices": outer.choices(request)})

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1/completions"

    def taken(self) -> list[str]:
        """The prompts since the last call."""
        with self.lock:
            prompts, self.asked = self.asked, []
        return prompts

    def choices(self, request: dict[str, Any]) -> list[object]:
        prompt = request["prompt"]
        prompts = prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]
        prompts = [one if isinstance(one, str) else "".join(map(chr, one)) for one in prompts]
        time.sleep(self.delay)
        with self.lock:
            self.asked.extend(prompts)
            if self.swap_after is not None and len(self.asked) >= self.swap_after:
                self.weights = "other weights"
        give = self.scored if request.get("echo") else self.generated
        return [{"index": index, **give(one)} for index, one in enumerate(prompts)]

    def number(self, text: str) -> int:
        return hashlib.sha256((self.weights + text).encode()).digest()[0]

    def generated(self, prompt: str) -> dict[str, object]:
        return {"text": f" {self.number(prompt) % 30}", "finish_reason": "stop"}

    def scored(self, prompt: str) -> dict[str, object]:
        values = [-(self.number(prompt[: end + 1]) + 1) / 32 for end in range(len(prompt))]
        tops = [{character: value} for character, value in zip(prompt, values, strict=True)]
        logprobs = {
            "tokens": [*prompt, "!"],
            "token_logprobs": [None, *values[1:], -1.0],
            "top_logprobs": [None, *tops[1:], {"!": -1.0}],
            "text_offset": list(range(len(prompt) + 1)),
        }
        return {"text": prompt + "!", "logprobs": logprobs, "finish_reason": "length"}
