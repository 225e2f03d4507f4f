#!/usr/bin/env python3
"""Measures `lm-eval reproduce --explain`: claims made by lm_eval 0.4.13 with one setting changed, and claims without a cause.

    cargo build --release -p lmeval-cli
    .testenv/bin/python bench/claims.py --binary target/release/lm-eval --out bench/results/claims.json

The Python that runs this needs `lm_eval[api]` 0.4.13 and `tokenizers`. Three kinds of claims, each a score of 0.4.13 on 400 documents:

causes  one of ten settings differs from the run that is to reproduce it. Right is an explanation whose first line names that setting.
noise   the same settings, and a model of the same strength that knows other documents. Right is an explanation that names nothing.
models  the same settings, and a model that is 15 to 33 points better or worse. Right is an explanation that names nothing.

The model is a server whose answers follow from the tokens of the prompt, the limits of the request and the number of the claim: what it knows, how
long it reasons, what it needs to show what it knows, and how many answers any change of a prompt redraws.
"""

import argparse
import asyncio
import collections
import dataclasses
import hashlib
import json
import logging
import multiprocessing
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "crates/lmeval-tokenizers/tests/data/tokenizer"
DOCUMENTS, TRAINING = 400, 60
SYSTEM = "You are a careful teacher."
TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/test.jsonl, train: {folder}/train.jsonl}}}}
test_split: test
training_split: train
fewshot_split: train
output_type: generate_until
doc_to_text: "{text}"
doc_to_target: "{{{{a}}}}"
fewshot_delimiter: "\\n\\n"
fewshot_config: {config}
generation_kwargs: {{until: {until}, max_gen_toks: {budget}, do_sample: false}}
metric_list: [{{metric: exact_match}}]
filter_list:
- {{name: strict, filter: [{{function: regex, regex_pattern: '#### (\\w+)'}}, {{function: take_first}}]}}
- {{name: flexible, filter: [{{function: regex, regex_pattern: '(right|wrong)'}}, {{function: take_first}}]}}
metadata: {{version: 1.0}}
"""
CAUSES = ["template", "bos", "turns", "system", "until", "budget", "filter", "shots", "twin", "dialect", "limit"]
NAMED = {
    "template": r"the chat template",
    "bos": r"added BOS token",
    "turns": r"examples (as turns|in one message)",
    "system": r"system prompt",
    "until": r"stop strings|empty line",
    "budget": r"tokens for an answer|after \d+ tokens",
    "filter": r"`exact_match,\w+` of this run",
    "shots": r"with (no|\d+) examples",
    "twin": r"as the task|of the task",
    "dialect": r"as release 0\.[45]",
    "limit": r"--limit",
}


def chance(*parts):
    """Return a number between 0 and 1 that follows from the parts."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclasses.dataclass
class Settings:
    """What a run can differ in."""

    task: str = "quiz"
    shots: int = 0
    template: bool = False
    turns: bool = False
    system: str | None = None
    bos: bool = False
    gen: dict = dataclasses.field(default_factory=dict)
    limit: int | None = None
    filter: str = "flexible"


