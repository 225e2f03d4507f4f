import builtins
import faulthandler
import io
import os
import shutil
import signal
import subprocess
import sys


class TimeIsUp(Exception):
    pass


class NullStream(io.StringIO):
    def read(self, *args):
        raise OSError

    readline = readlines = read

    def readable(self, *args):
        return False

    def write(self, text):
        return len(text)


def time_is_up(number, frame):
    raise TimeIsUp("Timed out!")


def import_all(program):
    # The original metric forks programs from a process that has already imported much. Large packages cannot be
    # imported once the guard is up.
    for line in program.splitlines():
        first, _, rest = line.strip().partition(" ")
        if first not in ("import", "from"):
            continue
        for name in rest.split(" import ")[0].split(",") if first == "from" else rest.split(","):
            try:
                __import__(name.split(" as ")[0].split("#")[0].strip(" ;\r"))
            except BaseException:
                pass


# Functions that the original metric disables: a program that uses one fails there, so it must fail here. The kernel's
# limits, not these names, keep the machine safe.
DISABLED = {
    builtins: ["exit", "help", "quit"],
    os: [
        # processes and users
        *["fork", "forkpty", "kill", "killpg", "setuid", "system"],
        # the environment and the current folder
        *["chdir", "chroot", "fchdir", "getcwd", "putenv"],
        # files: deleting, renaming, cutting
        *["remove", "removedirs", "rename", "renames", "replace", "rmdir", "truncate", "unlink"],
        # files: owners and rights
        *["chmod", "chown", "fchmod", "fchown", "lchflags", "lchmod", "lchown"],
    ],
    shutil: ["chown", "move", "rmtree"],
    subprocess: ["Popen"],
}
NOT_IMPORTED = ["ipdb", "joblib", "psutil", "resource", "tkinter"]


def guard():
    faulthandler.disable()
    os.environ["OMP_NUM_THREADS"] = "1"
    for module, names in DISABLED.items():
        vars(module).update(dict.fromkeys(names))
    sys.modules.update(dict.fromkeys(NOT_IMPORTED))


def read_exactly(descriptor, length):
    parts = []
    while length > 0:
        part = os.read(descriptor, min(length, 1 << 20))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def read_program(given):
    length = b""
    while not length.endswith(b"\n"):
        length += os.read(given, 1) or b"\n"
    return read_exactly(given, int(length)).decode("utf-8", "surrogatepass")


def main():
    seconds = float(sys.argv[1])
    sys.path[:] = sys.argv[2:]
    given, answer = os.dup(0), os.dup(1)
    program = read_program(given)
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(max(given, answer, null) + 1, 1 << 16)
    read, write, leave = os.read, os.write, os._exit
    sys.argv[:] = [""]
    sys.stdin = sys.stdout = sys.stderr = NullStream()
    # From here on a crash or a hang is the fault of the sandboxed code: its imports run code.
    write(answer, b"started\n")
    import_all(program)
    guard()
    signal.signal(signal.SIGALRM, time_is_up)
    write(answer, b"ready\n")
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            exec(program, {})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        result = "passed"
    except TimeIsUp:
        result = "timed out"
    except BaseException as error:
        result = f"failed: {error}"
    # The secret that authenticates the result follows the code and is only read now: until here no frame and no object
    # contained it. Code that looks for the descriptor can find it nevertheless.
    secret = read(given, 64).strip()
    write(answer, secret + b" " + result[:60000].encode("utf-8", "backslashreplace").hex().encode() + b"\n")
    leave(0)


main()
