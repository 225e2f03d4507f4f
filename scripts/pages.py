"""Reads Markdown pages, and runs the commands that they show. `scripts/check-docs` and `scripts/newcomer` use it.

A console block has commands after `$ ` and below each its complete output. A line `…` stands for any lines, `…` within a line for
any characters. A sh block has commands whose output does not matter; they must succeed. A block below a line that ends with
"Save … as `NAME`:" is written to that file. The python blocks of a page that are not saved run as one script after its commands.

Comments directly above a block change that:

    <!-- not run: REASON -->        the block needs something that tests lack
    <!-- from: PATH -->             every line of the block is in this file, which a test compiles or runs
    <!-- from: PATH#fn name -->     the block is this Rust item of the file
    <!-- setup: COMMAND -->         run this first, unseen
    <!-- server: PORT -->           a stand-in server answers at this port of localhost
    <!-- needs: torch -->           the page runs with the Python of LM_EVAL_TORCH_PYTHON
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^( *)```([\w-]*)")
COMMENT = re.compile(r"^ *<!-- (not run|from|setup|server|needs): (.+?) -->$")
SAVED = re.compile(r"\b[Ss]ave .*\bas `([^`]+)`:$")
# Values that differ from run to run: time stamps of files, durations and rates.
VOLATILE = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d+"), "<time>"),
    (re.compile(r"\b\d[\d.,]*(?= ?(?:s|ms)\b)"), "<n>"),
    (re.compile(r"\b\d[\d.,]*/s\b"), "<n>/s"),
]
TIMEOUT = 300


@dataclass
class Block:
    """A fenced block, and the comments above it."""

    page: Path
    line: int
    language: str
    body: list[str] = field(default_factory=list)
    saved_as: str | None = None
    not_run: str | None = None
    source: str | None = None
    setup: list[str] = field(default_factory=list)
    server: int | None = None
    needs: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass
class Step:
    """A command of a console block, with the output below it. Lines are indices into the block's body."""

    command: str
    start: int
    end: int
    output: list[str]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    comments: list[tuple[str, str]] = []
    open_block: Block | None = None
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if open_block is not None:
            if fence:
                open_block = None
            else:
                open_block.body.append(line)
        elif fence:
            open_block = Block(page, number, fence.group(2))
            for kind, value in comments:
                if kind == "setup":
                    open_block.setup.append(value)
                elif kind == "server":
                    open_block.server = int(value)
                elif kind == "needs":
                    open_block.needs = value
                elif kind == "from":
                    open_block.source = value
                else:
                    open_block.not_run = value
            if saved := SAVED.search(before):
                open_block.saved_as = saved.group(1)
            comments, before = [], ""
            found.append(open_block)
        elif comment := COMMENT.match(line):
            comments.append((comment.group(1), comment.group(2)))
        elif line.strip():
            comments, before = [], line
    return found


def steps(block: Block) -> list[Step]:
    """Return the commands of a console or sh block."""
    lines = block.body
    if block.language == "sh":
        return [Step("\n".join(lines), 0, len(lines), [])]
    found: list[Step] = []
    index = 0
    while index < len(lines):
        if not lines[index].startswith("$ "):
            raise ValueError(f"{block}: a console block begins with `$ `")
        start = index
        command = [lines[index][2:]]
        while command[-1].endswith("\\"):
            index += 1
            command.append(lines[index])
        index += 1
        first = index
        while index < len(lines) and not lines[index].startswith("$ "):
            index += 1
        found.append(Step("\n".join(command), start, first, lines[first:index]))
    return found


def stable(line: str) -> str:
    """Return a line of output with what changes from run to run replaced."""
    for pattern, instead in VOLATILE:
        line = pattern.sub(instead, line)
    return line.rstrip()


def matches(expected: list[str], actual: list[str]) -> bool:
    """Tell whether output is the one that a page shows."""
    pattern = "".join(
        "(?:.*\n)*" if line.strip() == "…" else ".*".join(map(re.escape, stable(line).split("…"))) + "\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(stable(line) + "\n" for line in actual)) is not None


def shortened(expected: list[str], actual: list[str]) -> list[str]:
    """Return new output for a page, shortened where the old one was."""
    elisions = [index for index, line in enumerate(expected) if line.strip() == "…"]
    if not elisions:
        return actual
    head, tail = elisions[0], len(expected) - elisions[-1] - 1
    if head + tail >= len(actual):
        return actual
    return [*actual[:head], "…", *(actual[-tail:] if tail else [])]


def binary() -> Path:
    """Return the `lm-eval` to run: that of LM_EVAL_BINARY, else of the last build."""
    named = os.environ.get("LM_EVAL_BINARY")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(named) if named else target / "debug" / "lm-eval"
    if not path.is_file():
        raise SystemExit(f"error: {path} does not exist; run `cargo build` first")
    return path.resolve()


class Session:
    """A home folder and a shell in it that remembers its folder and its exported variables between commands."""

    def __init__(self, *, python: str | None = None, install: bool = True, path: str = "/usr/local/bin:/usr/bin:/bin") -> None:
        self.root = Path(tempfile.mkdtemp(prefix="lm-eval-docs-"))
        self.home = self.root / "home" / "me"
        self.bin = self.home / ".local" / "bin"
        self.bin.mkdir(parents=True)
        if install:
            (self.bin / "lm-eval").symlink_to(binary())
        if python:
            for name in ("python", "python3"):
                # A wrapper, because a link would lose the virtual environment.
                wrapper = self.bin / name
                wrapper.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
                wrapper.chmod(0o755)
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{path}",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HF_HUB_OFFLINE": "1",
        }
        self.state = self.root / "state"
        self.work = self.home / "demo"
        self.work.mkdir()
        self.state.write_text(f"cd {self.work}\n")

    def run(self, command: str) -> tuple[int, list[str]]:
        """Run a command; return its status and what it printed, both streams in one."""
        script = (
            f". {self.state}\n"
            f"trap 'export -p > {self.state}; printf \"cd %q\\n\" \"$PWD\" >> {self.state}' EXIT\n"
            f"{command}\n"
        )
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as expired:
            status, output = 124, (expired.stdout or b"") + b"\n(timed out)\n"
        text = output.decode(errors="replace").replace(str(self.home), "/home/me")
        return status, [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []

    def folder(self) -> Path:
        """Return the folder that the shell is in."""
        last = self.state.read_text().rstrip().rpartition("\n")[2]
        done = subprocess.run(["bash", "-c", f"{last}; pwd"], capture_output=True, text=True, check=True)
        return Path(done.stdout.rstrip("\n"))

    def save(self, block: Block) -> None:
        """Write the file that a block shows."""
        path = self.folder() / str(block.saved_as)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(block.body) + "\n", encoding="utf-8")

    def close(self) -> None:
        """Remove the home folder."""
        shutil.rmtree(self.root, ignore_errors=True)
