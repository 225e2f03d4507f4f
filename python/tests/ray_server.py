"""A server with one model, for `lm-eval ray run --serve`: `ray_server.py LOG --port PORT`.

The answer depends on the prompt alone. Requests and answers are counted as in `ray_count.py`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ray_count import log, wait_turn

MODEL = "tiny"


def completion(prompt: str) -> str:
    """Return the answer to a prompt."""
    return " " + hashlib.sha256(prompt.encode()).hexdigest()[:12]


class Handler(BaseHTTPRequestHandler):
    """Answers like a model server."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer health checks, and list the model."""
        self.answer({"data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        """Complete prompts."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompts = [request["prompt"]] if isinstance(request["prompt"], str) else request["prompt"]
        log(sys.argv[1], "asked", prompts)
        wait_turn(sys.argv[1], 1)
        choices = [
            {"index": index, "text": completion(prompt), "finish_reason": "stop", "logprobs": None}
            for index, prompt in enumerate(prompts)
        ]
        self.answer({"model": MODEL, "choices": choices, "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
        log(sys.argv[1], "answered", prompts)

    def answer(self, content: Any) -> None:
        """Send an object."""
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def main() -> None:
    """Serve, with a child in a session of its own, as servers with several processes have."""
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()


if __name__ == "__main__":
    main()
