# Bootstrap of a worker. Must run on every Python, so that one that is too old can report it.
import sys

if sys.version_info < (3, 10):
    sys.stderr.write("Python %d.%d is too old\n" % sys.version_info[:2])
    sys.exit(86)

import importlib.abc
import importlib.util
import json
import os


class _EmbeddedImporter(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the modules embedded in the engine instead of installed ones of the same names."""

    def __init__(self, modules, task_roots):
        self.modules = modules
        self.task_roots = task_roots

    def _module_path(self, name):
        path = name.replace(".", "/")
        for candidate in (path + "/__init__.py", path + ".py"):
            if candidate in self.modules:
                return candidate
        return None

    def find_spec(self, name, path=None, target=None):
        if name != "lm_eval" and not name.startswith("lm_eval."):
            return None
        module_path = self._module_path(name)
        if module_path is None:
            if name not in ("lm_eval", "lm_eval.tasks"):
                return None
            module_path = name.replace(".", "/") + "/__init__.py"
        spec = importlib.util.spec_from_loader(
            name, self, origin="<lm-eval>/" + module_path, is_package=module_path.endswith("/__init__.py")
        )
        spec.has_location = True
        spec.cached = None
        if name == "lm_eval.tasks":
            spec.submodule_search_locations = self.task_roots
        return spec

    def is_package(self, name):
        module_path = self._module_path(name)
        return module_path is None or module_path.endswith("/__init__.py")

    def get_source(self, name):
        return self.modules.get(self._module_path(name), "")

    def get_code(self, name):
        module_path = self._module_path(name)
        return compile(self.get_source(name), "<lm-eval>/" + (module_path or name), "exec", dont_inherit=True)

    def exec_module(self, module):
        exec(self.get_code(module.__name__), module.__dict__)


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


def _start():
    # Standard input is the connection to the engine; task code sees an empty one.
    engine = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    settings = _first_frame(engine)
    # As for an installed script, the current folder is not searched.
    sys.path[:] = [entry for entry in sys.path if entry]
    sys.argv = ["lm-eval"]
    sys.meta_path.insert(0, _EmbeddedImporter(settings["modules"], settings["task_roots"]))
    from lm_eval._worker import main

    main(engine, settings)


_start()
