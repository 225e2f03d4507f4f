"""Makes disks and clocks fail under every command that writes, and looks whether an answer or a score is lost.

A library that is preloaded (`faults.c`, compiled here with gcc) fails the Nth write, fsync, rename, open or lock below a folder, for
every N; small tmpfs mounts fill up at every size, run out of inodes, or are read-only (these need root). After each fault:

- the command has failed with a message, or its output is complete and equal to that of an undisturbed run;
- a results file that exists has the scores of the undisturbed run, and its samples are complete;
- the inputs of a command that reads runs are unchanged;
- the same command, run again on a healthy disk, sends exactly the requests whose answers the journal does not have, and gets the
  scores of the undisturbed run. A loopback server counts the requests.

Clocks are set back and forward by an hour during a run, stop, and pass the end of daylight saving time. Without locks
(ENOLCK, ENOTSUP), two runs must not write to one journal.

    python bench/attack/disk.py --binary target/debug/lm-eval [--seed 0] [--scale 1]

Controls: an undisturbed run passes the same check; the check notices a results file that is cut short, a changed score, a journal
that lost a record, and a fault that did not happen is not counted.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from stand_in_model import Model
from support import Tally, arguments, run

HERE = Path(__file__).resolve().parent
DOCUMENTS = 12
CHOICES = 3


TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{q}}}}"
{rest}
"""


def write_tasks(folder: Path) -> str:
    rows = [{"q": f"What is {i}+1?", "a": str(i + 1), "o": [f" {i}", f" {i + 1}", " x"], "g": 1} for i in range(DOCUMENTS)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    choice = "doc_to_target: g\ndoc_to_choice: o"
    words = 'doc_to_target: "{{a}}"\ngeneration_kwargs: {until: ["?"], max_gen_toks: 4}'
    for name, kind, rest in (("choice", "multiple_choice", choice), ("words", "generate_until", words)):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, rows=folder / "rows.jsonl", kind=kind, rest=rest))
    return f"{folder}/choice.yaml,{folder}/words.yaml"


#: The prompts of an undisturbed run: one per option of a choice, and one per answer to write.
TOTAL = DOCUMENTS * (CHOICES + 1)


