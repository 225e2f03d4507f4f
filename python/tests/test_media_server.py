"""Images for chat servers: the bodies of requests beside those of 0.4.13."""

from __future__ import annotations

import base64
import io
import json
import os
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import media

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import lm_eval
from lm_eval.tasks import TaskManager

if __name__ == "__main__":
    names, folders, options = sys.argv[1].split(","), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    found = lm_eval.simple_evaluate(
        model="local-chat-completions", tasks=names, task_manager=TaskManager(include_path=folders), bootstrap_iters=0,
        apply_chat_template=True, **options
    )
    scores = {task: {key: value for key, value in entry.items() if "," in key} for task, entry in found["results"].items()}
    print("RESULT " + json.dumps(scores, sort_keys=True))
"""

TASK = """\
task: charts
dataset_path: parquet
dataset_kwargs: {data_files: {test: data/charts.parquet}}
test_split: test
output_type: generate_until
doc_to_text: 'Look: <image>{{query}} <image>'
doc_to_target: '{{label[0]}}'
doc_to_image: [image, image]
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 16, temperature: 0.0, do_sample: false}
metric_list: [{metric: exact_match}]
"""


class _Handler(BaseHTTPRequestHandler):
    bodies: list[Any]

    def do_POST(self) -> None:
        """Answer with a constant."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).bodies.append(body)
        choice = {"index": 0, "message": {"role": "assistant", "content": "B"}, "finish_reason": "stop"}
        answer = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@unittest.skipUnless(media.is_installed(), "Pillow or `datasets` is not installed")
class Bodies(unittest.TestCase):
    """`local-chat-completions` with images of all formats."""

    def setUp(self) -> None:
        """Write a task with two images per document."""
        if os.environ.get("LM_EVAL_TEST_PYTHON") is None:
            self.skipTest("`LM_EVAL_TEST_PYTHON` names no interpreter with the reference")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "tasks").mkdir()
        (self.folder / "tasks/charts.yaml").write_text(TASK, encoding="utf-8")
        media.write_charts(self.folder / "data/charts.parquet")

    def bodies(self, is_reference: bool, **arguments: Any) -> tuple[list[Any], Any]:
        """Return the bodies of the requests by their text, and the scores."""
        handler = type("Handler", (_Handler,), {"bodies": []})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_address[1]}/v1/chat/completions"
        given = {"model": "m", "base_url": url, "num_concurrent": 1, "max_retries": 1, **arguments}
        scores = media.asked(self.folder, "charts", ["tasks"], is_reference, PROGRAM, model_args=given)
        bodies = [body for body in handler.bodies if isinstance(body["messages"][-1]["content"], list)]
        return sorted((self.decoded(body) for body in bodies), key=lambda body: json.dumps(body, sort_keys=True)[-400:]), scores

    def decoded(self, body: dict[str, Any]) -> dict[str, Any]:
        """Replace the images of a body by their pixels."""
        from PIL import Image

        for part in body["messages"][-1]["content"]:
            if part["type"] == "image_url":
                head, _, content = part["image_url"]["url"].partition(";base64,")
                self.assertTrue(head.startswith("data:image/"), head)
                image = Image.open(io.BytesIO(base64.b64decode(content))).convert("RGBA")
                part["image_url"]["url"] = f"{image.size} {image.tobytes().hex()}"
        return body

    def test_bodies_are_those_of_the_reference(self) -> None:
        """Everything but the encoding of the images is equal, and so are their pixels."""
        for arguments in ({}, {"max_images": 2}):
            (ours, our_scores), (theirs, their_scores) = (self.bodies(side, **arguments) for side in (False, True))
            self.assertEqual(len(ours), len(media.FORMATS))
            self.assertEqual(our_scores, their_scores)
            for own, other in zip(ours, theirs, strict=True):
                self.assertEqual(self.without_pixels(own), self.without_pixels(other))
                for left, right in zip(self.pixels(own), self.pixels(other), strict=True):
                    self.assertLessEqual(self.distance(left, right), 4)

    def without_pixels(self, body: dict[str, Any]) -> Any:
        """Return a body with the sizes of its images alone."""
        return json.loads(json.dumps(body), object_hook=lambda d: {**d, "url": d["url"].split(")")[0]} if "url" in d else d)

    def pixels(self, body: dict[str, Any]) -> list[bytes]:
        """Return the pixels of the images of a body."""
        parts = body["messages"][-1]["content"]
        return [bytes.fromhex(part["image_url"]["url"].split(") ")[1]) for part in parts if part["type"] == "image_url"]

    def distance(self, left: bytes, right: bytes) -> int:
        """Return the largest difference between two images: decoders of JPEG, which a turned photograph passes through, round differently."""
        return max(abs(one - other) for one, other in zip(left, right, strict=True))


if __name__ == "__main__":
    unittest.main()
