"""Runs a script of a public project under 0.4.13 and under this package, and compares what both return."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from tests import engine
from tests.wild import Script

CHECKPOINT = engine.REPOSITORY / "crates/lmeval-candle/tests/fixtures/llama"
"""A LLaMA of a few thousand parameters, with its tokenizer."""

SUMS = [(number, number * 3 % 7 + 1) for number in range(1, 9)]

COMMON = f'''
import json, os, sys, warnings
warnings.simplefilter("ignore")
CHECKPOINT = {str(CHECKPOINT)!r}
_RECORD = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
           "prompt_hash", "target_hash", "acc", "acc_norm", "exact_match")

def show(results, **more):
    """Print the parts of the results that a reader compares."""
    parts = {{name: results.get(name) for name in ("results", "groups", "versions", "n-shot", "n-samples", "higher_is_better")}}
    samples = results.get("samples") or {{}}
    records = {{task: [{{name: record[name] for name in _RECORD if name in record}} for record in samples[task]] for task in samples}}
    print("RESULT " + json.dumps({{**parts, "samples": records, **more}}, default=str, sort_keys=True))
'''

GSM = """\
task: wild_gsm
dataset_path: json
dataset_kwargs: {data_files: {train: TRAIN, test: TEST}}
test_split: test
fewshot_split: train
num_fewshot: 2
output_type: generate_until
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["Question:", "</s>"], do_sample: false, max_gen_toks: 8}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true, ignore_punctuation: false}
filter_list:
  - name: strict-match
    filter: [{function: regex, regex_pattern: "is (\\\\-?[0-9]+)"}, {function: take_first}]
  - name: flexible-extract
    filter: [{function: regex, group_select: -1, regex_pattern: "(-?[0-9]+)"}, {function: take_first}]
