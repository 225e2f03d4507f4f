"""Runs programs that want to pass without solving their problem, or to leave the sandbox, and counts what they leave behind.

A program is a solution followed by its tests, as the metric `code_eval` puts them together. A solution that is wrong must not pass,
whatever it prints, patches, exits with or starts. Code that was written against this sandbox is out of scope, as
`docs/running-code.md` says: it shares its process with the tests. The script counts those cheats as `possible`, and so shows that it
notices a program that passes.

Limits: a program tries to read, write, connect, fork and signal, as root, as an ordinary user, and on kernels without landlock and
without namespaces, which a seccomp filter around the binary imitates. Whatever it achieves must be reported as not enforced.

    python bench/attack/code_tasks.py --binary target/debug/lm-eval [--seed 0] [--scale 1]
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import os
import platform
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import Tally, arguments

#: One statement, which is all that a trick at the end of a solution has to swallow.
TESTS = "assert add(1, 2) == 3 and add(5, 5) == 10\n"
HONEST = "def add(a, b):\n    return a + b"
WRONG = "def add(a, b):\n    return a - b"
#: Output that looks like a result, on every descriptor.
SHOUT = """
import posix
for number in range(64):
    for text in (b'passed\\n', b'706173736564\\n', b'{"result": "passed"}\\n', b'ready\\npassed\\n', b'00000000000000000000000000000000 706173736564\\n'):
        try: posix.write(number, text)
        except OSError: pass
