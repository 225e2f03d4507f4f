"""What a script has changed in this package: attributes of classes, names of modules.

The engine does the work of most code here, so a method that a script has replaced might never be called. Each module
is recorded when it has been imported. When an evaluation starts, one pass compares the records with the present
values. `_refusals` decides what becomes of a change.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.abc
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

_PACKAGE = __name__.partition(".")[0]
_MISSING: Any = object()
_MUTABLE = (dict, list, set)
_CODE = (types.FunctionType, classmethod, staticmethod, property)

_modules: dict[str, dict[str, Any]] = {}
"""The names of each module, as they were after its import."""

_classes: dict[type, dict[str, Any]] = {}
"""The attributes of each class, as they were after the import of its module."""

_contents: dict[int, tuple[Any, Any]] = {}
"""Copies of the dictionaries, lists and sets among these values, by identity."""


class Change(NamedTuple):
    """A name that no longer has the value it had after the import of its module."""

    module: str
    owner: type | None
    name: str

    def __str__(self) -> str:
        return f"{self.module if self.owner is None else self.owner.__name__}.{self.name}"


# Recording


class _Loader(importlib.abc.Loader):
    """Records a module after its import."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: Any) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        record(module)


class _RecordingFinder(importlib.abc.MetaPathFinder):
    """Lets the other finders find the modules of this package, and records them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not _is_ours(name):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def _is_ours(module: str) -> bool:
    """Whether a module belongs to this package; the folders of task libraries are below `lm_eval.tasks`, too."""
    package, *parts = module.split(".")
    is_library = parts[:1] == ["tasks"] and len(parts) > 1 and parts[1] != "manager" and parts[1][0] != "_"
    return package == _PACKAGE and bool(parts) and not is_library


def install() -> None:
    """Record the modules of this package that are imported from now on."""
    if not any(type(finder).__name__ == _RecordingFinder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _RecordingFinder())


def record(module: types.ModuleType) -> None:
    """Record the names of a module and the attributes of its classes."""
    known = {name: value for name, value in vars(module).items() if _is_name(name, value)}
    _modules[module.__name__] = known
    found = [value for value in vars(module).values() if isinstance(value, type)]
    for cls in found:
        if cls.__module__ == module.__name__:
            _classes[cls] = dict(vars(cls))
            _copy(vars(cls))
    _copy(known)


def _is_name(name: str, value: Any) -> bool:
    is_logger = type(value).__module__ == "logging"
    return not name.startswith("__") and not isinstance(value, types.ModuleType) and not is_logger


def _copy(values: Any) -> None:
    """Copy the contents of public values; the package itself adds to private ones."""
    for name, value in values.items():
        if type(value) in _MUTABLE and not name.startswith("_"):
            with contextlib.suppress(Exception):
                _contents[id(value)] = (value, copy.deepcopy(value))


# Comparing


def _is_same(now: Any, before: Any) -> bool:
    if now is not before:
        return False
    if type(now) not in _MUTABLE:
        return True
    value, content = _contents.get(id(now), (_MISSING, None))
    return value is not now or content == now


def _differences(cls: type) -> set[str]:
    """Return the attributes of a class that a script has replaced, removed, or defined over an inherited one."""
    known, now = _classes[cls], vars(cls)
    if len(known) == len(now) and all(_is_same(now.get(name, _MISSING), value) for name, value in known.items()):
        return set()
    names = {name for name in {*known, *now} if not _is_same(now.get(name, _MISSING), known.get(name, _MISSING))}
    return {name for name in names if _matters(cls, name, known.get(name, now.get(name)), name in known)}


def _matters(cls: type, name: str, value: Any, is_known: bool) -> bool:
    if name.startswith("__"):
        # Other names of this form belong to the interpreter.
        return isinstance(value, _CODE) and name != "__annotate_func__"
    if name == "_abc_impl":
        return False
    inherited = any(name in _classes.get(base, ()) for base in cls.__mro__[1:])
    return is_known or inherited or name in uncalled(cls) or isinstance(value, _CODE) and not _takes_helpers(cls)


def _takes_helpers(cls: type) -> bool:
    """Whether scripts add methods of their own to a class; a new method of any other class may be one of 0.4.13."""
    kinds = ("api.model", "LM", "api.task._documents", "Documents", "config.task", "TaskConfig", "FewshotConfig")
    return is_kind(cls, *kinds, "api.filter", "Filter", "api.samplers", "ContextSampler", "scorers", "Scorer")


def changes() -> list[Change]:
    """Return everything that scripts have changed."""
    found = [Change(cls.__module__, cls, name) for cls in list(_classes) for name in sorted(_differences(cls))]
    for module in list(_modules):
        if not _is_machinery(module):
            found += [Change(module, None, name) for name in sorted(_changed_in(module))]
    return found


def _is_machinery(module: str) -> bool:
    """Whether only this package has such a module: its parts look each other up, so that any change acts."""
    part = module.split(".")[1]
    return part.startswith("_") and part not in ("__main__", "_cli")


def _changed_in(module: str) -> set[str]:
    """Return the names of a module that a script has replaced, removed or added."""
    known = _modules.get(module, {})
    there = getattr(sys.modules.get(module), "__dict__", known)
    now = {name: value for name, value in there.items() if _is_name(name, value)}
    different = {name for name in {*known, *now} if not _is_same(now.get(name, _MISSING), known.get(name, _MISSING))}
    # Private values are the package's own state, and new ones that cannot be called are marks of a script.
    return {
        name
        for name in different
        if callable(known.get(name, now.get(name))) or name in known and not name.startswith("_")
    }


def changed_names(cls: type) -> set[str]:
    """Return the attributes of a class and of its base classes that scripts have changed."""
    return {name for base in cls.__mro__ if base in _classes for name in _differences(base)}


def overridden(cls: type) -> set[str]:
    """Return the attributes that a user's subclass defines, and those that a script has changed."""
    others = [base for base in cls.__mro__ if base not in _classes and base.__module__ not in ("builtins", "abc")]
    own = {name for base in others if base.__module__ not in ("typing",) for name in vars(base)}
    return {name for name in own if not name.startswith("__") and name != "_abc_impl"} | changed_names(cls)


