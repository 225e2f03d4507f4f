"""What the attack scripts share: isolated runs of the binary, and a tally that decides the exit status."""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: Outcomes that are faults of the program. Every other outcome means that it held.
FALLS = ("SILENT", "FALSE ALARM", "CRASH", "HANG", "MEMORY", "LEAK")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The arguments of every script: the binary, a seed, and a factor for the number of cases."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of cases")
    return parser


def run(binary: str, folder: Path, *words: str, timeout: float = 60, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the binary in a folder that is also its home, without the settings of the caller."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LM_EVAL_", "HF_"))}
    return subprocess.run(
        [binary, *words],
        cwd=folder,
        env={**environment, "HOME": str(folder), "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", **variables},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


@dataclass
class Tally:
    """Outcomes by attack, and the details of those that are faults."""

    outcomes: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    falls: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, attack: str, outcome: str, detail: str = "") -> None:
        self.outcomes[attack, outcome] += 1
        if outcome in FALLS:
            self.falls[f"{outcome} {attack}: {detail}"] += 1

    def attempt(self, attack: Callable[..., None], *given: object) -> None:
        """Runs an attack; one whose control fails counts as a fault, and the others still run."""
        try:
            attack(*given)
        except Exception:
            self.add(attack.__name__, "CRASH", "the script itself: " + traceback.format_exc(limit=3)[-1500:])

    def finish(self) -> int:
        """Prints a line per attack and per fault; returns the exit status."""
        attacks = dict.fromkeys(attack for attack, _ in self.outcomes)
        for attack in attacks:
            counts = {outcome: count for (of, outcome), count in sorted(self.outcomes.items()) if of == attack}
            print(f"{attack:32} {sum(counts.values()):6}  " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
        for detail, count in self.falls.most_common():
            print(f"{count:4} x {detail}")
        return 1 if self.falls else 0


@dataclass
class Measured:
    """A run that ended, or that was killed: `returncode` is None then."""

    returncode: int | None
    stdout: str
    stderr: str
    seconds: float
    peak: int
    """The largest resident memory of the process, in bytes."""

    def fault(self, memory: int) -> str | None:
        """The kind of fault, if the run hung, took too much memory, crashed, or failed without a message."""
        if self.returncode is None:
            return "HANG"
        if self.peak > memory:
            return "MEMORY"
        failed_silently = self.returncode != 0 and not self.stderr.strip()
        return "CRASH" if self.returncode < 0 or "panicked" in self.stderr or "internal error" in self.stderr or failed_silently else None


def measure(binary: str, folder: Path, *words: str, timeout: float = 30, space: int = 8 << 30, **variables: str) -> Measured:
    """Runs the binary like `run`, kills it after the time limit, bounds its address space, and measures its memory."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LM_EVAL_", "HF_"))}
    # With a backtrace, panics of libraries that are caught and reported are printed as well.
    environment |= {"HOME": str(folder), "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "RUST_BACKTRACE": "0", **variables}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(
            ["prlimit", f"--as={space}", binary, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        timer = threading.Timer(timeout, child.kill)
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
        seconds = time.monotonic() - start
        code = child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(1 << 26).decode("utf-8", "replace"))
    hung = code == -9 and seconds >= timeout
    return Measured(None if hung else code, texts[0], texts[1], seconds, usage.ru_maxrss * 1024)