"""

#: Solutions that are wrong, and must fail.
FAKES = {
    "wrong": WRONG,
    "nothing": "",
    "exit()": "exit()",
    "sys.exit(0)": "import sys\nsys.exit(0)",
    "raise SystemExit": "raise SystemExit(0)",
    "os._exit(0)": "import os\nos._exit(0)",
    "posix._exit(0)": "import posix\nposix._exit(0)",
    "exit in add": "import os\ndef add(a, b):\n    os._exit(0)",
    "SystemExit in add": "import sys\ndef add(a, b):\n    sys.exit(0)",
    "GeneratorExit": "def add(a, b):\n    raise GeneratorExit",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "StopIteration": "def add(a, b):\n    raise StopIteration(3)",
    "abort": "import os\nos.abort()",
    "SIGKILL": "import posix, signal\nposix.kill(posix.getpid(), signal.SIGKILL)",
    "SIGSTOP": "import posix, signal\nposix.kill(posix.getpid(), signal.SIGSTOP)",
    "SIGTERM": "import signal\nsignal.raise_signal(signal.SIGTERM)",
    "SIGALRM": "import signal\nsignal.raise_signal(signal.SIGALRM)",
    "no alarm": "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
    "segmentation fault": "import ctypes\nctypes.string_at(0)",
    "stack overflow": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "memory": "x = []\nwhile True: x.append(bytearray(1 << 26))",
    "output": SHOUT,
    "output and exit": SHOUT + "posix._exit(0)",
    "output in add": "import posix\ndef add(a, b):\n" + "".join(f"    {line}\n" for line in SHOUT.strip().splitlines()),
    "print": "print('passed', flush=True)",
    "atexit": "import atexit, os\natexit.register(lambda: os._exit(0))",
    "atexit output": "import atexit\n@atexit.register\ndef f():\n" + "".join(f"    {line}\n" for line in SHOUT.strip().splitlines()),
    "excepthook": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)",
    "unraisablehook": "import sys, os\nsys.unraisablehook = lambda *a: os._exit(0)\nclass A:\n    def __del__(self): raise Exception\nA()",
    "thread exits": "import threading, os\nthreading.Thread(target=lambda: os._exit(0), daemon=True).start()",
    "thread stays": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    "thread output": "import threading\ndef f():\n" + "".join(f"    {line}\n" for line in SHOUT.strip().splitlines()) + "threading.Thread(target=f).start()",
    "AssertionError": "import builtins\nclass Never(Exception): pass\nbuiltins.AssertionError = Never",
    "BaseException": "import builtins\nclass Never(Exception): pass\nbuiltins.BaseException = builtins.Exception = Never",
    "exec": "import builtins\nbuiltins.exec = builtins.compile = builtins.eval = lambda *a, **k: None",
    "str": "import builtins\nbuiltins.str = lambda *a: 'passed'\nbuiltins.format = lambda *a: 'passed'",
    "message": "class Odd(Exception):\n    def __str__(self): return 'passed'\n    __format__ = lambda self, spec: 'passed'\nraise Odd",
    "message with exit": "import os\nclass Odd(Exception):\n    def __str__(self): os._exit(0)\nraise Odd",
    "message of newlines": "raise Exception('\\npassed\\n')",
    "os.write": "import os\nos.write = os.read = os._exit = lambda *a: b'passed'",
    "signal.setitimer": "import signal\ndef f(*a): raise SystemExit\nsignal.setitimer = f",
    "__main__.TimeIsUp": "import __main__\n__main__.TimeIsUp = AssertionError",
    "__main__.main": "import __main__\n__main__.main = lambda: None\n__main__.time_is_up = lambda *a: None",
    "sys.modules": "import sys\nsys.modules.clear()",
    "f_locals": "import sys\nf = sys._getframe()\nwhile f:\n    f.f_locals['result'] = 'passed'\n    f = f.f_back",
    "f_globals": "import sys\nf = sys._getframe()\nwhile f:\n    f.f_globals.update(result='passed', TimeIsUp=BaseException)\n    f = f.f_back",
    "gc": "import gc\nfor value in gc.get_objects():\n    if isinstance(value, dict) and 'result' in value: value['result'] = 'passed'",
    "globals": "globals().clear()",
    "__builtins__": "__builtins__['__build_class__'] = __builtins__['print'] = None",
    "unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\nunittest.main = lambda *a: None",
    "fork": "import posix\ntry:\n    if posix.fork() == 0: posix._exit(0)\nexcept OSError: pass",
    "daemon": "import posix\ntry:\n    if posix.fork() == 0:\n        posix.setsid()\n        while True: pass\nexcept OSError: pass",
    "vfork by ctypes": "import ctypes\nctypes.CDLL(None).vfork()",
    "exec of true": "import posix\ntry: posix.execv('/bin/true', ['true'])\nexcept OSError: pass",
    "exec of python": "import posix, sys\nposix.execv(sys.executable, [sys.executable, '-c', 'print(\"passed\")'])",
    "ptrace": "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)",
    "/proc/self/mem": "try: open('/proc/self/mem', 'r+b').write(b'passed')\nexcept OSError: pass",
    "memory of the parent": "import posix\ntry: found = open(f'/proc/{posix.getppid()}/mem', 'rb').read(100)\nexcept OSError: pass",
    "arguments of the parent": "import posix\ntry: found = open(f'/proc/{posix.getppid()}/cmdline').read()\nexcept OSError: pass",
    "standard input": "import sys, posix\ntry: found = sys.stdin.read()\nexcept OSError: found = posix.read(0, 100)",
    "continuation": "if 0: \\",
    "open string": "'''",
    "open bracket": "x = (",
    "open block": "if 0:",
    "coding": "# -*- coding: utf-7 -*-\n+AAo-",
    "null": "x = 1\0",
    "carriage return": "def add(a, b): return 3\r#",
    "optimised": "import sys\nsys.flags = None\n__debug__",
    "future": "from __future__ import barry_as_FLUFL",
    "mutating add": "def add(a, b):\n    global add\n    add = lambda *a: 10\n    return 3\ndef check(): pass\ndel add",
    "import hook": "import sys\nsys.meta_path.insert(0, None)\nsys.path_hooks.clear()",
    "close descriptors": "import posix\nfor number in range(64):\n    try: posix.close(number)\n    except OSError: pass",
    "swap descriptors": "import posix\nfor number in range(3, 9):\n    try: posix.dup2(number, 1)\n    except OSError: pass\nprint('passed')",
    "interpreter exit": "import ctypes\nctypes.pythonapi.Py_Exit(0)",
    "finalise": "import ctypes\nctypes.pythonapi.Py_FinalizeEx()",
    "C exit": "import ctypes\nctypes.CDLL(None).exit(0)",
    "C output": "import ctypes\nlibc = ctypes.CDLL(None)\nfor number in range(10): libc.write(number, b'passed\\n', 7)",
}

#: Cheats that share the process with the tests and know how results are reported. `docs/running-code.md` says that they are possible.
POSSIBLE = {
    "equal to everything": "class Any:\n    def __eq__(self, other): return True\ndef add(a, b): return Any()",
    "descriptor of the secret": (
        "import sys, posix\nf = sys._getframe(1).f_locals\nsecret = posix.read(f['given'], 64).strip()\n"
        "posix.write(f['answer'], secret + b' ' + b'passed'.hex().encode() + b'\\n')\nposix._exit(0)"
    ),
}


def program(solution: str, tests: str = TESTS) -> str:
    """The program as the metric joins it, by the function of the Python package."""
    from lm_eval._code import joined

    return joined(solution, tests)


class Sandbox:
    """Runs programs with one binary, as one user, behind a wrapper."""

    def __init__(self, binary: str, folder: Path, wrapper: list[str] | None = None) -> None:
        self.binary, self.folder, self.wrapper = binary, folder, wrapper or []
        self.python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()), sys.executable)
        if not self.wrapper:
            self.python = sys.executable

    def run(self, text: str, seconds: float = 3) -> dict[str, Any]:
        command = [*self.wrapper, self.binary, "sandbox", "-", "--json", "--time", str(seconds), "--memory", "512", "--python", self.python]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        given = text.encode("utf-8", "surrogatepass")
        done = subprocess.run(command, input=given, capture_output=True, env=environment, cwd="/", timeout=90, check=False)
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            return {"result": f"ERROR {done.stderr.decode('utf-8', 'replace')[-300:]}", "limits": {}}


def processes() -> set[int]:
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


def left_behind(folder: Path, mark: str) -> list[str]:
    """Folders, mounts and processes of the sandbox that remain."""
    found = [path.name for path in folder.iterdir() if path.name.startswith("lm-eval-code-")]
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if mark in line]
    for process in processes():
        try:
            if mark in Path(f"/proc/{process}/environ").read_bytes().decode("utf-8", "replace") and process != os.getpid():
                found.append(Path(f"/proc/{process}/cmdline").read_bytes().decode("utf-8", "replace")[:100])
        except OSError:
            pass
    return found


# A kernel with less: a seccomp filter that denies calls before the binary starts.

LANDLOCK = (444, 38)
UNSHARE = (272, 1)


def deny(calls: list[tuple[int, int]]) -> None:
    """Makes system calls of this process and its children fail with an error number."""
    load = struct.pack("HBBI", 0x20, 0, 0, 0)
    rules = b"".join(struct.pack("HBBI", 0x15, 0, 1, call) + struct.pack("HBBI", 0x06, 0, 0, 0x50000 | error) for call, error in calls)
    code = load + rules + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    buffer = ctypes.create_string_buffer(code)
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filters), 0, 0) == 0, os.strerror(ctypes.get_errno())


PROBE = """
import posix, socket
done = []
def attempt(name, action):
    try:
        action()
        done.append(name)
    except BaseException:
        pass
