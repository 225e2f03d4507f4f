# Bootstrap of a worker for a model of the original package. None of our modules is named `lm_eval` here.
import sys

if sys.version_info < (3, 10):
    sys.stderr.write("Python %d.%d is too old\n" % sys.version_info[:2])
    sys.exit(86)

import faulthandler
import importlib.util
import json
import os
import signal
import threading
import time
import traceback
import types

_PACKAGE = "_lm_eval_bridge"


class NotInstalled(ImportError):
    """The original package is missing; `missing` is its name if installing it would help."""

    def __init__(self, message, missing):
        super().__init__(message)
        self.missing = missing


def _bring(modules):
    """Makes modules of the engine importable next to the package of the same name."""
    package = types.ModuleType(_PACKAGE)
    package.__path__ = []
    sys.modules[_PACKAGE] = package
    for path, source in modules.items():
        name = _PACKAGE + "." + os.path.basename(path).removesuffix(".py")
        module = types.ModuleType(name)
        module.__package__ = _PACKAGE
        module.__file__ = "<lm-eval>/" + path
        sys.modules[name] = module
        exec(compile(source, module.__file__, "exec", dont_inherit=True), module.__dict__)


def _part(name):
    return sys.modules[_PACKAGE + "." + name]


def _first_frame(descriptor):
    def exactly(count):
        parts = []
        while count > 0:
            part = os.read(descriptor, min(count, 1 << 20))
            if not part:
                os._exit(0)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    return json.loads(exactly(int.from_bytes(exactly(8), "big")))


def _end_with_engine(descriptor):
    """Kills the process and its children soon after the engine has ended."""
    import select

    ended = select.poll()
    ended.register(descriptor, 0)
    ended.poll()
    time.sleep(2)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _check_package():
    found = importlib.util.find_spec("lm_eval")
    if found is None:
        raise NotInstalled("the package `lm_eval` is not installed for `%s`" % sys.executable, "lm_eval")
    folders = list(found.submodule_search_locations or [])
    if any(os.path.isfile(os.path.join(folder, "_worker.py")) for folder in folders):
        message = "the package `lm_eval` of `%s` is not the original one; select another interpreter with `--python`"
        raise NotInstalled(message % sys.executable, None)


def _open(worker, function, message):
    """Creates a model of the original package or of a plug-in for it."""
    models, plugins = _part("_models"), _part("_plugins")
    _check_package()
    try:
        target = models.find(message["name"])
    except (KeyError, ValueError):
        if not worker.plugins:
            raise
        plugins.load(worker.plugins)
        target = models.find(message["name"])
    description = models.describe(models.serve(target, message))
    yield {**description, "rolling_context": _version() >= (0, 5)}


def _version():
    """The major and minor version of the package."""
    from importlib import metadata

    try:
        parts = metadata.version("lm_eval").split(".")
        return int(parts[0]), int(parts[1])
    except (metadata.PackageNotFoundError, ValueError, IndexError):
        return 0, 4


class _Worker:
    def __init__(self, channel, plugins):
        self.channel = channel
        self.plugins = plugins
        self.process = os.getpid()
        self.operations = {**_part("_models").OPERATIONS, "model_open": _open}

    def serve(self, message):
        to_wire = _part("_protocol").to_wire
        try:
            for value in self.operations[message["op"]](self, None, message):
                self.channel.write({"ok": to_wire(value)})
        except BaseException as error:
            if os.getpid() != self.process:
                os._exit(1)
            self.fail(error)

    def fail(self, error):
        if isinstance(error, NotInstalled):
            told = {"type": "ImportError", "message": str(error), "traceback": None, "missing": error.missing}
            self.channel.write({"error": told})
            return
        name, module = type(error).__name__, type(error).__module__
        missing, cause = None, error
        while missing is None and isinstance(cause, ImportError):
            if isinstance(cause, ModuleNotFoundError) and cause.name:
                missing = cause.name.partition(".")[0]
            cause = cause.__cause__ or cause.__context__
        told = {
            "type": name if module == "builtins" else module + "." + name,
            "message": str(error).encode("utf-8", "backslashreplace").decode("utf-8"),
            "traceback": _traceback(error),
            "missing": missing,
        }
        self.channel.write({"error": told})


def _traceback(error):
    """The traceback, starting at the package's own code."""
    trace = traceback.TracebackException.from_exception(error)
    part = trace
    while part is not None:
        frames = list(part.stack)
        while frames and frames[0].filename.startswith(("<string>", "<lm-eval>/", "<frozen importlib")):
            frames.pop(0)
        part.stack = traceback.StackSummary.from_list(frames)
        part = part.__cause__ or part.__context__
    return "".join(trace.format()).encode("utf-8", "backslashreplace").decode("utf-8")


def _refuse(directory, reference):
    raise ValueError("this worker cannot call functions of tasks")


def _start():
    engine = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    settings = _first_frame(engine)
    sys.path[:] = [entry for entry in sys.path if entry]
    sys.argv = ["lm-eval"]
    _bring(settings["modules"])
    faulthandler.enable()
    protocol = _part("_protocol")
    channel = protocol.Channel(engine, _refuse)
    threading.Thread(target=_end_with_engine, args=(engine,), daemon=True).start()
    hello = {"protocol": protocol.VERSION, "python": list(sys.version_info[:3]), "executable": sys.executable}
    channel.write(hello)
    # Plug-ins are loaded only for models that the package does not have.
    channel.write({"ok": []})
    worker = _Worker(channel, settings["plugins"])
    while True:
        message = channel.read()
        if message is None:
            return
        worker.serve(message)


_start()
