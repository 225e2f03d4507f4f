"""Damages the files of finished runs and looks whether a wrong score passes unnoticed.

Each damage is applied to a copy of a run (results, samples, journal, shards), and every command that reads such files runs
over it. The scores that a command prints are compared with those of the undamaged files. A damage is

- refused: the command exits with an error,
- harmless: it exits with 0 and prints the same scores,
- reported: the scores differ, and standard error, or the page of the viewer, says what was dropped or changed,
- SILENT: the scores differ, and nothing says so. That is a bug, and the exit status of this script is 1.

    python bench/attack/finished_runs.py --binary target/debug/lm-eval [--seed 0] [--scale 1]

Two controls run first. Edited files whose checksums were removed must be found SILENT, or the check would notice nothing; and files
that were copied, moved, renamed, written again by another program, or written by the 0.4 line must lead to no warning.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support import Tally, arguments, run

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: rows.jsonl}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
{rest}
"""


def write_tasks(folder: Path) -> None:
    rows = [{"q": f"What is {i}+1?", "a": str(i + 1), "o": [str(i), str(i + 1), "9"], "g": 1} for i in range(24)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    choice = TASK.format(name="choice", kind="multiple_choice", rest="doc_to_choice: o").replace('"{{a}}"', "g")
    (folder / "choice.yaml").write_text(choice)
    (folder / "words.yaml").write_text(
        TASK.format(name="words", kind="generate_until", rest="generation_kwargs: {until: ['?'], max_gen_toks: 4}")
    )
    for name, file in (("a/b", "slash"), ("a_b", "underscore"), ("a:b", "colon")):
        (folder / f"{file}.yaml").write_text(choice.replace("task: choice", f'task: "{name}"'))


def prepare(binary: str, folder: Path) -> None:
    """Writes two tasks and their data, and makes a run, another one, and two shards."""
    write_tasks(folder)
    tasks = "choice.yaml,words.yaml"
    for model, name in (("ngram", "base"), ("uniform", "new")):
        done = run(binary, folder, "run", "--model", model, "--tasks", tasks, "-s", "-o", name)
        assert done.returncode == 0, done.stderr
    for part in ("1/2", "2/2"):
        done = run(binary, folder, "run", "--model", "ngram", "--tasks", tasks, "--shard", part, "-s", "-o", "parts")
        assert done.returncode == 0, done.stderr


# The output of commands as comparable scores, and their messages about files.


def numbers(text: str) -> object:
    """Every number of a printed table, without times and paths."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [re.findall(r"-?\d+\.\d+|\b\d+\b|NaN|N/A", line) for line in lines]


#: Keys of a results file that only describe the run. They have no checksum, so that people can rename models.
DESCRIPTIONS = ("model_name", "model_name_sanitized", "model_source", "git_hash", "upper_git_hash", "pretty_env_info")


def scores_in(value: object) -> object:
    """A JSON value without paths, names of files and models, times and positions in files."""
    if isinstance(value, dict) and isinstance(value.get("settings"), list):
        kept = [pair for pair in value["settings"] if pair[0] not in DESCRIPTIONS]
        value = {**value, "settings": kept}
    if isinstance(value, dict):
        left_out = {"path", "paths", "run", "date", "file", "changed", "bad_lines", "bytes", "total_bytes", "id", "row", "previous", "next"}
        left_out |= {"position", "raw", "notes", "name", "duration", "backend"}
        return {key: scores_in(inner) for key, inner in value.items() if key not in left_out}
    return [scores_in(inner) for inner in value] if isinstance(value, list) else value


def said_in(value: object) -> list[str]:
    """What an answer of the viewer says about damaged files: the page shows these."""
    if isinstance(value, dict):
        own = [str(value[key]) for key in ("changed", "bad_lines", "problems", "error", "notes", "only_base", "only_new") if value.get(key)]
        return own + [text for inner in value.values() for text in said_in(inner)]
    return [text for inner in value for text in said_in(inner)] if isinstance(value, list) else []


def command(binary: str, folder: Path, words: list[str], read: Callable[[str], object]) -> tuple[int, object, list[str], str]:
    done = run(binary, folder, *words)
    said = [line for line in done.stderr.splitlines() if re.match(r"(note|warning|error)\b", line) or "skipped" in line]
    if done.returncode != 0:
        return done.returncode, None, said, done.stderr
    try:
        return 0, read(done.stdout), said, done.stderr
    except ValueError:
        return 0, f"unreadable: {done.stdout[:200]}", said, done.stderr


COMMANDS: dict[str, tuple[list[str], Callable[[str], object]]] = {
    "table": (["table", "base", "--format", "json"], lambda text: scores_in(json.loads(text))),
    "compare": (["compare", "base", "new", "--format", "json"], lambda text: scores_in(json.loads(text))),
    "rescore": (["rescore", "base", "--tasks", "choice.yaml,words.yaml"], numbers),
    "samples": (["samples", "base", "--fields", "task,doc_id,outcome", "--format", "csv"], lambda text: sorted(text.splitlines())),
    "merge": (["merge", "parts", "-o", "merged"], numbers),
    "resume": (["run", "--model", "ngram", "--tasks", "choice.yaml,words.yaml", "-o", "base"], numbers),
}

#: Commands that are not in COMMANDS because they need more than their output.
PAGES = ("view", "report")


@contextlib.contextmanager
def viewer(binary: str, folder: Path) -> Iterator[Callable[[str], tuple[int, object]]]:
    """Starts a viewer; yields a function that asks it."""
    server = subprocess.Popen(
        [binary, "view", str(folder), "--port", "0", "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])

        def ask(address: str) -> tuple[int, object]:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            client.request("GET", address)
            answer = client.getresponse()
            body = answer.read()
            client.close()
            return answer.status, json.loads(body)

        yield ask
    finally:
        server.kill()
        server.wait()


def viewed(binary: str, folder: Path) -> tuple[int, object, list[str], str]:
    """Everything that the pages of two runs show, as `web/src/lib/api.ts` asks for it."""
    scores: list[object] = []
    said: list[str] = []
    status = 0
    with viewer(binary, folder) as ask:

        def add(address: str) -> dict[str, Any]:
            nonlocal status
            for _ in range(200):
                code, value = ask(address)
                if not (isinstance(value, dict) and isinstance(value.get("index"), dict) and not value["index"]["complete"]):
                    break
            said.extend(said_in(value))
            scores.append(scores_in(value))
            status = status or (0 if code == 200 else code)
            return value if isinstance(value, dict) else {}

        runs = [entry for entry in add("/api/runs").get("runs", []) if entry["kind"] != "journal"]
        runs = sorted((entry for entry in runs if entry["path"].startswith(("base", "new"))), key=lambda entry: entry["path"])
        for entry in runs:
            own = urllib.parse.urlencode({"run": entry["id"]})
            add(f"/api/run?{own}")
            for task in entry["tasks"]:
                if task["has_samples"]:
                    add(f"/api/task?{own}&task={task['task']}")
                    add(f"/api/samples?{own}&task={task['task']}&sort=doc_id")
        if len(runs) == 2:
            add(f"/api/compare?base={runs[0]['id']}&new={runs[1]['id']}")
    return status, scores, said, ""


def reported(binary: str, folder: Path) -> tuple[int, object, list[str], str]:
    """The data inside of a report, and what the command said."""
    done = run(binary, folder, "report", "base", "new", "-o", "report.html", "--all")
    said = [line for line in done.stderr.splitlines() if re.match(r"(note|warning|error)\b", line)]
    if done.returncode != 0:
        return done.returncode, None, said, done.stderr
    page = (folder / "report.html").read_text()
    found = re.search(r'<script id="data" type="text/plain">([^<]*)</script>', page)
    assert found, "the report has no data"
    data = json.loads(gzip.decompress(base64.b64decode(found[1])))["responses"]
    wanted = ("api/runs", "api/run?", "api/task?", "api/compare?")
    scores = [scores_in(value) for key, value in data.items() if key.startswith(wanted)]
    rows = sorted(json.dumps(scores_in(value)) for key, value in data.items() if key.startswith("api/sample?"))
    return 0, [scores, rows], said + said_in(data), done.stderr


def outcome_of(binary: str, folder: Path, name: str) -> tuple[int, object, list[str], str]:
    if name == "view":
        return viewed(binary, folder)
    if name == "report":
        return reported(binary, folder)
    return command(binary, folder, *COMMANDS[name])


# Damages.


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def flip(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def shuffled(data: bytes, rng: random.Random) -> bytes:
    lines = lines_of(data)
    rng.shuffle(lines)
    return b"".join(lines)


def digit(data: bytes, rng: random.Random) -> bytes:
    places = [match.start() for match in re.finditer(rb"\d", data)]
    if not places:
        return data
    place = rng.choice(places)
    return data[:place] + rng.choice(b"0123456789").to_bytes(1, "big") + data[place + 1 :]


def score(data: bytes, rng: random.Random) -> bytes:
    """Turns a right document into a wrong one, or changes an aggregated score."""
    found = list(re.finditer(rb'"(?:acc|acc_norm|exact_match)(?:,none)?": ([01]\.\d+|[01])\b', data))
    if not found:
        return data
    match = rng.choice(found)
    other = b"1.0" if match[1].startswith(b"0") else b"0.0"
    return data[: match.start(1)] + other + data[match.end(1) :]


def swapped(data: bytes, rng: random.Random) -> bytes:
    """Exchanges the scores of two documents: every sum stays as it was."""
    found = list(re.finditer(rb'"(?:acc|exact_match)": ([01]\.\d+|[01])\b', data))
    pairs = [(a, b) for a in found for b in found if a.start() < b.start() and a[1] != b[1]]
    if not pairs:
        return data
    one, other = rng.choice(pairs)
    return data[: one.start(1)] + other[1] + data[one.end(1) : other.start(1)] + one[1] + data[other.end(1) :]


def older(data: bytes, _: random.Random) -> bytes:
    """Makes a line look as if another version wrote it: without hashes."""
    lines = lines_of(data)
    if len(lines) < 2:
        return data
    lines[0] = re.sub(rb', "(doc|prompt|target)_hash": "[0-9a-f]*"', b"", lines[0])
    return b"".join(lines)


def word(data: bytes, rng: random.Random) -> bytes:
    """Replaces a number by something that is not one."""
    found = list(re.finditer(rb"(?<=[:\[, ])-?\d+\.\d+(?=[,\]}])", data))
    if not found:
        return data
    match = rng.choice(found)
    return data[: match.start()] + rng.choice([b"NaN", b"Infinity", b"null", b'"x"', b"1e999"]) + data[match.end() :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": lambda data, rng: data[: rng.randrange(len(data))],
    "bit flip": flip,
    "line missing": lambda data, rng: b"".join(lines_of(data)[: (at := rng.randrange(len(lines_of(data))))] + lines_of(data)[at + 1 :]),
    "line twice": lambda data, rng: b"".join([*(lines := lines_of(data)), rng.choice(lines)]),
    "shuffled": shuffled,
    "gzipped": lambda data, _: gzip.compress(data),
    "UTF-16": lambda data, _: data.decode("utf-8", "replace").encode("utf-16"),
    "CR LF": lambda data, _: data.replace(b"\n", b"\r\n"),
    "byte order mark": lambda data, _: b"\xef\xbb\xbf" + data,
    "digit": digit,
    "score": score,
    "scores swapped": swapped,
    "mixed versions": older,
    "not a number": word,
    "long line": lambda data, _: data + b'{"doc_id": 0, "x": "' + b"y" * 3_000_000 + b'"}\n',
    "empty": lambda _, __: b"",
    "zeros": lambda data, _: data + b"\0" * 64,
}


def files_of(folder: Path, name: str) -> list[Path]:
    return sorted(path for path in (folder / name).rglob("*") if path.is_file() and not path.name.endswith(".lock"))


def judge(name: str, found: tuple[int, object, list[str], str], expected: object) -> str:
    status, scores, said, errors = found
    if name == "view":
        # Pages that cannot be shown say why; the others have to be right, or say so.
        return "harmless" if scores == expected else "reported" if said or status else "SILENT"
    if status != 0:
        crashed = status < 0 or "panicked" in errors or not errors.strip()
        return "CRASH" if crashed else "refused"
    return "harmless" if scores == expected else "reported" if said else "SILENT"


def attempt(binary: str, whole: Path, expected: dict[str, object], rng: random.Random) -> tuple[str, str, str, str]:
    """Damages one file, runs one command, and says what came of it."""
    name = rng.choice([*COMMANDS, *PAGES])
    damage = rng.choice(list(DAMAGES))
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        shutil.copytree(whole, copy)
        path = rng.choice(files_of(copy, "parts" if name == "merge" else "base"))
        before = path.read_bytes()
        after = DAMAGES[damage](before, rng) if before else before
        path.write_bytes(after)
        label = path.name if path.suffix == ".journal" else re.sub(r"_?20\d\d-.*(?=\.json)", "", path.name)
        if after == before:
            return name, damage, label, "unchanged"
        return name, damage, label, judge(name, outcome_of(binary, copy, name), expected[name])


# Controls.


def without_checksums(path: Path) -> None:
    results = json.loads(path.read_text())
    results.pop("checksums", None)
    path.write_text(json.dumps(results, indent=2))


def results_of(folder: Path, name: str) -> Path:
    return next(path for path in files_of(folder, name) if path.name.startswith("results_"))


def check_detector(binary: str, whole: Path, expected: dict[str, object], scratch: Path) -> None:
    """A changed score in files without checksums has to be found, or the check is blind."""
    for name, file in (("table", "results_"), ("samples", "samples_choice"), ("compare", "samples_choice"), ("view", "samples_choice")):
        copy = scratch / f"control-{name}"
        shutil.copytree(whole, copy)
        without_checksums(results_of(copy, "base"))
        path = next(path for path in files_of(copy, "base") if path.name.startswith(file))
        for seed in range(50):
            changed = score(path.read_bytes(), random.Random(seed))
            if changed != path.read_bytes():
                break
        path.write_bytes(changed)
        found = judge(name, outcome_of(binary, copy, name), expected[name])
        assert found == "SILENT", f"control: a changed score without checksums was {found} by {name}"


def check_silence(binary: str, whole: Path, scratch: Path, tally: Tally) -> None:
    """What people do with the files of a run must not lead to warnings."""

    def moved(folder: Path) -> None:
        (folder / "base").rename(folder / "elsewhere")
        (folder / "elsewhere").rename(folder / "base")
        for path in list((folder / "base").iterdir()):
            path.rename(path.with_name("another name"))

    def rewritten(folder: Path) -> None:
        path = results_of(folder, "base")
        path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))

    def renamed(folder: Path) -> None:
        path = results_of(folder, "base")
        results = json.loads(path.read_text())
        results.update({"model_name": "mine", "pretty_env_info": "", "git_hash": None, "my notes": [1]})
        path.write_text(json.dumps(results, indent=4))

    def windows(folder: Path) -> None:
        for path in files_of(folder, "base"):
            if path.suffix in (".json", ".jsonl"):
                path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    def of_old_line(folder: Path) -> None:
        shutil.rmtree(folder / "base")
        words = ["run", "--model", "ngram", "--tasks", "choice.yaml,words.yaml", "-s", "-o", "base", "--compat", "0.4"]
        done = run(binary, folder, *words)
        assert done.returncode == 0, done.stderr
        assert "checksums" not in json.loads(results_of(folder, "base").read_text()), "files of the 0.4 line have no checksums"

    for what in (moved, rewritten, renamed, windows, of_old_line):
        copy = scratch / f"legitimate-{what.__name__}"
        shutil.copytree(whole, copy)
        what(copy)
        for name in ("table", "compare", "samples", "rescore", "view", "report"):
            status, _, said, errors = outcome_of(binary, copy, name)
            said = [text for text in said if "changed after" in text or "not beside" in text]
            assert status == 0, (what.__name__, name, errors)
            tally.add("legitimate changes", "FALSE ALARM" if said else "silent", f"{what.__name__}: {said}")


# Runs in one folder.


def check_names(binary: str, folder: Path, tally: Tally) -> None:
    """Tasks whose names give one file name, and a task whose name no file can have."""
    done = run(binary, folder, "run", "--model", "ngram", "--tasks", "slash.yaml,underscore.yaml", "-s", "-o", "same")
    tally.add("tasks `a/b` and `a_b`", "refused" if done.returncode != 0 and "same samples file" in done.stderr else "SILENT")
    done = run(binary, folder, "run", "--model", "ngram", "--tasks", "colon.yaml", "-s", "-o", "colon")
    assert done.returncode == 0, done.stderr
    for words in (["samples", "colon", "--tasks", "a:b", "-n", "1"], ["rescore", "colon", "--tasks", "colon.yaml"]):
        done = run(binary, folder, *words)
        tally.add("task `a:b`", "found" if done.returncode == 0 else "SILENT", done.stderr)


def check_simultaneous(binary: str, folder: Path, tally: Tally, count: int) -> None:
    """Runs that start at the same moment in one folder must not mix."""
    environment = {"HOME": str(folder), "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    words = ["run", "--model", "ngram", "--tasks", "choice.yaml", "-s", "-o", "together", "--limit"]
    started = [
        subprocess.Popen(
            [binary, *words, str(limit)], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for limit in range(1, count + 1)
    ]
    codes = [process.wait(timeout=120) for process in started]
    found = [path for path in files_of(folder, "together") if path.name.startswith("results_")]
    limits = sorted(json.loads(path.read_text())["config"]["limit"] for path in found)
    for path in found:
        limit = json.loads(path.read_text())["config"]["limit"]
        samples = path.with_name(path.name.replace("results_", "samples_choice_") + "l")
        lines = len(samples.read_bytes().splitlines())
        tally.add("runs at the same moment", "apart" if lines == limit else "SILENT", f"limit {limit} has {lines} samples")
    whole = limits == [float(limit) for limit in range(1, count + 1)] and not any(codes)
    tally.add("runs at the same moment", "complete" if whole else "SILENT", f"{limits}, {codes}")


def main() -> int:
    given = arguments(__doc__).parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        whole = scratch / "whole"
        whole.mkdir()
        prepare(given.binary, whole)
        expected: dict[str, object] = {}
        for command_name in [*COMMANDS, *PAGES]:
            copy = scratch / command_name
            shutil.copytree(whole, copy)
            status, expected[command_name], said, errors = outcome_of(given.binary, copy, command_name)
            assert status == 0, (command_name, errors, said)
        tally = Tally()
        check_detector(given.binary, whole, expected, scratch)
        check_silence(given.binary, whole, scratch, tally)
        others = scratch / "others"
        shutil.copytree(whole, others)
        check_names(given.binary, others, tally)
        check_simultaneous(given.binary, others, tally, 6)
        for _ in range(int(500 * given.scale)):
            command_name, damage, label, outcome = attempt(given.binary, whole, expected, rng)
            tally.add(command_name, outcome, f"{damage} of {label}")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