def has_changed(module: str, name: str | None = None) -> bool:
    """Whether a script has changed a name of a module; without a name, anything in it except classes of models."""
    if name is not None:
        return name in _changed_in(module)
    helpers = [cls for cls in _classes if cls.__module__ == module and not is_kind(cls, "api.model", "LM")]
    return bool(_changed_in(module)) or any(_differences(cls) for cls in helpers)


def changed_class(module: str, name: str) -> Any:
    """Return a class that a script has replaced or changed, if it has."""
    module = f"{_PACKAGE}.{module}"
    cls = getattr(sys.modules.get(module), name, None)
    return cls if cls is not None and (cls not in _classes or _differences(cls)) else None


def has_changed_models() -> bool:
    """Whether a script has changed a class of models, which others may derive from."""
    return any(is_kind(cls, "api.model", "LM") and _differences(cls) for cls in list(_classes))


def changed_helpers(cls: type) -> set[str]:
    """Return the modules of a model class in which a script has changed functions or helper classes."""
    return {module for module in modules_of_model(cls) if has_changed(module)}


def replaced_loader() -> Any:
    """Return the function that a script has put in place of `datasets.load_dataset`, if it has."""
    library = sys.modules.get("datasets")
    function = getattr(library, "load_dataset", None)
    if function is None or getattr(library, "__lm_eval__", False):
        return None
    folder = (getattr(library, "__file__", None) or "").rpartition("/")[0]
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    return None if folder and file.startswith(folder) else function


