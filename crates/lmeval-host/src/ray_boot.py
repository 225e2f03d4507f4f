# Bootstrap of `lm-eval ray`. Must run on every Python, so that one that is too old can report it.
import sys


def _fail(message, hint):
    sys.stderr.write("error: %s\nhint: %s\n" % (message, hint))
    sys.exit(1)


if sys.version_info < (3, 10):
    _fail(
        "Python %d.%d at %s is too old" % (sys.version_info[0], sys.version_info[1], sys.executable),
        "`--python PATH` selects another one, 3.10 or newer",
    )

import importlib.abc
import importlib.util
import json
import os


class _EmbeddedImporter(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports `lm_eval.ray` from the binary, whatever `lm_eval` is installed."""

    def __init__(self, modules):
        self.modules = {"lm_eval": ""}
        for path, source in modules.items():
            self.modules[path[: -len(".py")].replace("/", ".").replace(".__init__", "")] = source

    def find_spec(self, name, path=None, target=None):
        if name in self.modules:
            return importlib.util.spec_from_loader(name, self, origin="<lm-eval>/" + name)
        return None

    def is_package(self, name):
        return name in ("lm_eval", "lm_eval.ray")

    def get_source(self, name):
        return self.modules[name]


def _start(path):
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    os.remove(path)
    sys.path[:] = [entry for entry in sys.path if entry]
    if importlib.util.find_spec("ray") is None:
        _fail(
            "Ray is not installed for %s" % sys.executable,
            "Install it with `%s -m pip install 'lm-eval-rs[ray]'`, or select another Python with `--python PATH`"
            % sys.executable,
        )
    sys.meta_path.insert(0, _EmbeddedImporter(given["modules"]))
    from lm_eval.ray._driver import main

    sys.exit(main(given["settings"]))


_start(sys.argv.pop())