class Bench:
    """The binary, its tasks, a server, and the outcome of an undisturbed run."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary, self.folder, self.server = binary, folder, Model()
        self.tasks = write_tasks(folder)
        self.library = folder / "faults.so"
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", self.library, HERE / "faults.c", "-ldl"], check=True)
        done = self.run(folder / "expected")
        assert done.returncode == 0, done.stderr
        self.prompts = sorted(self.server.taken())
        assert len(self.prompts) == TOTAL, len(self.prompts)
        self.expected = outcome(folder / "expected")
        assert self.expected is not None

    def words(self, out: Path, *more: str) -> list[str]:
        model = f"model=m,base_url={self.server.url},tokenizer_backend=remote,num_concurrent=1,retry_wait=0.01"
        model += ",scoring=echo"
        words = ["run", "--model", "local-completions", "--model_args", model, "--tasks", self.tasks, "-s", "-o", str(out)]
        return [*words, "--bootstrap_iters", "0", *more]

    def run(self, out: Path, *more: str, timeout: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.command(*self.words(out, *more), timeout=timeout, **variables)

    def command(self, *words: str, timeout: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
        if any(name.startswith(("FAULT_", "CLOCK_")) for name in variables):
            variables["LD_PRELOAD"] = str(self.library)
        return run(self.binary, self.folder, *words, timeout=timeout, **variables)

    def answers(self, out: Path) -> int:
        """The number of answers in the journal."""
        found = list(out.rglob("*.journal"))
        if not found:
            return 0
        done = self.command("journal", "verify", str(found[0]), "--json")
        try:
            return int(json.loads(done.stdout)["answers"])
        except (ValueError, KeyError):
            # One whose header was not written has none.
            return 0

    def judge(self, out: Path, done: subprocess.CompletedProcess[str], heal: object = None) -> str:
        """What came of a run with a fault, and of its resumption."""
        sent = self.server.taken()
        verdict = message_of(done)
        if verdict:
            return verdict
        # A server that is asked one request at a time has at most one answer that is not acknowledged.
        kept = self.answers(out)
        if outcome(out) not in (None, self.expected):
            return "SILENT"
        if done.returncode == 0 and outcome(out) is None:
            return "SILENT"
        if callable(heal):
            heal()
        again = self.run(out)
        asked = self.server.taken()
        if again.returncode != 0 or outcome(out) != self.expected:
            return "SILENT"
        lost = len(sent) - kept
        if len(asked) != TOTAL - kept or lost > 1 + CHOICES or len(set(sent + asked)) != len(self.prompts):
            return "SILENT"
        return "complete" if done.returncode == 0 else "refused"


def message_of(done: subprocess.CompletedProcess[str]) -> str | None:
    """A crash of `lm-eval`."""
    if done.returncode < 0 or "panicked" in done.stderr:
        return "CRASH"
    if done.returncode != 0 and not re.search(r"^error\b", done.stderr, re.M):
        return "CRASH"
    return None


def outcome(out: Path) -> object:
    """The scores of the newest results below a folder, and the samples of each task; `None` without results."""
    found = sorted(out.rglob("results_*.json"))
    if not found:
        return None
    try:
        results = json.loads(found[-1].read_text())["results"]
        scores = {task: {key: value for key, value in metrics.items() if "," in key} for task, metrics in results.items()}
        stamp = found[-1].stem.removeprefix("results")
        samples = {}
        for path in found[-1].parent.glob(f"samples_*{stamp}.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            task = path.name.removesuffix(f"{stamp}.jsonl")
            samples[task] = sorted((line["doc_id"], json.dumps(line["filtered_resps"])) for line in lines)
        return [scores, samples]
    except (ValueError, KeyError):
        return "damaged"


def check_the_check(bench: Bench) -> None:
    """The controls: planted faults that must be noticed, and a healthy run that must not."""
    out = bench.folder / "control"
    assert bench.judge(out, bench.run(out)) == "complete"
    healthy = bench.folder / "healthy"

    def planted(change: object) -> str:
        shutil.rmtree(healthy, ignore_errors=True)
        done = bench.run(healthy)
        assert callable(change)
        change()
        return bench.judge(healthy, done)

    def results() -> Path:
        return next(healthy.rglob("results_*.json"))

    def cut() -> None:
        results().write_bytes(results().read_bytes()[:-40])

    def change() -> None:
        text = results().read_text()
        results().write_text(re.sub(r'("acc,none": )[\d.]+', r"\g<1>0.123", text))

    def shorten() -> None:
        path = next(healthy.rglob("samples_words_*"))
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))

    def lose() -> None:
        # Answers that the server gave vanish from the journal, and nothing says so.
        path = next(healthy.rglob("*.journal"))
        path.write_bytes(path.read_bytes()[:-1500])

    for fault in (cut, change, shorten, lose):
        assert planted(fault) == "SILENT", fault.__name__
    # A fault of a call that is never made is not counted.
    out, mark = bench.folder / "far", bench.folder / "far.mark"
    done = bench.run(out, **fault_settings("write", 10**6, errno.ENOSPC, out, mark))
    assert not mark.exists() and bench.judge(out, done) == "complete"


def fault_settings(kind: str, at: int, number: int, below: Path, mark: Path, count: int = 1) -> dict[str, str]:
    return {
        "FAULT_OPS": kind,
        "FAULT_AT": str(at),
        "FAULT_COUNT": str(count),
        "FAULT_ERRNO": str(number),
        "FAULT_BELOW": str(below),
        "FAULT_MARK": str(mark),
    }


ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)


def attack_runs(bench: Bench, tally: Tally, rng: random.Random, scale: float) -> None:
    """Fails the Nth call of a run, once or from then on."""
    for kind in ("open", "write", "fsync", "truncate", "rename", "mkdir"):
        step = max(1, round((4 if kind == "write" else 1) / scale))
        at = 1
        while True:
            number, count = rng.choice(ERRORS), rng.choice((0, 1))
            out, mark = bench.folder / f"run-{kind}-{at}", bench.folder / "mark"
            mark.unlink(missing_ok=True)
            done = bench.run(out, **fault_settings(kind, at, number, out, mark, count))
            if not mark.exists():
                bench.server.taken()
                break
            verdict = bench.judge(out, done)
            tally.add(f"run, {kind}", verdict, f"call {at}, {errno.errorcode[number]}, count {count}: {done.returncode} {done.stderr[-300:]}")
            shutil.rmtree(out, ignore_errors=True)
            at += 1 if at < 8 else step


def attack_shards(bench: Bench, tally: Tally, rng: random.Random, scale: float) -> None:
    """Fails calls of a shard, and merges: refused, or equal to the undisturbed run."""
    whole = bench.folder / "shards"
    for part in ("1/2", "2/2"):
        done = bench.run(whole, "--shard", part)
        assert done.returncode == 0, done.stderr
    bench.server.taken()
    merged = bench.command("merge", str(whole), "-o", str(bench.folder / "merged"))
    assert merged.returncode == 0 and outcome(bench.folder / "merged") == bench.expected, merged.stderr
    for kind in ("open", "write", "fsync", "rename"):
        for at in range(1, 1 + round((12 if kind != "write" else 30) * min(scale, 4)), 1 if scale > 1 else 2):
            out, mark = bench.folder / "shards-copy", bench.folder / "mark"
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(whole, out)
            mark.unlink(missing_ok=True)
            number = rng.choice(ERRORS)
            done = bench.run(out, "--shard", "2/2", "--fresh", **fault_settings(kind, at, number, out, mark, rng.choice((0, 1))))
            if not mark.exists():
                break
            verdict = message_of(done)
            into = bench.folder / "merged-again"
            shutil.rmtree(into, ignore_errors=True)
            merged = bench.command("merge", str(out), "-o", str(into))
            same = merged.returncode == 0 and outcome(into) == bench.expected
            if verdict is None and merged.returncode == 0 and not same:
                verdict = "SILENT"
            if verdict is None and done.returncode == 0 and not same:
                verdict = "SILENT"
            again = bench.run(out, "--shard", "2/2")
            shutil.rmtree(into, ignore_errors=True)
            merged = bench.command("merge", str(out), "-o", str(into))
            if verdict is None and (again.returncode, merged.returncode, outcome(into)) != (0, 0, bench.expected):
                verdict = "SILENT"
            detail = f"call {at}, {errno.errorcode[number]}: {done.returncode} {done.stderr[-300:]} {merged.stderr[-300:]}"
            tally.add(f"shard, {kind}", verdict or ("complete" if done.returncode == 0 else "refused"), detail)
    bench.server.taken()


def digest(folder: Path) -> dict[str, str]:
    """A hash of each file below a folder, but locks and hidden files."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    files = (path for path in files if path.suffix != ".lock" and not path.name.startswith("."))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def normalised(path: Path) -> str:
    """A file without times and names of files."""
    text = path.read_text(errors="replace")
    text = re.sub(r"20\d\d-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?", "T", text)
    text = re.sub(r'"(date|start_time|end_time|total_evaluation_time_seconds)": ?"?[\d.]+"?', "", text)
    return re.sub(r"\b1[6-9]\d{8}\.\d+", "D", text)


