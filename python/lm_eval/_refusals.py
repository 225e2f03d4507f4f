"""What an evaluation does with the changes of scripts: it honours them, or it is refused before any work."""

from __future__ import annotations

import sys
import types
from typing import Any

from lm_eval import _patches

_CALLED_BY_SCRIPTS = (
    "__main__",
    "_cli",
    "caching",
    "config.evaluate_config",
    "decontamination",
    "evaluator_utils",
    "judge",
    "loggers",
    "prompts",
    "ray",
    "result_schema",
    "tasks",
    "utils",
)
"""Modules whose functions run when a script calls them; an evaluation in the engine has no use for them."""

_OF_ENGINE = ("apply_template", "create_iterator", "env", "import_function", "load_yaml_config", "regex_replace")
"""Functions of `lm_eval.utils` that the reference looks up while it evaluates."""

_INSTEAD = {
    "api.filter": "register a filter class (`register_filter`) and name it in the task",
    "api.group": "change the fields of the group (`aggregate_metric_list`), or compute the group's score from the results",
    "api.instance": "change requests in `construct_requests` of a task class",
    "api.metrics": "register your function (`register_metric`, `register_aggregation`) and name it in the task, or assign "
    "it to an entry of `lm_eval.api.registry.METRIC_REGISTRY`",
    "api.model": "override the method in a subclass of `LM`, and pass an object of it",
    "api.registry": "register your object under the name",
    "api.samplers": "register a sampler class (`register_sampler`) and name it in `fewshot_config`",
    "api.task": "override the method in a subclass, and pass an object of it in `tasks`",
    "evaluator": "call your function instead",
    "filters": "register a filter class (`register_filter`) and name it in the task",
    "models": "override `model_call`, `loglikelihood`, `loglikelihood_rolling` or `generate_until` in a subclass, and pass "
    "an object of it",
    "scorers": "register a scorer class (`register_scorer`) and name it in the task",
    "tasks": "load the tasks yourself, and pass the objects in `tasks`",
    "utils": "use functions in the task (`doc_to_text: !function …`), or pass task objects with methods of your own",
}
"""What to do instead of changing something in a module."""


def has_own_tasks(manager: Any = None) -> bool:
    """Whether scripts have changed how a manager loads tasks or what tasks do, so that their objects must be made here."""
    from lm_eval.api.task._documents import Documents
    from lm_eval.config.task import FewshotConfig, TaskConfig

    if manager is not None and "load" in {*vars(manager), *_patches.overridden(type(manager))}:
        return True
    return any(
        issubclass(cls, (Documents, TaskConfig, FewshotConfig)) and _patches._differences(cls)
        for cls in list(_patches._classes)
    )


def refuse(entry: str, model: type | None = None) -> None:
    """Raise if a script has changed something that the evaluation would ignore.

    `entry` is `simple_evaluate`, `evaluate`, `command` or `steps`; `model` is the class of the evaluated model, if it
    is in this process.
    """
    for change in _patches.changes():
        if not _acts(change, entry, model):
            raise NotImplementedError(_message(change, entry))
    own = vars(sys.modules[_patches._PACKAGE])
    for name in ("TaskManager", "simple_evaluate"):
        # The package defines these on access; only a script stores them.
        if entry == "command" and name in own:
            raise NotImplementedError(_message(_patches.Change(_patches._PACKAGE, None, name), entry))


def refuse_overrides(cls: type, what: str) -> None:
    """Raise if a user's class defines methods that the reference calls and this package does not."""
    own = {name for base in cls.__mro__ if base not in _patches._classes for name in vars(base)}
    ignored = sorted(_patches.uncalled(cls) & (own | _patches.changed_names(cls)))
    if ignored:
        kind = next(base for base in cls.__mro__ if base in _patches._classes)
        raise NotImplementedError(
            f"`{cls.__name__}.{ignored[0]}` would be ignored: {what} never calls it; {_hint(kind.__module__)}"
        )