class Claim:
    """A claim: the settings of both runs, and the model."""

    def __init__(self, kind, number):
        self.kind, self.number = kind, number
        self.cause = CAUSES[number % len(CAUSES)] if kind == "causes" else None
        if self.cause in ("dialect", "limit") and (number // len(CAUSES)) % 2 == (self.cause == "limit"):
            # Together they are the tenth cause.
            self.cause = {"dialect": "limit", "limit": "dialect"}[self.cause]
        roll = lambda name: chance(kind, number, name)
        self.strength = 0.45 + 0.2 * roll("strength")
        self.gap = 0.15 + 0.18 * roll("gap")
        self.noise = [0.0, 0.05, 0.15, 0.3][int(4 * roll("noise"))]
        # Whether the claim is made with the setting that the model needs.
        self.forward = roll("forward") < 0.5
        base = Settings()
        base.shots = [0, 0, 3, 5][int(4 * roll("shots"))]
        base.template = roll("template") < 0.4
        base.turns = base.template and roll("turns") < 0.5
        self.config = "{split: train}"
        if self.cause in ("template", "bos"):
            base.template = base.turns = False
        elif self.cause == "turns":
            base.template, base.shots = True, base.shots or 5
        elif self.cause == "dialect":
            base.shots = 3
            self.config = "{split: train, fewshot_indices: [0, 1, 2, 3, 4, 5]}"
        elif self.cause == "shots":
            base.shots = 0
        elif self.cause == "limit":
            self.gap += 0.1
        self.claim, self.run = base, dataclasses.replace(base)
        needing, other = (self.claim, self.run) if self.forward else (self.run, self.claim)
        if self.cause == "template":
            needing.template = needing.turns = True
        elif self.cause == "bos":
            needing.bos = True
        elif self.cause == "turns":
            needing.turns, other.turns = True, False
        elif self.cause == "system":
            needing.system = SYSTEM
        elif self.cause == "until":
            other.gen = {"until": ["\n\n"]}
        elif self.cause == "budget":
            other.gen = {"max_gen_toks": 256}
        elif self.cause == "filter":
            self.claim.filter, self.run.filter = ("strict", "flexible") if self.forward else ("flexible", "strict")
        elif self.cause == "shots":
            needing.shots = [5, 8, 25][int(3 * roll("count"))]
        elif self.cause == "twin":
            needing.task = "quiz_cot"
        elif self.cause == "limit":
            self.claim.limit, self.run.limit = 60, None
        self.needed = needing.shots

    @property
    def name(self):
        """Return the name of the model of the claim."""
        return f"{self.kind}-{self.number}"

    def has_what_it_needs(self, seen):
        """Return whether the request has what the model needs to show what it knows."""
        if self.cause == "template":
            return seen["template"]
        if self.cause == "bos":
            return seen["bos"] == 1
        if self.cause == "turns":
            return seen["turns"]
        if self.cause == "system":
            return seen["system"]
        if self.cause == "shots":
            return seen["shots"] >= self.needed
        if self.cause == "twin":
            return seen["twin"]
        if self.cause == "dialect":
            # The examples that release 0.5 restricts itself to.
            return seen["largest"] <= 906
        return True

    def answer(self, ids, text, request, tokenizer, is_claim):
        """Return what the model writes, and whether it was cut off."""
        numbers = [int(number) for number in re.findall(r"Question (\d+)", text)]
        # A request that only looks whether the server answers has no question.
        question = numbers[-1] if numbers else 0
        before = re.split("Problem|Question", text)[0]
        seen = {
            "template": "<assistant>" in text,
            "bos": next((index for index, token in enumerate(ids) if token != 0), len(ids)),
            "turns": text.count("<user>") > 1,
            "system": bool(re.search(r"[a-z]{3}", re.sub(r"<[a-z/]+>", "", before))),
            "shots": len(numbers) - 1,
            "twin": "Problem: Question" in text[text.rfind("Question") - 9 :],
            "largest": max([*numbers[:-1], 0]),
        }
        strength = self.strength
        if not self.has_what_it_needs(seen):
            strength -= self.gap
        if self.cause == "limit" and question <= 60:
            strength += self.gap if self.forward else -self.gap
        knowledge = self.number
        if self.kind == "noise" and is_claim:
            knowledge = -1 - self.number
        elif self.kind == "models" and is_claim:
            knowledge, strength = -1 - self.number, strength + (self.gap if self.forward else -self.gap)
        dice = chance(knowledge, question)
        if chance(self.number, "noise", text, seen["bos"]) < self.noise:
            dice = chance(self.number, "redrawn", text, seen["bos"])
        result = "right" if dice < strength else "wrong"
        # How the answer is written. Some documents need long reasoning, some several paragraphs.
        share = self.gap / self.strength
        words = ["so", "then", "first", "next", "since", "thus"]
        long = self.cause == "budget" and chance(self.number, "long", question) < share
        count = 300 if long else 12 + int(20 * chance(self.number, "length", question))
        body = " ".join(words[int(6 * chance(question, index))] for index in range(count))
        between = "\n\n" if self.cause == "until" and chance(self.number, "paragraph", question) < share else "\n"
        strict = self.cause != "filter" or chance(self.number, "format", question) >= share
        said = body + between + (f"#### {result}" if strict else f"The answer is {result}.")
        for stop in request.get("stop") or []:
            said = said.split(stop)[0] if stop else said
        kept = tokenizer.encode(said, add_special_tokens=False).ids
        limit = request.get("max_tokens", 256)
        if len(kept) <= limit:
            return said, len(kept), "stop"
        return tokenizer.decode(kept[:limit]), limit, "length"


class Server:
    """Answers completions like an inference server."""

    def __init__(self):
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
        self.claims = {}

    def body(self, path, request):
        """Return the status and the answer to a request."""
        if request is None or not path.endswith("/completions") or "chat" in path:
            return 404, {"error": {"message": "not found"}}
        model = request["model"]
        is_claim = model.startswith("claim-")
        kind, number = model.removeprefix("claim-").split("-")
        claim = self.claims.setdefault((kind, number), Claim(kind, int(number)))
        prompts = request["prompt"]
        if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
            prompts = [prompts]
        choices, used = [], 0
        for index, prompt in enumerate(prompts):
            ids = prompt if isinstance(prompt, list) else self.tokenizer.encode(prompt, add_special_tokens=False).ids
            text = self.tokenizer.decode(ids, skip_special_tokens=False)
            said, count, reason = claim.answer(ids, text, request, self.tokenizer, is_claim)
            used += count
            choices.append({"index": index, "text": said, "finish_reason": reason, "logprobs": None})
        usage = {"prompt_tokens": 1, "completion_tokens": used}
        return 200, {"model": model, "choices": choices, "usage": usage}

    async def serve(self, reader, writer):
        """Answer the requests of a connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *headers = head.decode("latin-1").split("\r\n")
                named = dict(header.lower().split(": ", 1) for header in headers if ": " in header)
                body = await reader.readexactly(int(named.get("content-length", 0)))
                status, answer = self.body(line.split(" ")[1], json.loads(body) if body else None)
                data = json.dumps(answer).encode()
                front = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
                writer.write(front.encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def run(self, listener):
        """Serve until the process ends."""
        async with await asyncio.start_server(self.serve, sock=listener, limit=1 << 22) as server:
            await server.serve_forever()


def serve(listener):
    """Run a server in a process of its own."""
    asyncio.run(Server().run(listener))


def start():
    """Start a server; return its process and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    process = multiprocessing.Process(target=serve, args=(listener,), daemon=True)
    process.start()
    return process, f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions"


def write(claim, folder):
    """Write the tasks of a claim and their documents."""
    row = lambda number: json.dumps({"q": f"Question {number}?", "a": "right"}) + "\n"
    (folder / "test.jsonl").write_text("".join(row(number) for number in range(1, DOCUMENTS + 1)))
    (folder / "train.jsonl").write_text("".join(row(900 + number) for number in range(1, TRAINING + 1)))
    for name, text in [("quiz", "{{q}}"), ("quiz_cot", "Problem: {{q}}")]:
        given = {"name": name, "folder": folder, "text": text, "config": claim.config, "until": '["<end>"]', "budget": 1024}
        (folder / f"{name}.yaml").write_text(TASK.format(**given))


def model_args(model, settings, url):
    """Return the arguments of the model as a string."""
    args = {
        "model": model,
        "base_url": url,
        "tokenizer_backend": "huggingface",
        "tokenizer": TOKENIZER,
        "num_concurrent": 8,
        "add_bos_token": settings.bos,
        "max_length": 8192,
    }
    return ",".join(f"{name}={value}" for name, value in args.items())


def claimed(claim, folder, url):
    """Make the claim with 0.4.13. Return its score with standard error and number of documents."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    settings = claim.claim
    model = f"claim-{claim.name}" if claim.kind != "causes" else claim.name
    results = lm_eval.simple_evaluate(
        model="local-completions",
        model_args=model_args(model, settings, url),
        tasks=[settings.task],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        num_fewshot=settings.shots,
        apply_chat_template=settings.template,
        fewshot_as_multiturn=settings.turns,
        system_instruction=settings.system,
        gen_kwargs=dict(settings.gen) or None,
        limit=settings.limit,
        bootstrap_iters=0,
        batch_size=1,
    )
    scores = results["results"][settings.task]
    name = f"exact_match,{settings.filter}"
    value, count = scores[name], results["n-samples"][settings.task]["effective"]
    return value, (value * (1 - value) / (count - 1)) ** 0.5, count


def reproduced(claim, folder, url, binary, score):
    """Ask for an explanation. Return the verdict, the causes that are named, and the whole output."""
    settings = claim.run
    value, stderr, count = score
    words = [binary, "reproduce", f"{settings.task}=exact_match,{settings.filter}={value}±{stderr}@{count}", "--explain", "--quiet"]
    # With an identity of its own, the model is not looked for in the server's list at the start of every form.
    words += ["--model", "local-completions", "--model_args", f"{model_args(claim.name, settings, url)},model_id={claim.name}"]
    words += ["--include_path", folder, "--library", "none", "--num_fewshot", str(settings.shots)]
    if settings.template:
        words += ["--apply_chat_template", "--fewshot_as_multiturn", str(settings.turns).lower()]
    if settings.system:
        words += ["--system_instruction", settings.system]
    if settings.gen:
        words += ["--gen_kwargs", json.dumps(settings.gen)]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, cwd=folder)
    verdict = {0: "REPRODUCED", 3: "DIFFERENT", 4: "CANNOT TELL"}.get(done.returncode, "ERROR")
    lines = [line for line in done.stdout.splitlines() if line.startswith("→")]
    return verdict, lines, done.stdout + done.stderr


def judged(job):
    """Make a claim and have it explained."""
    kind, number, binary, url = job
    claim = Claim(kind, number)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        write(claim, folder)
        began = time.monotonic()
        score = claimed(claim, folder, url)
        made = time.monotonic() - began
        verdict, lines, output = reproduced(claim, folder, url, binary, score)
    named = [name for name, pattern in NAMED.items() if lines and re.search(pattern, lines[0])]
    right = named == [claim.cause] if claim.cause else not lines
    return {
        "kind": kind,
        "number": number,
        "cause": claim.cause,
        "forward": claim.forward,
        "gap": round(claim.gap, 3),
        "noise": claim.noise,
        "verdict": verdict,
        "lines": lines,
        "right": right,
        "output": output if verdict == "ERROR" or not right else "",
        "seconds": [round(made, 1), round(time.monotonic() - began - made, 1)],
    }


def worker(jobs, results, binary):
    """Work off jobs with a server of its own."""
    logging.disable(logging.WARNING)
    process, url = start()
    while (job := jobs.get()) is not None:
        results.put(judged((*job, binary, url)))
    process.terminate()


def main():
    """Make all claims, count, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/lm-eval")
    parser.add_argument("--count", nargs="+", type=pathlib.Path, help="count the claims in these files of `--lines`, and make none")
    parser.add_argument("--out", type=pathlib.Path, help="where the counts go, as JSON")
    parser.add_argument("--lines", type=pathlib.Path, help="where every claim goes, as JSON lines")
    parser.add_argument("--causes", default=200, type=int)
    parser.add_argument("--noise", default=200, type=int)
    parser.add_argument("--models", default=100, type=int)
    parser.add_argument("--first", default=0, type=int, help="the number of the first claim of each kind")
    parser.add_argument("--workers", default=2, type=int)
    given = parser.parse_args()
    if given.count:
        report([json.loads(line) for path in given.count for line in path.read_text().splitlines()], given)
        return
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1", OPENAI_API_KEY="none", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    context = multiprocessing.get_context("fork")
    jobs, results = context.Queue(), context.Queue()
    kinds = {"causes": given.causes, "noise": given.noise, "models": given.models}
    numbers = [(kind, given.first + number) for kind, count in kinds.items() for number in range(count)]
    for job in numbers + [None] * given.workers:
        jobs.put(job)
    binary = given.binary.resolve()
    workers = [context.Process(target=worker, args=(jobs, results, binary)) for _ in range(given.workers)]
    for process in workers:
        process.start()
    found = []
    for _ in numbers:
        one = results.get()
        found.append(one)
        if given.lines:
            with given.lines.open("a") as file:
                file.write(json.dumps(one, ensure_ascii=False) + "\n")
        if not one["right"]:
            print(f"{one['kind']} {one['number']} ({one['cause']}, gap {one['gap']}): {one['verdict']} {one['lines']}", flush=True)
            if one["verdict"] == "ERROR":
                print(one["output"][-2000:])
    for process in workers:
        process.join()
    report(found, given)


def report(found, given):
    """Print the counts, and write them."""
    rows, by_cause = {}, collections.defaultdict(lambda: {"claims": 0, "right": 0, "different": 0})
    for kind in ("causes", "noise", "models"):
        own = [one for one in found if one["kind"] == kind]
        different = [one for one in own if one["verdict"] == "DIFFERENT"]
        rows[kind] = {"claims": len(own), "different": len(different), "right": sum(one["right"] for one in own)}
        print(f"{kind}: {rows[kind]['right']} of {len(own)} right, {len(different)} different")
    for one in found:
        if one["cause"]:
            counts = by_cause[one["cause"]]
            counts["claims"] += 1
            counts["right"] += one["right"]
            counts["different"] += one["verdict"] == "DIFFERENT"
    for cause, counts in by_cause.items():
        print(f"  {cause}: {counts}")
    if given.out:
        record = {"script": "bench/claims.py", "machine": "two x86-64 cores", "counts": rows, "by_cause": by_cause}
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
