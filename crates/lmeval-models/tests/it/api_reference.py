"""Records what the reference harness (0.4.13) sends and computes, for `api_recorded.rs`.

Run with a Python that has `lm_eval`, `transformers`, `requests`, `aiohttp` and `tenacity`:
    python tests/it/api_reference.py > tests/data/api_recorded.json
"""

import hashlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lm_eval.api.instance import Instance
from lm_eval.models.anthropic_llms import AnthropicChat
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.gguf import GGUFLM
from lm_eval.models.openai_completions import (
    LocalChatCompletion,
    LocalCompletionsAPI,
    OpenAIChatCompletion,
)
from lm_eval.models.sglang_generate_API import SGLANGGENERATEAPI
from transformers import AutoTokenizer

os.environ["ANTHROPIC_API_KEY"] = "key"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../lmeval-tokenizers/tests/data/tokenizer")
TOKENIZER = AutoTokenizer.from_pretrained(FOLDER)
EXCHANGES = []


def number(*parts):
    """Return a pseudo-random log-probability derived from the arguments."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return -int.from_bytes(digest[:5], "big") / 2**37


def completion(prompt, index, body):
    if not body.get("echo"):
        return {"index": index, "text": f" text {number(prompt)}", "finish_reason": "length"}
    tokens = TOKENIZER(prompt, add_special_tokens=False).input_ids if isinstance(prompt, str) else prompt
    texts = [TOKENIZER.decode([token]) for token in tokens] + ["x"]
    numbers = [None] + [number(tokens[: i + 1]) for i in range(1, len(tokens))] + [-0.5]
    tops, offsets, offset = [None], [0], len(texts[0])
    for i in range(1, len(texts)):
        greedy = len(tokens) % 2 == 0 or i % 3 != 0
        top = {texts[i]: numbers[i]}
        if not greedy:
            top["other"] = numbers[i] / 2
        tops.append(top)
        offsets.append(offset)
        offset += len(texts[i])
    logprobs = {"tokens": texts, "token_logprobs": numbers, "top_logprobs": tops, "text_offset": offsets}
    return {"index": index, "text": "".join(texts), "logprobs": logprobs, "finish_reason": "length"}


def sglang(ids, body):
    if not body.get("return_logprob"):
        return {"text": f" text {number(ids)}", "meta_info": {"finish_reason": {"type": "stop"}}}
    own = [[None if i == 0 else number(ids[: i + 1]), ids[i], None] for i in range(len(ids))]
    top = [None] + [[[own[i][0], ids[i], None]] for i in range(1, len(ids))]
    return {"text": "x", "meta_info": {"input_token_logprobs": own, "input_top_logprobs": top}}


def answer(path, body):
    if path.endswith("/generate"):
        prompts = body.get("input_ids", body.get("text"))
        if isinstance(prompts, str):
            return sglang(prompts, body)
        return [sglang(prompt, body) for prompt in prompts]
    if path.endswith("/messages"):
        return {"content": [{"type": "text", "text": f"said {number(body)}"}], "stop_reason": "end_turn"}
    if path.endswith("/chat/completions"):
        message = {"role": "assistant", "content": f"thought</t> said {number(body)}"}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    prompts = body["prompt"]
    if isinstance(prompts, str):
        prompts = [prompts]
    choices = [completion(prompt, index, body) for index, prompt in enumerate(prompts)]
    return {"choices": choices[::-1], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        reply = json.dumps(answer(self.path, json.loads(text)))
        EXCHANGES.append({"path": self.path, "body": text, "answer": reply})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(reply.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
ROOT = f"http://127.0.0.1:{server.server_port}"
CASES = []


def record(backend, path, args, requests, batch_size=1):
    classes = {
        "local-completions": LocalCompletionsAPI,
        "local-chat-completions": LocalChatCompletion,
        "openai-chat-completions": OpenAIChatCompletion,
        "anthropic-chat": AnthropicChat,
        "sglang-generate": SGLANGGENERATEAPI,
        "gguf": GGUFLM,
    }
    EXCHANGES.clear()
    real = {name: FOLDER if value == "{tokenizer}" else value for name, value in args.items()}
    model = classes[backend](base_url=ROOT + path, batch_size=batch_size, **real)
    results = []
    for number, (kind, *arguments) in enumerate(requests):
        shown = [JsonChatStr(json.dumps(part, ensure_ascii=False)) if isinstance(part, list) else part for part in arguments]
        instance = Instance(kind, {}, tuple(shown), 0, metadata=("task", number, 1))
        results.append(instance)
    found = []
    if batch_size > 1:
        kind = requests[0][0]
        found = getattr(model, kind)(results)
    else:
        for instance in results:
            found.extend(getattr(model, instance.request_type)([instance]))
    CASES.append(
        {
            "backend": backend,
            "path": path,
            "args": args,
            "batch_size": batch_size,
            "requests": requests,
            "exchanges": list(EXCHANGES),
            "results": found,
        }
    )


def ll(context, continuation):
    return ["loglikelihood", context, continuation]


def gen(context, **settings):
    return ["generate_until", context, settings]


def rolling(text):
    return ["loglikelihood_rolling", text]


LONG = "Once upon a time there was a little girl named Lily who counted zero one two three"
PAIRS = [
    ll("Hello world", " zero"),
    ll("Hello \n ", "one"),
    ll("", "Once upon a time"),
    ll("", "<s>Once"),
    ll("A:", " é 漢字 🙂"),
    ll("Question: zero?\nAnswer:", " three"),
    ll(LONG, " and one"),
    ll("<s>Hello", " world</s>"),
]
TEXTS = [rolling(LONG), rolling("zero"), rolling(" one\n\ntwo "), rolling(LONG + LONG)]
GENERATIONS = [
    gen("Hello world", until=["\n"], max_gen_toks=4),
    gen("c", until="x", max_tokens=9, max_gen_toks=5, top_p=0.5, seed=99, temperature=0.7, do_sample=True),
    gen(LONG, until=["a", "b", "c", "d", "e"], max_gen_toks=4, do_sample=False),
    gen("Été 漢字", max_gen_toks=3, until=["</s>"]),
    gen("A", temperature=0.0),
    gen("A", until=None, max_gen_toks=2, stop_token_ids=[1, 2], extra={"b": 1, "a": None}),
]
CHAT = [{"role": "system", "content": "S é"}, {"role": "user", "content": "hi"}]
TURNS = CHAT + [{"role": "assistant", "content": "ho"}, {"role": "user", "content": "he?"}]
CHATS = [
    gen(CHAT, until=["a", "b", "c", "d", "e"], max_gen_toks=5),
    gen(TURNS, until="x", max_tokens=9, max_gen_toks=5, temperature=0.5, top_k=3),
    gen(CHAT[1:], do_sample=False),
    gen(CHAT[1:], until=["\n\n", "x", " "], max_gen_toks=5),
]
LOCAL = {"model": "m", "tokenizer_backend": "huggingface", "tokenizer": "{tokenizer}"}

record("local-completions", "/v1/completions", {**LOCAL, "max_length": 24}, PAIRS + TEXTS)
record("local-completions", "/v1/completions", {**LOCAL, "max_length": 24, "add_bos_token": True}, PAIRS + TEXTS[:2])
record("local-completions", "/v1/completions", {**LOCAL, "custom_prefix_token_id": 7}, PAIRS[2:4] + TEXTS[:1])
record("local-completions", "/v1/completions", {**LOCAL, "tokenized_requests": False}, PAIRS[:3] + PAIRS[4:6] + GENERATIONS)
record("local-completions", "/v1/completions", {**LOCAL, "max_length": 20, "max_gen_toks": 6}, GENERATIONS)
record("local-completions", "/v1/completions", {**LOCAL, "max_length": 8}, [gen(LONG, until=[], max_gen_toks=m) for m in (4, 7, 9)])
record("local-completions", "/v1/completions", {**LOCAL, "add_bos_token": True, "eos_string": "<E>", "seed": 5}, GENERATIONS[:3])
record("local-completions", "/v1/completions", {"model": "m", "tokenizer_backend": None}, GENERATIONS)
ORDERED = [ll("a b c d e f g zero", " one two"), ll("zero one", " two"), ll("x", "y")]
record("local-completions", "/v1/completions", LOCAL, ORDERED, batch_size=3)
record("local-completions", "/v1/completions", {**LOCAL, "tokenized_requests": False}, ORDERED, batch_size=3)
record("local-completions", "/v1/completions", LOCAL, [gen("Hello world", until=["x"]), gen("zero", until=["x"])], batch_size=2)
record("local-chat-completions", "/v1/chat/completions", {"model": "m"}, CHATS)
record("local-chat-completions", "/v1/chat/completions", {"model": "m", "think_end_token": "</t>", "eos_string": "<E>"}, CHATS)
for name in ("gpt-4o", "gpt-5", "o1-mini", "gpt-3.5-turbo"):
    record("openai-chat-completions", "/v1/chat/completions", {"model": name, "header": {"X-A": "b"}}, CHATS)
record("anthropic-chat", "/v1/messages", {"model": "claude"}, CHATS + [gen(CHAT[1:], until=["\n\n"])])
record("sglang-generate", "/generate", {**LOCAL, "max_length": 24}, PAIRS + TEXTS + GENERATIONS)
record("sglang-generate", "/generate", {**LOCAL, "tokenized_requests": False}, GENERATIONS)
record("gguf", "", {}, PAIRS[:2] + PAIRS[4:6] + [ll("Hello world", "")][:0] + [gen("A", until=["\n"]), gen("A")])
json.dump(CASES, sys.stdout, ensure_ascii=False, separators=(",", ":"))
print()