metadata: {version: 3.0}
"""

MMLU = """\
task: TASK
dataset_path: json
dataset_kwargs: {data_files: {train: TRAIN, test: TEST}}
test_split: test
fewshot_split: train
output_type: multiple_choice
doc_to_text: "{{question}}\\nAnswer:"
doc_to_choice: ["A", "twenty B", "C", "D x y"]
doc_to_target: "{{gold}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
"""

GROUP = """\
group: wild_mmlu
task: [wild_mmlu_one, wild_mmlu_two]
aggregate_metric_list: [{metric: acc, weight_by_size: true}]
metadata: {version: 2}
"""

WIKI = """\
task: wild_wiki
dataset_path: json
dataset_kwargs: {data_files: {test: TEST}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{question}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
metadata: {version: 2.0}
"""


class Server(BaseHTTPRequestHandler):
    """A completions and chat server whose answers depend on the prompt alone."""

    protocol_version = "HTTP/1.1"
    tokenizer: Any = None
    bodies: ClassVar[list[dict[str, Any]]] = []

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """List the model."""
        is_list = self.path.endswith("/models")
        self._reply({"object": "list", "data": [{"id": "m", "object": "model"}]} if is_list else {}, 200 if is_list else 404)

    def do_POST(self) -> None:
        """Answer a request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.startswith("/v1/") or "completions" not in self.path:
            self._reply({"error": {"message": "not found"}}, 404)
            return
        self.bodies.append(body)
        if "messages" in body:
            message = {"role": "assistant", "content": _answer(_text(body["messages"][-1]["content"]))}
            self._reply({"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
            return
        prompts = body["prompt"]
        if isinstance(prompts, str) or isinstance(prompts[0], int):
            prompts = [prompts]
        choices = [self._choice(index, prompt, body) for index, prompt in enumerate(prompts)]
        self._reply({"model": "m", "choices": choices})

    def _choice(self, index: int, prompt: Any, body: dict[str, Any]) -> dict[str, Any]:
        text = prompt if isinstance(prompt, str) else self.tokenizer.decode(prompt, skip_special_tokens=False)
        choice: dict[str, Any] = {"index": index, "text": _answer(text), "finish_reason": "stop", "logprobs": None}
        if body.get("echo"):
            ids = self.tokenizer.encode(prompt, add_special_tokens=False).ids if isinstance(prompt, str) else prompt
            ids = [*ids, 7]
            values = [None, *(-0.25 - (token * 7 + before * 3) % 11 / 8 for before, token in itertools.pairwise(ids))]
            tokens = [self.tokenizer.id_to_token(token) or "" for token in ids]
            choice["text"] = text
            choice["logprobs"] = {
                "tokens": tokens,
                "token_logprobs": values,
                "top_logprobs": [None, *({token: value, "x": -0.75} for token, value in zip(tokens[1:], values[1:]))],
                "text_offset": list(range(len(tokens))),
            }
        return choice

    def _reply(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else content[-1]["text"]


def _answer(prompt: str) -> str:
    """Return an answer that is right for some sums, and has the strict form for some."""
    found = re.findall(r"(\d+) ?\+ ?(\d+)", prompt)
    left, right = map(int, found[-1]) if found else (0, len(prompt))
    value = left + right if (left + right) % 3 else left
    return f" The sum is {value}." if left % 2 else f" I say {value}"


class Calls(Script):
    """Scripts that run under both packages."""

    tolerance = 0.0
    library = False
    """Whether our package uses the reference's tasks, too."""

    def setUp(self) -> None:
        """Write the tasks; without the reference there is nothing to compare."""
        super().setUp()
        done = subprocess.run(
            [sys.executable, "-c", "import lm_eval, os; print(os.path.dirname(lm_eval.__file__))"],
            env=self._environment(False),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.skipTest("the reference is not installed")
        self.reference = Path(done.stdout.split()[-1])
        rows = [{"question": f"{a} + {b}", "answer": str(a + b), "gold": (a * b) % 4} for a, b in SUMS]
        paths = {}
        for name, some in (("TRAIN", rows[:3]), ("TEST", rows[3:])):
            paths[name] = self.write(f"{name.lower()}.jsonl", "".join(json.dumps(row) + "\n" for row in some))
        (self.folder / "tasks/wild_sums.yaml").unlink()
        for name, text in (
            ("wild_gsm", GSM),
            ("wild_mmlu_one", MMLU.replace("TASK", "wild_mmlu_one")),
            ("wild_mmlu_two", MMLU.replace("TASK", "wild_mmlu_two").replace("Answer:", "It is:")),
            ("wild_mmlu", GROUP),
            ("wild_wiki", WIKI),
        ):
            for part, path in paths.items():
                text = text.replace(part, str(path))
            self.write(f"tasks/{name}.yaml", text)

    def start_server(self) -> str:
        """Start a server, and return the URL of its API."""
        tokenizers = __import__("tokenizers")
        Server.tokenizer = tokenizers.Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
        Server.bodies.clear()
        server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/v1"

    def _environment(self, is_ours: bool) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LM_EVAL_COMPAT")}
        environment.update(HF_HOME=str(self.folder / "hub"), HF_DATASETS_CACHE=str(self.folder / "cache"))
        environment.update(OPENAI_API_KEY="none", TRANSFORMERS_VERBOSITY="error", ONEDNN_MAX_CPU_ISA="AVX2")
        environment.update(LMEVAL_LOG_LEVEL="ERROR", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")
        if is_ours:
            environment.update(PYTHONPATH=str(engine.REPOSITORY / "python"), LM_EVAL_COMPAT="0.4")
            if self.library:
                environment["LMEVAL_TASK_LIBRARY"] = str(self.reference / "tasks")
        else:
            # Packages that the reference imports and the tests do not install.
            environment["PYTHONPATH"] = str(self.folder / "stubs")
        return environment

    def _run(self, command: Callable[[bool], list[str]]) -> list[str]:
        """Run a command under the reference and under us, side by side; return what both print."""
        running = [
            subprocess.Popen(
                [sys.executable, *command(is_ours)],
                env=self._environment(is_ours),
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for is_ours in (False, True)
        ]
        printed = []
        for name, process in zip(("reference", "ours"), running):
            try:
                lines, errors = process.communicate(timeout=300)
            finally:
                process.kill()
            self.assertEqual(process.returncode, 0, f"{name}: {errors[-3000:]}")
            printed.append(lines)
        return printed

    def both(self, program: str, *arguments: str) -> tuple[Any, Any]:
        """Run a script under the reference and under us; compare what it prints, and return both."""
        path = self.write("program.py", COMMON + textwrap.dedent(program))
        found = []
        for printed in self._run(lambda _: [str(path), *arguments]):
            lines = [line for line in printed.splitlines() if line.startswith("RESULT ")]
            self.assertTrue(lines, printed[-2000:])
            found.append([json.loads(line.removeprefix("RESULT ")) for line in lines])
        self.assert_same(*found)
        return found[0], found[1]

    def both_commands(self, *words: str, program: tuple[str, ...] = ("-m", "lm_eval")) -> Any:
        """Run a command line under both; compare the files that it writes, and return the reference's results."""
        found = []
        folders = [self.folder / name for name in ("reference", "ours")]
        self._run(lambda is_ours: [*program, *(word.replace("OUT", str(folders[is_ours])) for word in words)])
        for folder in folders:
            (results,) = folder.rglob("*.json")
            read = json.loads(results.read_text(encoding="utf-8"))
            parts = {name: read.get(name) for name in ("results", "groups", "versions", "n-shot", "n-samples", "higher_is_better")}
            for samples in sorted(folder.rglob("*samples_*.jsonl")):
                task = re.sub(r"_\d{4}-.*", "", samples.name)
                parts[task] = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
            found.append(parts)
        self.assert_same(*found)
        return found[0]

    def assert_same(self, reference: Any, ours: Any, path: str = "") -> None:
        """Compare two values; numbers up to the tolerance."""
        if isinstance(reference, dict) and isinstance(ours, dict):
            self.assertEqual(sorted(reference), sorted(ours), path)
            for name in reference:
                self.assert_same(reference[name], ours[name], f"{path}/{name}")
        elif isinstance(reference, list) and isinstance(ours, list):
            self.assertEqual(len(reference), len(ours), path)
            for index, pair in enumerate(zip(reference, ours)):
                self.assert_same(*pair, f"{path}/{index}")
        elif isinstance(reference, float) and isinstance(ours, (int, float)) and self.tolerance:
            self.assertAlmostEqual(reference, ours, delta=self.tolerance * max(1.0, abs(reference)), msg=path)
        else:
            self.assertEqual(reference, ours, path)