def refuse_own_methods(target: Any, what: str) -> None:
    """Raise if a user's class, or a script in this object, replaces methods that the engine does not call."""
    own = {name for name, value in vars(target).items() if callable(value)} | _patches.overridden(type(target))
    known = {name for base in type(target).__mro__ if base in _patches._classes for name in _patches._classes[base]}
    ignored = sorted(name for name in own & known if not name.startswith("_"))
    if ignored:
        hint = _hint(next(base for base in type(target).__mro__ if base in _patches._classes).__module__)
        raise NotImplementedError(f"`{ignored[0]}` of {what} was replaced, but the engine would ignore that: {hint}")


def _acts(change: _patches.Change, entry: str, model: type | None) -> bool:
    """Whether an evaluation honours a change."""
    module, owner, name = change
    inside = module.removeprefix(f"{_patches._PACKAGE}.")
    if owner is None:
        return _function_acts(change, inside, entry)
    if _patches.is_kind(owner, "api.model", "LM"):
        # A change matters to the objects of the class, which run in Python then.
        is_evaluated = entry == "command" if model is None else owner in model.__mro__
        return not is_evaluated or name not in _patches.uncalled(owner)
    if _patches.is_kind(owner, "api.task._documents", "Documents", "config.task", "TaskConfig", "FewshotConfig"):
        return entry != "command" and (not name.startswith("_") or name.startswith("__"))
    if _patches.is_kind(owner, "tasks.manager", "TaskManager"):
        return entry != "command" and name not in _patches.uncalled(owner)
    if _patches.is_kind(owner, "api.filter", "Filter", "api.samplers", "ContextSampler", "scorers", "Scorer"):
        # A changed one is called in Python where a task names it; the scorers of output types have no names.
        return inside != "scorers._base"
    return _is_within(inside, (*_CALLED_BY_SCRIPTS, "models")) or owner.__name__ in ("CachingLM", "Registry")


def _function_acts(change: _patches.Change, inside: str, entry: str) -> bool:
    if inside == "evaluator" and change.name in ("evaluate", "simple_evaluate"):
        return change.name == entry or entry in ("evaluate", "steps")
    if inside == "utils" and change.name in _OF_ENGINE:
        return False
    if _is_within(inside, _CALLED_BY_SCRIPTS) or inside == "api.registry" and change.name == "get_model":
        return True
    return (inside == "evaluator" or _is_within(inside, ("models",))) and _is_read(change)


def _is_within(inside: str, modules: tuple[str, ...]) -> bool:
    return any(inside == module or inside.startswith(f"{module}.") for module in modules)


def _is_read(change: _patches.Change) -> bool:
    """Whether code of the module looks the name up when it runs."""
    module = sys.modules[change.module]
    codes: list[Any] = []
    for value in [*_patches._modules[change.module].values(), *vars(module).values()]:
        inner = vars(value).values() if isinstance(value, type) and value in _patches._classes else [value]
        for item in inner:
            item = getattr(item, "fget", None) or getattr(item, "func", None) or getattr(item, "__func__", item)
            if getattr(item, "__module__", None) == change.module:
                codes.append(getattr(item, "__code__", None))
    while codes:
        code = codes.pop()
        if code is not None:
            if change.name in code.co_names:
                return True
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return False


def _message(change: _patches.Change, entry: str) -> str:
    is_of_tasks = change.owner is not None and not _patches.is_kind(change.owner, "api.model", "LM")
    if entry == "command" and (is_of_tasks or change.module == _patches._PACKAGE):
        return (
            f"`{change}` was changed, but a command line runs in the engine and would ignore that: evaluate with "
            "`lm_eval.simple_evaluate`"
        )
    return f"`{change}` was changed, but the engine would ignore that: {_hint(change.module)}"


def _hint(module: str) -> str:
    inside = module.removeprefix(f"{_patches._PACKAGE}.")
    found = [part for part in _INSTEAD if _is_within(inside, (part,))]
    return _INSTEAD[max(found, key=len)] if found else "undo the change before the evaluation"