def outputs(folder: Path) -> dict[str, str]:
    """The visible files of a folder, without times."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock")
    files = (path for path in files if not path.name.startswith("."))
    return {re.sub(r"20\d\d-[\dT.-]+(?=\.json)", "T", str(path.relative_to(folder))): normalised(path) for path in files}


def attack_commands(bench: Bench, tally: Tally, rng: random.Random, scale: float) -> None:
    """Fails calls of the commands that read runs and write files."""
    base, shards = bench.folder / "expected", bench.folder / "shards"
    journal = next(base.rglob("*.journal"))
    commands = {
        "rescore": ["rescore", str(base), "--tasks", bench.tasks, "-s", "-o", "OUT"],
        "merge": ["merge", str(shards), "-o", "OUT"],
        "report": ["report", str(base), "-o", "OUT/report.html"],
        "journal merge": ["journal", "merge", str(journal), "-o", "OUT/new.journal"],
        "journal compact": ["journal", "compact", "OUT/answers.journal"],
    }
    for name, words in commands.items():
        reference = bench.folder / "reference"

        def prepare(out: Path, name: str = name) -> None:
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            if name == "journal compact":
                shutil.copy(journal, out / "answers.journal")

        prepare(reference)
        done = bench.command(*(word.replace("OUT", str(reference)) for word in words))
        assert done.returncode == 0, (name, done.stderr)
        expected = outputs(reference)
        before = {folder: digest(folder) for folder in (base, shards)}
        answers = bench.answers(reference)
        for kind in ("open", "write", "fsync", "rename"):
            for at in range(1, 1 + round(10 * scale)):
                out, mark = bench.folder / "command", bench.folder / "mark"
                prepare(out)
                mark.unlink(missing_ok=True)
                number = rng.choice(ERRORS)
                words_here = [word.replace("OUT", str(out)) for word in words]
                done = bench.command(*words_here, **fault_settings(kind, at, number, out, mark, rng.choice((0, 1))))
                if not mark.exists():
                    break
                verdict = message_of(done)
                found = outputs(out)
                # Without the names of its own folder, which differ.
                found = {key: text.replace(str(out), str(reference)) for key, text in found.items()}
                complete = {key: text for key, text in found.items() if expected.get(key) == text}
                if verdict is None and done.returncode == 0 and found != expected:
                    verdict = "SILENT"
                # A file under its final name is complete, unless it is a journal, which says where it ends.
                if verdict is None and name != "journal compact" and complete != found:
                    verdict = "SILENT"
                if verdict is None and name == "journal compact" and bench.answers(out) != answers:
                    verdict = "SILENT"
                if {folder: digest(folder) for folder in before} != before:
                    verdict = "SILENT"
                detail = f"{kind} {at}, {errno.errorcode[number]}: {done.returncode} {done.stderr[-300:]}"
                tally.add(name, verdict or ("complete" if done.returncode == 0 else "refused"), detail)


def attack_standard_output(bench: Bench, tally: Tally) -> None:
    """Every command that prints results, on a device that is always full: a script must not take it for a success."""
    base = str(bench.folder / "expected")
    journal = str(next(Path(base).rglob("*.journal")))
    commands = [
        ["table", base],
        ["table", base, "--format", "json"],
        ["compare", base, base],
        ["compare", base, base, "--format", "json"],
        ["samples", base],
        ["samples", base, "--format", "csv"],
        ["rescore", base, "--tasks", bench.tasks],
        ["merge", str(bench.folder / "shards"), "-o", str(bench.folder / "merged-full")],
        ["report", base, "-o", str(bench.folder / "r.html")],
        ["journal", "ls", journal],
        ["journal", "export", journal],
        ["journal", "verify", journal],
        ["ls", "tasks"],
        ["ls", "models", "--json"],
        ["show", bench.tasks.split(",")[0]],
        ["preview", bench.tasks.split(",")[0]],
        ["validate", "--tasks", bench.tasks],
        ["completions", "bash"],
        ["sandbox"],
        ["tasks", "list"],
        bench.words(Path(base), "--format", "json"),
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LM_EVAL_", "HF_"))}
    environment |= {"HOME": str(bench.folder), "HF_HUB_OFFLINE": "1"}
    for words in commands:
        results = {}
        for target in ("/dev/null", "/dev/full"):
            with open(target, "w") as stream:
                done = subprocess.run(
                    [bench.binary, *words], stdout=stream, stderr=subprocess.PIPE, env=environment, cwd=bench.folder, timeout=60
                )
            results[target] = done
        control, done = results["/dev/null"], results["/dev/full"]
        if control.returncode != 0 and words[0] not in ("tasks", "sandbox"):
            raise AssertionError((words, control.stderr))
        failed = done.returncode != 0
        name = " ".join(word for word in words[:2] if not word.startswith("/"))
        # A command that prints nothing cannot notice.
        said = subprocess.run([bench.binary, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=bench.folder)
        if not said.stdout:
            continue
        verdict = "CRASH" if b"panicked" in done.stderr or done.returncode < 0 else "refused" if failed else "SILENT"
        tally.add("standard output is full", verdict, f"{name}: {done.returncode} {done.stderr[-200:]!r}")
    bench.server.taken()


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "attack", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)


def attack_mounts(bench: Bench, tally: Tally, scale: float) -> None:
    """Full, small and read-only file systems."""
    place = bench.folder / "mount"
    step = 4 if scale > 0.5 else 8
    for kib in range(4, 1000, step):
        with mounted(place, f"size={kib}k"):
            done = bench.run(place / "out")
            tally.add("disk of each size", bench.judge(place / "out", done, lambda: remount(place, "size=8m")), f"{kib} KiB: {done.stderr[-300:]}")
        if done.returncode == 0:
            break
    for inodes in range(2, 40):
        with mounted(place, f"size=8m,nr_inodes={inodes}"):
            done = bench.run(place / "out")
            tally.add("inodes of each number", bench.judge(place / "out", done, lambda: remount(place, "nr_inodes=1000")), f"{inodes}: {done.stderr[-300:]}")
        if done.returncode == 0:
            break
    base = bench.folder / "expected"
    journal = next(base.rglob("*.journal"))
    with mounted(place, "size=8m"):
        shutil.copytree(base, place / "old")
        remount(place, "ro")
        before = digest(place)
        writers = {
            "run": bench.words(place / "out"),
            "resume": bench.words(place / "old"),
            "rescore": ["rescore", str(base), "--tasks", bench.tasks, "-o", str(place / "out")],
            "merge": ["merge", str(bench.folder / "shards"), "-o", str(place / "out")],
            "report": ["report", str(base), "-o", str(place / "r.html")],
            "journal merge": ["journal", "merge", str(journal), "-o", str(place / "new.journal")],
            "journal compact": ["journal", "compact", str(place / "old")],
        }
        for name, words in writers.items():
            done = bench.command(*words)
            verdict = message_of(done) or ("refused" if done.returncode else "SILENT")
            if name == "run" and bench.server.taken():
                verdict = "SILENT"
            tally.add("read-only: writers", verdict, f"{name}: {done.stderr[-300:]}")
        readers = ["table RUN", "samples RUN", "journal ls RUN", "journal verify RUN", f"rescore RUN --tasks {bench.tasks}"]
        for words in readers:
            done, healthy = (bench.command(*words.replace("RUN", str(folder)).split()) for folder in (place / "old", base))
            same = done.returncode == healthy.returncode == 0
            same = same and done.stdout.replace(str(place / "old"), str(base)) == healthy.stdout
            tally.add("read-only: readers", "complete" if same else "SILENT", f"{words}: {done.stderr[-300:]}")
        assert digest(place) == before
    bench.server.taken()
    # A log that cannot be written must not end the run.
    with mounted(place, "size=8k"):
        out = bench.folder / "logged"
        done = bench.run(out, LM_EVAL_LOG_FILE=str(place / "log"))
        tally.add("log file on a full disk", bench.judge(out, done) if done.returncode == 0 else "SILENT", done.stderr[-300:])


def attack_hub(bench: Bench, tally: Tally, rng: random.Random) -> None:
    """A dataset from a loopback hub, whose cache cannot be written."""
    rows = (bench.folder / "rows.jsonl").read_bytes()
    commit = "a" * 40

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, with_body: bool) -> None:
            path = self.path.split("?")[0]
            body, etag = b"{}", "none"
            if path.startswith("/api/"):
                files = [{"type": "file", "path": "test.jsonl", "size": len(rows), "oid": "b" * 40}]
                body = json.dumps(files if "/tree/" in path else {"sha": commit, "siblings": [{"rfilename": "test.jsonl"}]}).encode()
            elif path.endswith("/test.jsonl"):
                body, etag = rows, hashlib.sha256(rows).hexdigest()
            else:
                self.send_response(404)
                self.send_header("content-length", "0")
                self.send_header("x-error-code", "EntryNotFound")
                self.end_headers()
                return
            self.send_response(200)
            for name, value in (("content-length", str(len(body))), ("etag", f'"{etag}"'), ("x-repo-commit", commit)):
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def do_GET(self) -> None:
            self.answer(True)

        def do_HEAD(self) -> None:
            self.answer(False)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, daemon=True).start()
    task = TASK.format(name="hub", rows="unused", kind="generate_until", rest='doc_to_target: "{{a}}"\ngeneration_kwargs: {until: ["?"]}')
    task = re.sub(r"dataset_path: json\ndataset_kwargs: .*\n", "dataset_path: org/data\n", task)
    (bench.folder / "hub.yaml").write_text(task)
    words = ["run", "--model", "ngram", "--tasks", str(bench.folder / "hub.yaml"), "--format", "csv", "--bootstrap_iters", "0"]
    hub = {"HF_ENDPOINT": f"http://127.0.0.1:{http.server_port}", "HF_HUB_OFFLINE": "0"}
    cache = bench.folder / "hub-cache"
    healthy = bench.command(*words, HF_HOME=str(cache), **hub)
    assert healthy.returncode == 0, healthy.stderr
    for kind in ("open", "write", "fsync", "rename", "mkdir", "flock"):
        for at in range(1, 20):
            shutil.rmtree(cache)
            mark = bench.folder / "mark"
            mark.unlink(missing_ok=True)
            number = errno.ENOLCK if kind == "flock" else rng.choice(ERRORS)
            done = bench.command(*words, HF_HOME=str(cache), **hub, **fault_settings(kind, at, number, cache, mark))
            cache.mkdir(exist_ok=True)
            if not mark.exists():
                break
            verdict = message_of(done)
            if verdict is None and done.returncode == 0 and done.stdout != healthy.stdout:
                verdict = "SILENT"
            again = bench.command(*words, HF_HOME=str(cache), **hub)
            if verdict is None and again.stdout != healthy.stdout:
                verdict = "SILENT"
            detail = f"{kind} {at}: {done.returncode} {done.stderr[-300:]} {again.stderr[-300:]}"
            tally.add("hub cache", verdict or ("complete" if done.returncode == 0 else "refused"), detail)
    http.shutdown()


def attack_library(bench: Bench, tally: Tally, rng: random.Random, scale: float) -> None:
    """An installed task library is replaced by a newer one: afterwards it is one of them, never a mixture."""
    home = bench.folder / "library-home"
    sources = []
    for version in ("old", "new"):
        source = bench.folder / f"library-{version}" / "tasks"
        source.mkdir(parents=True)
        for number in range(5):
            text = (bench.folder / "words.yaml").read_text().replace("task: words", f"task: lib{number}")
            (source / f"lib{number}.yaml").write_text(f"{text}metadata: {{version: {version}}}\n")
        sources.append(source)

    def pull(source: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return bench.command("tasks", "pull", "9.9.9", "--from", str(source), "--force", HOME=str(home), **variables)

    def installed() -> object:
        return [path.read_text() for path in sorted(home.rglob("9.9.9/**/lib*.yaml"))]

    expected = []
    for source in sources:
        home.mkdir(exist_ok=True)
        done = pull(source)
        assert done.returncode == 0, done.stderr
        expected.append(installed())
    assert expected[0] != expected[1] and len(expected[0]) == 5
    for kind in ("open", "write", "fsync", "rename", "mkdir"):
        for at in range(1, 1 + round(12 * scale)):
            shutil.rmtree(home)
            home.mkdir()
            assert pull(sources[0]).returncode == 0
            mark = bench.folder / "mark"
            mark.unlink(missing_ok=True)
            number = rng.choice(ERRORS)
            done = pull(sources[1], **fault_settings(kind, at, number, home, mark, rng.choice((0, 1))))
            if not mark.exists():
                break
            verdict = message_of(done)
            found = installed()
            if verdict is None and (found not in expected or (done.returncode == 0 and found != expected[1])):
                verdict = "SILENT"
            again = pull(sources[1])
            if verdict is None and (again.returncode != 0 or installed() != expected[1]):
                verdict = "SILENT"
            detail = f"{kind} {at}, {errno.errorcode[number]}: {done.returncode} {done.stderr[-300:]} {again.stderr[-200:]}"
            tally.add("tasks pull", verdict or ("complete" if done.returncode == 0 else "refused"), detail)


def attack_clocks(bench: Bench, tally: Tally, rng: random.Random, scale: float) -> None:
    """Clocks that jump, stop, or are set back at the end of daylight saving time."""
    for step in (-3600, 3600, -86400 * 400, 86400 * 400):
        for after in sorted(rng.sample(range(0, 60), round(2 * scale) or 1)):
            out = bench.folder / "clock"
            shutil.rmtree(out, ignore_errors=True)
            done = bench.run(out, CLOCK_STEP=str(step), CLOCK_AFTER=str(after))
            verdict = bench.judge(out, done) if done.returncode == 0 else "SILENT"
            tally.add("clock jumps during a run", verdict, f"{step} s after {after}: {done.stderr[-300:]}")
    # No run replaces the results of another, even if the clock has stopped.
    for zone in ("UTC", "CET-1CEST,M3.5.0,M10.5.0/3"):
        out = bench.folder / "frozen"
        shutil.rmtree(out, ignore_errors=True)
        for count in range(1, 4):
            done = bench.run(out, TZ=zone, CLOCK_BASE="1792889400", CLOCK_FROZEN="1")
            kept = len(list(out.rglob("results_*.json"))), len(list(out.rglob("samples_words_*.jsonl")))
            verdict = "complete" if done.returncode == 0 and kept == (count, count) and outcome(out) == bench.expected else "SILENT"
            tally.add("stopped clock", verdict, f"{zone}, run {count}: {kept} {done.stderr[-200:]}")
    bench.server.taken()
    # 02:50 CEST, and 20 minutes later 02:10 CET: the folder stands for the second run.
    zone = "CET-1CEST,M3.5.0,M10.5.0/3"
    ngram = ["run", "--model", "ngram", "--tasks", bench.tasks, "-s", "-o", str(bench.folder / "dst"), "--bootstrap_iters", "0"]
    counts = []
    for base, limit in (("1792889400", "3"), ("1792890600", "7")):
        done = bench.command(*ngram, "--limit", limit, TZ=zone, CLOCK_BASE=base)
        assert done.returncode == 0, done.stderr
        single = bench.command("samples", str(bench.folder / "dst"), "--format", "csv", "--fields", "task,doc_id")
        counts.append(len(single.stdout.splitlines()))
    assert counts[0] != 15, counts
    readers = {
        "samples": ["samples", str(bench.folder / "dst"), "--format", "csv", "--fields", "task,doc_id"],
        "rescore": ["rescore", str(bench.folder / "dst"), "--tasks", bench.tasks, "--format", "csv"],
        "compare": ["compare", str(bench.folder / "dst"), str(bench.folder / "dst"), "--format", "json"],
    }
    names = sorted((bench.folder / "dst").rglob("results_*.json"))
    assert len(names) == 2 and "T02-10" in names[0].name and "T02-50" in names[1].name, names
    for name, words in readers.items():
        of_folder = bench.command(*words)
        assert of_folder.returncode == 0, (name, of_folder.stderr)
        of_later = bench.command(*(str(names[0]) if word == str(bench.folder / "dst") else word for word in words))
        of_earlier = bench.command(*(str(names[1]) if word == str(bench.folder / "dst") else word for word in words))
        assert of_later.returncode == of_earlier.returncode == 0, (name, of_later.stderr, of_earlier.stderr)
        assert of_later.stdout != of_earlier.stdout, name
        plain = [re.sub(r" \(/[^)]*\)", "", found.stdout) for found in (of_folder, of_later)]
        tally.add("end of daylight saving time", "complete" if plain[0] == plain[1] else "SILENT", f"{name} of the folder")


def attack_locks(bench: Bench, tally: Tally) -> None:
    """Two runs on one journal, with locks and without."""
    for number in (0, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
        out = bench.folder / f"locks-{number}"
        out.mkdir()
        faults = fault_settings("flock", 1, number, out, bench.folder / "mark", 0) if number else {}
        started: list[subprocess.CompletedProcess[str]] = []
        threads = [threading.Thread(target=lambda: started.append(bench.run(out, **faults))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sent = bench.server.taken()
        statuses = sorted(done.returncode for done in started)
        verdict = next((found for done in started if (found := message_of(done))), None)
        if verdict is None and (statuses[0] != 0 or outcome(out) != bench.expected):
            verdict = "SILENT"
        # One may have ended before another began; then the other asks for nothing.
        if verdict is None and (len(sent) != TOTAL or bench.answers(out) != TOTAL):
            verdict = "SILENT"
        warned = all("no locks" in done.stderr for done in started if done.returncode == 0)
        if verdict is None and number and not warned:
            verdict = "SILENT"
        again = bench.run(out, **faults)
        if verdict is None and (again.returncode != 0 or bench.server.taken() or outcome(out) != bench.expected):
            verdict = "SILENT"
        detail = f"{errno.errorcode.get(number, 'locks')}: {statuses}, {len(sent)} requests; {started[-1].stderr[-300:]}"
        tally.add("three runs, one journal", verdict or "complete", detail)


def main() -> int:
    given = arguments(__doc__).parse_args()
    rng = random.Random(given.seed)
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(given.binary, Path(name))
        check_the_check(bench)
        tally.attempt(attack_runs, bench, tally, rng, given.scale)
        tally.attempt(attack_shards, bench, tally, rng, given.scale)
        tally.attempt(attack_commands, bench, tally, rng, given.scale)
        tally.attempt(attack_standard_output, bench, tally)
        tally.attempt(attack_hub, bench, tally, rng)
        tally.attempt(attack_library, bench, tally, rng, given.scale)
        tally.attempt(attack_clocks, bench, tally, rng, given.scale)
        tally.attempt(attack_locks, bench, tally)
        if os.geteuid() == 0:
            tally.attempt(attack_mounts, bench, tally, given.scale)
        else:
            print("SKIPPED: mounts need root")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