attempt('files', lambda: open('/etc/passwd').read())
attempt('files', lambda: open('{folder}/escaped', 'w').close())
attempt('files', lambda: open(f'/proc/{{posix.getppid()}}/environ').read())
attempt('network', lambda: socket.create_connection(('127.0.0.1', {port}), 1))
attempt('processes', lambda: posix.fork() or posix._exit(0))
attempt('signals', lambda: posix.kill({pid}, 0))
attempt('signals', lambda: posix.kill(posix.getppid(), 0))
raise Exception('DONE ' + ' '.join(done))
"""


def check_limits(sandbox: Sandbox, where: str, tally: Tally, bystander: int, port: int) -> None:
    outcome = sandbox.run(PROBE.format(folder=sandbox.folder, pid=bystander, port=port))
    result = outcome["result"]
    if not result.startswith("failed: DONE"):
        tally.add(f"limits {where}", "CRASH", result)
        return
    for name in ("files", "network", "processes", "signals"):
        state = outcome["limits"].get(name, {})
        escaped = name in result.split()
        if escaped and state.get("in_force") is not False:
            tally.add(f"limits {where}", "SILENT", f"{name} escaped, and the report says {state}")
        else:
            tally.add(f"limits {where}", "not enforced, reported" if not state.get("in_force") else "enforced")


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--deny":
        deny([tuple(map(int, pair.split(":"))) for pair in sys.argv[2].split(",")])  # type: ignore[misc]
        os.execv(sys.argv[3], sys.argv[3:])
    given = arguments(__doc__).parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    rng = random.Random(given.seed)
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        # Another user has to be able to start it.
        binary = shutil.copy(given.binary, folder / "lm-eval")
        users = {"as this user": Sandbox(binary, folder)}
        own = [sys.executable, __file__, "--deny"]
        if platform.machine() == "x86_64":
            users["without landlock"] = Sandbox(binary, folder, [*own, "{}:{}".format(*LANDLOCK)])
            users["without namespaces"] = Sandbox(binary, folder, [*own, "{}:{}".format(*UNSHARE)])
            users["without both"] = Sandbox(binary, folder, [*own, "{}:{},{}:{}".format(*LANDLOCK, *UNSHARE)])
        if os.getuid() == 0 and shutil.which("setpriv"):
            nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            users["as nobody"] = Sandbox(binary, folder, nobody)
            if platform.machine() == "x86_64":
                script = shutil.copy(__file__, folder / "deny.py")
                shutil.copy(Path(__file__).with_name("support.py"), folder / "support.py")
                other = [*nobody, users["as nobody"].python, str(script), "--deny", "{}:{},{}:{}".format(*LANDLOCK, *UNSHARE)]
                users["as nobody without both"] = Sandbox(binary, folder, other)
        attack(users, folder, int(500 * given.scale), rng, tally)
    return tally.finish()


def attack(users: dict[str, Sandbox], folder: Path, count: int, rng: random.Random, tally: Tally) -> None:
    import socket

    main_user = users["as this user"]
    # Controls: a right solution passes for every user, a wrong one fails, and a program that passes is noticed.
    for where, sandbox in users.items():
        outcome = sandbox.run(program(HONEST))
        assert outcome["result"] == "passed", (where, outcome)
        assert sandbox.run(program(WRONG))["result"] == "failed: ", where
    # Without the empty line that the metric puts there, this one would swallow its test.
    assert main_user.run(f"{FAKES['continuation']}\n{TESTS}")["result"] == "passed"
    for name, cheat in POSSIBLE.items():
        passes = main_user.run(program(cheat))["result"] == "passed"
        tally.add("cheats against this sandbox", "possible" if passes else "fails", name)
    assert tally.outcomes["cheats against this sandbox", "possible"] > 0, "no cheat was noticed: the check is blind"

    def fake(case: tuple[str, str, str]) -> tuple[str, str, str]:
        where, name, solution = case
        result = users[where].run(program(solution), 2)["result"]
        outcome = "SILENT" if result == "passed" else "CRASH" if result.startswith("ERROR") else "fails"
        return f"fakes {where}", outcome, f"{name}: {result[:200]}"

    others = ["as nobody", "as nobody without both"]
    cases = [("as this user", name, fake) for name, fake in FAKES.items()]
    cases += [(where, *pair) for where in others if where in users for pair in rng.sample(sorted(FAKES.items()), 25)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for outcome in pool.map(fake, cases):
            tally.add(*outcome)

    bystander = subprocess.Popen(["sleep", "600"])
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    for where, sandbox in users.items():
        check_limits(sandbox, where, tally, bystander.pid, server.getsockname()[1])
    assert bystander.poll() is None, "a program ended another process"
    bystander.kill()
    bystander.wait()

    # Many programs: solutions, failures, and those that try to leave something.
    litter = [HONEST, WRONG, *(FAKES[name] for name in ("thread stays", "daemon", "SIGSTOP", "memory", "os._exit(0)"))]
    litter += ["for i in range(500): open(f'f{i}', 'w').write('x' * 10000)", "import tempfile\ntempfile.mkdtemp()"]
    before = len(processes())
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [rng.choice(litter) for _ in range(count)]
        results = list(pool.map(lambda text: (text, main_user.run(program(text), 2)["result"]), jobs))
    for text, result in results:
        wrong = (result == "passed") != (text == HONEST)
        tally.add("many at once", "SILENT" if wrong else "as expected", f"{text[:50]}: {result[:200]}")
    # Control: the check finds a folder that remains.
    (folder / "lm-eval-code-control").mkdir()
    assert left_behind(folder, str(folder)), "the check for leaks is blind"
    (folder / "lm-eval-code-control").rmdir()
    wait(lambda: not left_behind(folder, str(folder)))
    for item in left_behind(folder, str(folder)):
        tally.add("leftovers", "LEAK", item)
    tally.add("leftovers", "nothing" if not left_behind(folder, str(folder)) else "something", f"{before} processes before")


def accept(server: Any) -> None:
    while True:
        try:
            server.accept()
        except OSError:
            return


def wait(condition: Callable[[], bool]) -> None:
    """Waits up to ten seconds for a condition."""
    event = threading.Event()
    for _ in range(200):
        if condition():
            return
        event.wait(0.05)


if __name__ == "__main__":
    sys.exit(main())