def modules_of_model(cls: type) -> set[str]:
    """Return the modules whose functions the methods of a model class call; empty for other classes."""
    if not is_kind(cls, "api.model", "LM"):
        return set()
    prefix = f"{_PACKAGE}.models."
    return {base.__module__ for base in cls.__mro__ if base.__module__.startswith(prefix)} | {
        f"{prefix}utils",
        f"{prefix}utils_hf",
    }


def digest(cls: type) -> str | None:
    """Return a digest of the code that scripts have put into a class and its base classes."""
    import hashlib

    found = []
    for base in cls.__mro__:
        for name in sorted(_differences(base)) if base in _classes else ():
            found.append(f"{base.__qualname__}.{name} {_source(vars(base).get(name))}")
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogatepass")).hexdigest()[:16] if found else None


def _source(value: Any) -> str:
    import inspect

    function = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
    code = getattr(function, "__code__", None)
    return repr(value) if code is None else repr((code.co_code, code.co_names, _constants(code)))


def _constants(code: types.CodeType) -> list[Any]:
    return [_constants(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts]


@contextlib.contextmanager
def restored(cls: type) -> Iterator[None]:
    """Undo the changes of a class for a moment."""
    now = {name: vars(cls).get(name, _MISSING) for name in _differences(cls)}
    try:
        for name in now:
            _put(cls, name, _classes[cls].get(name, _MISSING))
        yield
    finally:
        for name, value in now.items():
            _put(cls, name, value)


def _put(cls: type, name: str, value: Any) -> None:
    if value is not _MISSING:
        setattr(cls, name, value)
    elif name in vars(cls):
        delattr(cls, name)


def is_kind(owner: type, *names: str) -> bool:
    """Whether a class is one of these or derived from it; modules (with a dot, or lowercase) precede their classes."""
    module = ""
    for name in names:
        if name[:1].islower():
            module = name
            continue
        base = getattr(sys.modules.get(f"{_PACKAGE}.{module}"), name, None)
        # Not `issubclass`: any class with `apply` counts as a filter there.
        if isinstance(base, type) and base in owner.__mro__:
            return True
    return False


# Methods of the reference

_UNCALLED: dict[str, tuple[str, ...]] = {
    "Collator": ("_group_by_context", "_group_by_index", "_reorder", "get_cache", "get_chunks"),
    "Documents": (
        "aggregate",
        "apply_filters",
        "build_all_requests",
        "count_bytes",
        "count_words",
        "doc_iterator",
        "dump_config",
        "instances",
        "override_metric",
        "process_instances",
        "resolve_field",
        "scorers",
    ),
    "FewshotConfig": ("from_dict",),
    "Group": ("_discover_filters_for_metric",),
    "GroupConfig": ("serialize_function",),
    "LaunchedLM": (
        "_encode_pair",
        "_loglikelihood_tokens",
        "_model_generate",
        "_parse_logprobs",
        "eot_token_id",
        "max_length",
        "modify_gen_kwargs",
        "prefix_token_id",
        "tok_decode",
        "tok_encode",
    ),
    "ServedLM": (
        "_create_payload",
        "_encode_pair",
        "_loglikelihood_tokens",
        "_model_call",
        "_model_generate",
        "amodel_call",
        "api_key",
        "gguf_completion",
        "header",
        "model_call",
        "parse_generations",
        "parse_logprobs",
        "tok_decode",
        "tok_encode",
    ),
    "TaskConfig": ("serialize_function",),
    "TaskManager": ("_check_duplicates", "_entry", "_load_spec", "task_index"),
    "TemplateAPI": ("amodel_call", "get_batched_requests"),
}
"""Methods that the reference calls and this package does not, by class."""


def uncalled(cls: type) -> set[str]:
    """Return the methods of the reference's class that this package never calls."""
    return {name for base in cls.__mro__ if base in _classes for name in _UNCALLED.get(base.__name__, ())}
