"""Runs a command that must not outlive its owner: `python -c SOURCE --run MARK STATUS COMMAND …`.

Standard input is a pipe from the owner. When it closes, because the owner is gone, the command is killed with every
process it has started. A byte asks the command to end by itself first. Its exit status is written to the descriptor STATUS.

The guard detaches itself first: a Ray worker that ends kills its children, and the guard has to survive that. All processes
of the command have the environment variable MARK (`NAME=VALUE`), by which they are found wherever they went.

`--serve FOLDER MARK STATUS COMMAND …` is like `--run`, but also lets the command end by itself when its owner is gone. It
creates FOLDER for this user alone, and removes it afterwards.

It first writes the id of its session to STATUS.

`--end MARK [SESSION]` kills all processes with a mark, and those of the session of a guard that was killed. `--watch MARK PROCESS` does so when the owner is gone, and kills those that
it has seen as descendants of that process: a process that changes its title destroys the mark.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import sys
import time

GRACE = 5.0
"""Seconds for the command to end by itself."""

_TRACKING = 2.0
"""Seconds for resource trackers to unlink what the command has left."""

_LINUX = sys.platform.startswith("linux")
_DEATH_SIGNAL, _SUBREAPER = 1, 36


def run(mark: str, status: int, words: list[str], folder: str | None = None) -> None:
    """Run a command and write its exit status, or 128 plus the signal that ended it; remove its folder."""
    _detach()
    if folder is not None:
        os.write(status, f"{os.getpid()} ".encode())
    name, _, value = mark.partition("=")
    os.environ[name] = value
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Orphans among its descendants become children of this process.
    _control(_SUBREAPER, 1)
    if folder is not None and not _make(folder):
        words = ["/bin/false"]
    ended = _watch(_start(status, words), wake, folder is not None)
    end_all(mark, 0.0 if folder is None else _TRACKING)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        os.write(status, str(ended).encode())
    except OSError:
        # The owner is gone.
        pass


def _make(folder: str) -> bool:
    """Create an empty folder that only this user can open; tell whether that was possible."""
    try:
        # Left by a server of this run that was killed together with its guard.
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder, 0o700)
    except OSError as error:
        os.write(2, f"Cannot create `{folder}`: {error.strerror}\n".encode())
        return False
    return True


def watch(mark: str, owner: int) -> None:
    """Wait until the owner is gone, and kill what it has left."""
    _detach()
    seen: dict[int, bytes] = {}
    while True:
        if select.select([0], [], [], 1.0)[0]:
            if os.read(0, 1):
                # The owner has ended everything itself.
                return
            break
        if _LINUX:
            seen = _descendants(owner)
    for process, began in seen.items():
        stat = _stat(process)
        # Another process may have the id by now.
        if stat is not None and stat[19] == began:
            _kill(process, signal.SIGKILL)
    end_all(mark)


def _descendants(owner: int) -> dict[int, bytes]:
    """Return the descendants of a process with the times of their start, without this process."""
    stats = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := _stat(int(name)))}
    found: dict[int, bytes] = {}
    generation = {owner}
    while generation:
        generation = {process for process, stat in stats.items() if int(stat[1]) in generation}
        found.update((process, stats[process][19]) for process in generation)
    return found


def _stat(process: int) -> list[bytes] | None:
    """Return the fields of a process from its state on; `None` if it is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The name of the command is in parentheses and may contain anything.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _detach() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()


def _watch(child: int, wake: int, is_patient: bool) -> int:
    """Wait until the command ends or has to be killed; return its status."""
    deadline: float | None = None
    owner = [0]
    while True:
        limit = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([*owner, wake], [], [], limit)
        if wake in ready:
            os.read(wake, 4096)
            status = _reap(child)
            if status is not None:
                return status
        if 0 in ready:
            if not os.read(0, 1):
                if not is_patient:
                    return 128 + signal.SIGKILL
                owner.clear()
            if deadline is None:
                _kill(child, signal.SIGTERM)
                deadline = time.monotonic() + GRACE
        if deadline is not None and time.monotonic() >= deadline:
            return 128 + signal.SIGKILL


def _control(option: int, value: int) -> None:
    if _LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _start(status: int, words: list[str]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        # The guard may be killed, too.
        _control(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(status)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"Cannot start `{words[0]}`: {error.strerror}\n".encode())
    os._exit(127)


def _reap(child: int) -> int | None:
    """Reap ended processes; return the status of the command if it is one of them."""
    found = None
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if process == 0:
            return found
        if process == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


def end_all(mark: str, patience: float = 0.0, session: int | None = None) -> None:
    """Kill the processes of the command, until no new one appears.

    Python's resource trackers unlink the shared memory of processes that were killed, so they are left alone for a while.
    """
    if not _LINUX:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            os.killpg(session or 0, signal.SIGTERM if session is None else signal.SIGKILL)
        except ProcessLookupError:
            pass
        return
    deadline: float | None = None
    looks = 0
    while looks < 2:
        found = _marked(mark, session)
        # While the list is read, the parent of a process can end, which makes this process its parent.
        looks = 0 if found else looks + 1
        if not found:
            continue
        others = [process for process in found if not patience or not _is_tracker(process)]
        if not others:
            deadline = deadline or time.monotonic() + patience
            if time.monotonic() > deadline:
                others = found
        for process in others:
            _kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.005)


def _is_tracker(process: int) -> bool:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return b"multiprocessing.resource_tracker" in file.read()
    except OSError:
        return False


def _marked(mark: str, session: int | None) -> list[int]:
    """Return the children of this process, and all other processes with the mark or in the session."""
    own, wanted, found = os.getpid(), mark.encode(), []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        stat = _stat(int(name))
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                has_mark = wanted in file.read().split(b"\0")
        except OSError:
            # A process of another user, or one that is ending: its children are not ours before it has.
            has_mark = False
        if stat and stat[0] != b"Z" and (has_mark or int(stat[1]) == own or int(stat[3]) == session):
            found.append(int(name))
    return found


def _kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    elif sys.argv[1] == "--serve":
        run(sys.argv[3], int(sys.argv[4]), sys.argv[5:], sys.argv[2])
    elif sys.argv[1] == "--watch":
        watch(sys.argv[2], int(sys.argv[3]))
    else:
        end_all(sys.argv[2], session=int(sys.argv[3]) if len(sys.argv) > 3 else None)
