"""Damages the files of small models and looks whether a changed score passes unnoticed.

A file that is damaged must be refused, or give exactly the scores of the whole one. These changes are out of scope, because nothing
could notice them: no format has checksums, so they describe another model that is valid too:

- a byte of a weight, two tensors of equal shape and type that swap their names, and a data type of the same width (F16 for BF16),
- a token, its type, its score or a merge that is replaced by another one,
- a number that is a free parameter of the model: an epsilon, the base and scaling of rotary embeddings, a context length, an
  activation, an id of a special token inside the vocabulary, and the number of heads where no shape depends on it (GPT-2); and flags
  of the tokenizer.

Everything that two parts of the files say must agree: lengths, counts, shapes, offsets, alignment, data types and the room they leave,
names of keys and tensors, the number of heads and layers, and the size of the vocabulary. In scope for every change: no panic, no
run over 30 s, no more than 2 GiB of memory.

    python bench/attack/model_files.py --binary target/debug/lm-eval [--seed 0] [--scale 1]
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import random
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finished_runs import TASK
from support import Tally, arguments, measure

FIXTURES = Path(__file__).resolve().parents[2] / "crates/lmeval-candle/tests/fixtures"
MEMORY = 2 << 30
ROWS = [{"q": q, "a": a} for q, a in (("abc", " d"), ("hello there", " you"), ("x y z", " 1 2"), ("the end", "ns of it"), ("a" * 50 + "!", " xx"))]


def prepare(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "score.yaml").write_text(TASK.format(name="score", kind="loglikelihood", rest="metric_list: [{metric: perplexity}]"))
    settings = "metric_list: [{metric: exact_match}]\ngeneration_kwargs: {until: [], max_gen_toks: 6}"
    (folder / "write.yaml").write_text(TASK.format(name="write", kind="generate_until", rest=settings))


@dataclass
class Scores:
    """What a run gave: its answers by task, or the fault, or the message of the refusal."""

    answers: dict[str, Any] | None
    fault: str | None
    message: str


def scores(binary: str, model: Path, *more: str) -> Scores:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        words = ["run", "--model", "hf", "--model_args", f"pretrained={model},device=cpu", "--tasks", "score.yaml,write.yaml"]
        done = measure(binary, folder, *words, "-s", "-o", "out", *more)
        fault = done.fault(MEMORY)
        if fault or done.returncode != 0:
            return Scores(None, fault, done.stderr.strip() or f"{done.seconds:.0f} s, {done.peak >> 20} MiB")
        answers = {}
        for path in sorted((folder / "out").rglob("samples_*.jsonl")):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            answers[path.name.split("_20")[0]] = sorted((line["doc_id"], json.dumps(line["resps"])) for line in lines)
        return Scores(answers, None, done.stderr)


# GGUF files as a list of fields, each with its place in the file.


@dataclass
class Field:
    role: str
    name: str
    start: int
    length: int


STRUCTURE = ("magic", "version", "count", "key", "key length", "type", "length", "name", "dimensions", "size", "data type", "offset")
#: Metadata that two parts of a file say, so that a change must be noticed.
AGREED = (
    *("block_count", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv"),
    *("rope.dimension_count", "attention.key_length", "attention.value_length", "general.alignment"),
)
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Gguf:
    """Walks through a GGUF file of version 2 or 3 and notes its fields."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.fields = data, 0, list[Field]()
        self.take("magic", "", 4)
        self.take("version", "", 4)
        tensors, entries = (self.number("count", name, 8) for name in ("tensors", "entries"))
        for _ in range(entries):
            key = self.string("key")
            self.value(self.number("type", key, 4), key)
        self.tensors = [self.tensor() for _ in range(tensors)]
        self.end = self.at

    def take(self, role: str, name: str, length: int) -> bytes:
        self.fields.append(Field(role, name, self.at, length))
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, role: str, name: str, length: int) -> int:
        return int.from_bytes(self.take(role, name, length), "little")

    def string(self, role: str, name: str = "") -> str:
        length = self.number("key length" if role == "key" else "length", name, 8)
        return self.take(role, name, length).decode("utf-8", "replace") if length else ""

    def value(self, kind: int, name: str) -> None:
        if kind == 8:
            self.string("string", name)
        elif kind == 9:
            inner, count = self.number("type", name, 4), self.number("length", name, 8)
            for _ in range(count):
                self.value(inner, name)
        else:
            self.take("value", name, SIZES[kind])

    def tensor(self) -> tuple[str, int]:
        name = self.string("name")
        for _ in range(self.number("dimensions", name, 4)):
            self.take("size", name, 8)
        self.take("data type", name, 4)
        place = self.at
        self.take("offset", name, 8)
        return name, place


def is_structure(field: Field) -> bool:
    agreed = field.name.endswith(AGREED) and field.name != "gpt2.attention.head_count"
    return field.role in STRUCTURE or (field.role == "value" and agreed)


def changed(field: Field, data: bytes, rng: random.Random) -> bytes:
    """Another content of a field: a flipped bit, a neighbour, or a number at its limits."""
    old = data[field.start : field.start + field.length]
    number, bits = int.from_bytes(old, "little"), 8 * field.length
    if field.role in ("key", "name", "string") or rng.random() < 0.4:
        place = rng.randrange(bits)
        return (number ^ (1 << place)).to_bytes(field.length, "little")
    choices = [0, 1, 2, number + 1, number - 1, number * 2, number // 2, number + 32, number - 32, (1 << bits) - 1, 1 << (bits - 1)]
    choices += [1 << 31, 1 << 32, 1 << 40, len(data), len(data) - number]
    return (rng.choice(choices) % (1 << bits)).to_bytes(field.length, "little")


def gguf_cases(rng: random.Random, count: int) -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
    """Cases: attack, detail, seed, how the copy is damaged, and whether a changed score would be a fault."""
    seeds = [FIXTURES / "gguf" / f"{name}.gguf" for name in ("llama", "gpt2")]
    parsed = {seed: Gguf(seed.read_bytes()) for seed in seeds}
    for index in range(count):
        seed = seeds[index % len(seeds)]
        file = parsed[seed]
        roles: dict[str, list[Field]] = {}
        for field in file.fields:
            roles.setdefault("agreed" if is_structure(field) and field.role == "value" else field.role, []).append(field)
        role = rng.choice(sorted(roles))
        field = rng.choice(roles[role])
        new = changed(field, file.data, rng)
        if field.role == "data type" and {new[0], file.data[field.start]} == {1, 30}:
            continue
        if index % 20 == 0:
            cut = rng.randrange(file.end + (len(file.data) - file.end) // 2)
            yield "GGUF: cut", f"at {cut}", seed, lambda path, data=file.data[:cut]: discard(path.write_bytes(data)), True
        elif index % 20 == 1:
            (one, first), (other, second) = rng.sample(file.tensors, 2)
            data = bytearray(file.data)
            data[first : first + 8] = data[second : second + 8]
            yield "GGUF: shared offset", f"{one}, {other}", seed, lambda path, data=bytes(data): discard(path.write_bytes(data)), True
        else:
            data = bytearray(file.data)
            data[field.start : field.start + field.length] = new
            old = file.data[field.start : field.start + field.length]
            detail = f"{field.name} {old[:24]!r} -> {new[:24]!r}"
            kind = "structure" if is_structure(field) else "free value"
            yield (
                f"GGUF: {kind}, {role}",
                detail,
                seed,
                lambda path, data=bytes(data): discard(path.write_bytes(data)),
                is_structure(field),
            )


def discard(_: object) -> None:
    """Turns an expression into a statement of a lambda."""


# Safetensors.


def read_safetensors(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_safetensors(path: Path, header: dict[str, Any] | str, body: bytes) -> None:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def split(folder: Path, shards: int = 2) -> None:
    """Replaces the single file of a folder by shards and an index."""
    path = folder / "model.safetensors"
    header, body = read_safetensors(path)
    header.pop("__metadata__", None)
    parts: list[dict[str, bytes]] = [{} for _ in range(shards)]
    for index, (name, info) in enumerate(sorted(header.items())):
        start, end = info["data_offsets"]
        parts[index * shards // len(header)][name] = body[start:end]
    where = {}
    for number, part in enumerate(parts):
        shard = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        write_part(folder / shard, part, header)
        where |= dict.fromkeys(part, shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    path.unlink()


def write_part(path: Path, part: dict[str, bytes], infos: dict[str, Any]) -> None:
    header, body = {}, b""
    for name, data in part.items():
        header[name] = {**infos[name], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    write_safetensors(path, header, body)


def part_of(path: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    header, body = read_safetensors(path)
    header.pop("__metadata__", None)
    return {name: body[slice(*info["data_offsets"])] for name, info in header.items()}, header


def safetensors_cases(rng: random.Random, count: int) -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
    seed = FIXTURES / "llama"
    header, body = read_safetensors(seed / "model.safetensors")
    names = sorted(name for name in header if name != "__metadata__")

    def case(kind: str, change: Callable[[dict[str, Any]], Any], detail: str) -> Any:
        def damage(folder: Path) -> None:
            copy = json.loads(json.dumps(header))
            text = change(copy)
            write_safetensors(folder / "model.safetensors", text if isinstance(text, str) else copy, body)

        return f"safetensors: {kind}", detail, seed, damage, True

    limits = [0, 1, -1, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1, 1 << 70, 1e308, None, "x", len(body), len(body) + 1]
    def one() -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
        # A function, so that each case keeps its own names.
        name, other = rng.sample(names, 2)
        limit, place = rng.choice(limits), rng.randrange(2)
        dtype = rng.choice(["F64", "F32", "F16", "I8", "U8", "I16", "I64", "BOOL", "F8_E4M3", "Q4", ""])
        kind = rng.randrange(8)
        if kind == 0:
            yield case("offset", lambda copy: copy[name]["data_offsets"].__setitem__(place, limit), f"{name} {place} {limit}")
        elif kind == 1:
            yield case("same offsets", lambda copy: copy[name].update(data_offsets=copy[other]["data_offsets"]), f"{name} {other}")
        elif kind == 2:
            at = rng.randrange(len(header[name]["shape"]))
            yield case("shape", lambda copy: copy[name]["shape"].__setitem__(at, limit), f"{name} {at} {limit}")
        elif kind == 3:
            # Numbers of the same width in another format describe another model.
            if dtype in ("F16", "I16"):
                return
            yield case("data type", lambda copy: copy[name].update(dtype=dtype), f"{name} {dtype}")
        elif kind == 4:
            twice = json.dumps({name: {**header[name], "data_offsets": header[other]["data_offsets"]}})[1:-1]
            yield case("name twice", lambda copy: json.dumps(copy)[:-1] + ", " + twice + "}", name)
        elif kind == 5:
            yield case("tensor missing", lambda copy: discard(copy.pop(name)), name)
        elif kind == 6:
            data = bytearray((seed / "model.safetensors").read_bytes())
            length = rng.choice([0, 1, len(data), 1 << 31, 1 << 63, (1 << 64) - 1, int.from_bytes(data[:8], "little") + rng.randrange(-9, 9)])
            data[:8] = struct.pack("<Q", length)
            write = bytes(data)
            yield (
                "safetensors: header length",
                str(length),
                seed,
                lambda folder, write=write: discard((folder / "model.safetensors").write_bytes(write)),
                True,
            )
        else:
            whole = (seed / "model.safetensors").read_bytes()
            cut = rng.randrange(len(whole))
            yield (
                "safetensors: cut",
                str(cut),
                seed,
                lambda folder, cut=cut, whole=whole: discard((folder / "model.safetensors").write_bytes(whole[:cut])),
                True,
            )

    for _ in range(count):
        yield from one()


def shard_cases(rng: random.Random, seed: Path, count: int) -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
    index_name = "model.safetensors.index.json"
    shards = sorted(path.name for path in seed.glob("*.safetensors"))
    where = json.loads((seed / index_name).read_text())["weight_map"]

    def indexed(kind: str, change: Callable[[dict[str, str]], Any], detail: str) -> Any:
        def damage(folder: Path) -> None:
            copy = dict(where)
            change(copy)
            (folder / index_name).write_text(json.dumps({"weight_map": copy}))

        return f"index: {kind}", detail, seed, damage, True

    def stale(folder: Path, name: str) -> None:
        """Another shard has the tensor too, with other numbers."""
        shard = folder / next(shard for shard in shards if shard != where[name])
        part, infos = part_of(shard)
        own, own_infos = part_of(folder / where[name])
        part[name], infos[name] = bytes(len(own[name])), own_infos[name]
        write_part(shard, part, infos)

    def one() -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
        name = rng.choice(sorted(where))
        kind = rng.randrange(6)
        if kind == 0:
            other = next(shard for shard in shards if shard != where[name])
            yield indexed("other shard", lambda copy: copy.update({name: other}), name)
        elif kind == 1:
            shard = rng.choice(shards)
            yield "index: shard missing", shard, seed, lambda folder, shard=shard: (folder / shard).unlink(), True
        elif kind == 2:
            odd = rng.choice(["../model.safetensors", "/etc/passwd", "", ".", "no.safetensors", 7, None, index_name])
            yield indexed("odd name", lambda copy: copy.update({name: odd}), f"{name} {odd}")
        elif kind == 3:
            yield "index: tensor in two shards", name, seed, lambda folder, name=name: stale(folder, name), True
        elif kind == 4:
            ghost = f"{name.rsplit('.', 1)[0]}.bias"
            yield indexed("tensor that no shard has", lambda copy: copy.update({ghost: where[name]}), ghost)
        else:
            yield indexed("shard not listed", lambda copy: [copy.pop(key) for key in list(copy) if copy[key] == shards[-1]], shards[-1])

    for _ in range(count):
        yield from one()


# config.json.

LIMITS: list[Any] = [0, -1, 1, 7, 1 << 31, 1 << 63, 1e308, -1e308, float("nan"), float("inf"), None, "x", True, [], {}, 0.5]
#: Sizes that shapes of tensors repeat.
CONFIG_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")


ROTARY = {
    "yarn": {"factor": 4.0, "beta_fast": 4.0, "beta_slow": 0.05, "original_max_position_embeddings": 32, "attention_factor": 1.1},
    "llama3": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64},
    "dynamic": {"factor": 2.0},
    "linear": {"factor": 2.0},
    "longrope": {"factor": 2.0, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 64},
}


def rotating(folder: Path) -> list[Path]:
    """Copies of the small model, each with another scaling of rotary embeddings."""
    seeds = []
    for name, parameters in ROTARY.items():
        seed = folder / name
        shutil.copytree(FIXTURES / "llama", seed)
        config = json.loads((seed / "config.json").read_text())
        config["rope_parameters"] = {"rope_type": name, "rope_theta": 1000.0, **parameters}
        (seed / "config.json").write_text(json.dumps(config))
        seeds.append(seed)
    return seeds


def config_cases(rng: random.Random, seeds: list[Path], count: int) -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
    everything = []
    for seed in seeds:
        config = json.loads((seed / "config.json").read_text())
        paths = [[key] for key in config if seed.name == "llama"] + [[key, inner] for key in config if isinstance(config[key], dict) for inner in config[key]]
        everything += [(seed, path, limit) for path in paths for limit in LIMITS]
    for seed, path, limit in rng.sample(everything, min(count, len(everything))):

        def damage(folder: Path, path: list[str] = path, limit: Any = limit) -> None:
            config = json.loads((folder / "config.json").read_text())
            inner = config
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = limit
            (folder / "config.json").write_text(json.dumps(config))

        agreed = path[-1] in CONFIG_SIZES and limit is not None
        yield f"config: {'size' if agreed else 'free value'}", f"{seed.name} {'.'.join(path)} = {limit}", seed, damage, agreed


# Tokenizers and chat templates.


OTHER_TOKENS = '{"bos_token": "☃☃", "eos_token": 7, "added_tokens_decoder": {"99999": {"content": "abc"}}}'


def tokenizer_cases() -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
    seed = FIXTURES / "llama"

    def case(detail: str, change: Callable[[dict[str, Any]], Any], noticed: bool = False) -> Any:
        def damage(folder: Path) -> None:
            path = folder / "tokenizer.json"
            content = json.loads(path.read_text())
            change(content)
            path.write_text(json.dumps(content))

        return "tokenizer", detail, seed, damage, noticed

    def vocabulary(content: dict[str, Any]) -> dict[str, int]:
        return content["model"]["vocab"]

    def expanding(pattern: str) -> Callable[[dict[str, Any]], Any]:
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return lambda content: content.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, last]})

    yield case("two tokens with one id", lambda c: vocabulary(c).update({"a": vocabulary(c)["b"]}), True)
    yield case("id beyond the embedding", lambda c: vocabulary(c).update({"a": 5000}), True)
    yield case("id 2^32", lambda c: vocabulary(c).update({"a": 1 << 32}), True)
    yield case("negative id", lambda c: vocabulary(c).update({"a": -1}), True)
    yield case("merge of unknown tokens", lambda c: c["model"]["merges"].insert(0, ["a", "☃"]), True)
    yield case("merge without its result", lambda c: c["model"]["merges"].insert(0, ["z", "q"]), True)
    yield case("merge of three", lambda c: c["model"]["merges"].insert(0, ["a", "b", "c"]), True)
    yield case("no merges", lambda c: c["model"].pop("merges"), True)
    yield case("no vocabulary", lambda c: c["model"].pop("vocab"), True)
    yield case("empty vocabulary", lambda c: c["model"].update(vocab={}, merges=[]), True)
    yield case("unknown model", lambda c: c["model"].update(type="BPX"), True)
    yield case("added token beyond the embedding", lambda c: c["added_tokens"].append({**c["added_tokens"][0], "id": 9999, "content": "abc"}), True)
    yield case("added token with another id", lambda c: c["added_tokens"].append({**c["added_tokens"][0], "id": 40, "content": "hello"}), True)
    yield case("truncation", lambda c: c.update(truncation={"max_length": 1, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}), True)
    yield case("padding", lambda c: c.update(padding={"strategy": {"Fixed": 99}, "direction": "Left", "pad_id": 0, "pad_type_id": 0, "pad_token": "!"}), True)
    yield case("dropout", lambda c: c["model"].update(dropout=0.5), True)
    yield case("nonsense for a charsmap", lambda c: c.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA////"}), True)
    for pattern in ("(a+)+$", "(x*)*y", "(.*.*.*.*.*.*.*.*)\\1Z", "(?:a|aa)+$", "(", "(?=(\\w+))\\1:", "(?<=(a+)+)b"):
        yield case(f"pattern {pattern}", expanding(pattern))
    yield (
        "tokenizer",
        "configuration with other special tokens",
        seed,
        lambda folder: discard((folder / "tokenizer_config.json").write_text(OTHER_TOKENS)),
        False,
    )


TEMPLATES = {
    "endless loop": "{% for i in range(10**18) %}{% for j in range(10**18) %}{% endfor %}{% endfor %}",
    "loop with output": "{% for i in range(10**9) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}",
    "doubling string": "{% set n = namespace(x='x') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
    "repeated string": "{{ 'x' * 10**12 }}",
    "repeated list": "{{ [1] * 10**12 }}",
    "doubling list": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x | length }}",
    "large range": "{{ range(10**15) | list | length }}",
    "macro that calls itself": "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "deep recursion": "{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(1) }}",
    "large power": "{{ 9 ** 9 ** 9 }}",
    "centred string": "{{ 'x'.center(10**12) }}",
    "padded string": "{{ 'x' | center(10**12) }}",
    "formatted string": "{{ '%1000000000000d' | format(1) }}",
    "joined string": "{{ ('x' * 10**6) | list | join('y' * 10**6) }}",
    "replaced string": "{{ ('x' * 10**6).replace('x', 'y' * 10**6) }}",
    "deep literal": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "deep parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "many tags": "{% if true %}" * 5000 + "x" + "{% endif %}" * 5000,
    "indent": "{{ ('x\n' * 100000) | indent(1000000) }}",
    "batch": "{{ [1] | batch(10**12, 'x') | list | length }}",
    "slice": "{{ [1] | slice(10**12, 'x') | list | length }}",
    "wordwrap": "{{ ('x ' * 10**6) | wordwrap(1, wrapstring='y' * 10**5) }}",
    "expandtabs": "{{ ('\t' * 10**6).expandtabs(10**9) }}",
    "tojson indent": "{{ [[[1]]] | tojson(indent=10**12) }}",
    "zfill": "{{ '1'.zfill(10**12) }}",
    "ljust": "{{ 'x'.ljust(10**12) }}",
}


def template_cases() -> Iterator[tuple[str, str, Path, Callable[[Path], None], bool]]:
    for name, source in TEMPLATES.items():

        def damage(folder: Path, source: str = source) -> None:
            (folder / "chat_template.jinja").write_text(source)

        yield "chat template", name, FIXTURES / "llama", damage, False


# Running them.


def attempt(binary: str, case: Any, expected: dict[Path, Any]) -> tuple[str, str, str]:
    attack, detail, seed, damage, noticed = case
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / seed.name
        if seed.is_dir():
            shutil.copytree(seed, copy)
        else:
            shutil.copy(seed, copy)
        damage(copy)
        more = ["--apply_chat_template"] if attack == "chat template" else []
        found = scores(binary, copy, *more)
    if found.fault:
        return attack, found.fault, f"{detail}: {found.message[-300:]}"
    if found.answers is None:
        return attack, "refused", detail
    if found.answers == expected[seed]:
        return attack, "same scores", detail
    if "does not use" in found.message or "not used" in found.message:
        return attack, "reported", detail
    return attack, "SILENT" if noticed else "other model", detail


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--verbose", action="store_true", help="print what gave another score")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        sharded = Path(name) / "sharded"
        shutil.copytree(FIXTURES / "llama", sharded)
        split(sharded)
        size = given.scale
        cases = [
            *gguf_cases(rng, int(2000 * size)),
            *safetensors_cases(rng, int(150 * size)),
            *shard_cases(rng, sharded, int(60 * size)),
            *config_cases(rng, [FIXTURES / "llama", *rotating(Path(name))], int(400 * size)),
            *tokenizer_cases(),
            *template_cases(),
        ]
        expected = {seed: control(given.binary, seed) for seed in {case[2] for case in cases}}
        # The same checkpoint in one file, in shards and as GGUF gives the same scores.
        assert expected[sharded] == expected[FIXTURES / "llama"]
        check_detector(given.binary, expected)
        tally = Tally()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for attack, outcome, detail in pool.map(lambda case: attempt(given.binary, case, expected), cases):
                tally.add(attack, outcome, detail)
                if given.verbose and outcome in ("other model", "reported"):
                    print(f"{outcome}: {attack}: {detail}")
    return tally.finish()


def control(binary: str, seed: Path) -> Any:
    """The scores of the whole file."""
    found = scores(binary, seed)
    assert found.answers, (seed, found.message)
    return found.answers


def check_detector(binary: str, expected: dict[Path, Any]) -> None:
    """A changed weight must show in the scores: otherwise equal scores would mean nothing."""
    seed = FIXTURES / "gguf/llama.gguf"

    def weight(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[-1000] ^= 0x41
        path.write_bytes(bytes(data))

    outcome = attempt(binary, ("control", "one weight", seed, weight, True), expected)
    assert outcome[1] == "SILENT", outcome


if __name__ == "__main__":
    sys.exit(main())
