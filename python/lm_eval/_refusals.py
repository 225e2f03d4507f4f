"""What an evaluation does with the changes of scripts: it honours them, or it is refused before any work."""

from __future__ import annotations

import sys
import types
from typing import Any

from lm_eval import _patches

_UNUSED = {
    "__main__": (),
    "_cli": (),
    "config.evaluate_config": (),
    "decontamination": (),
    "evaluator_utils": ("TaskOutput", "_tasks", "consolidate_results", "get_task_list"),
    "judge": (),
    "loggers": (),
    "loggers.utils": ("remove_none_pattern", "_ResultsLogger", "_artifact_name", "_cell", "_flat", "_rows", "_sample_table"),
    "ray": (),
    "result_schema": (),
    "tasks": ("TaskDict", "TaskManager", "get_task_dict", "get_task_name_from_config", "get_task_name_from_object"),
    "tasks.manager": ("TaskDict", "TaskManager"),
    "utils": (
        "EnhancedJSONEncoder",
        "Reorderer",
        "convert_bytes_to_hash",
        "convert_pil_to_hash",
        "escaped_split",
        "general_detokenize",
        "get_file_datetime",
        "get_file_task_name",
        "get_latest_filename",
        "get_results_filenames",
        "get_sample_results_filenames",
        "group",
        "handle_non_serializable",
        "hash_dict_images",
        "info_once",
        "join_iters",
        "make_table",
        "maybe_warn",
        "pattern_match",
        "positional_deprecated",
        "random_name_id",
        "sanitize_list",
        "sanitize_model_name",
        "sanitize_task_name",
        "setup_logging",
        "warning_once",
        "weighted_f1_score",
        "wrap_text",
    ),
}
"""What `evaluate` and `simple_evaluate` call neither here nor in 0.4.13, by module: all names, or these. Scripts call it."""

_CALLED = {
    "api.registry": ("get_model",),
    "utils": ("handle_arg_string", "simple_parse_args_string"),
}
"""Functions that `evaluate` and `simple_evaluate` look up in their modules while they run."""

_OF_COMMAND = {
    "__main__": ("cli_evaluate", "main", "parse_eval_args", "setup_parser"),
    "_cli": ("HarnessCLI",),
    "_cli.harness": ("HarnessCLI",),
    "api.registry": ("get_model",),
    "judge": ("ask_judge",),
}
"""The same for a command line: its own functions, and what makes models and scores."""

_OF_TASKS = (
    "aggregation",
    "build_qa_turn",
    "config",
    "construct_requests",
    "dataset",
    "doc_to_audio",
    "doc_to_choice",
    "doc_to_image",
    "doc_to_prefix",
    "doc_to_target",
    "doc_to_text",
    "download",
    "eval_docs",
    "fewshot_context",
    "fewshot_docs",
    "fewshot_examples",
    "has_test_docs",
    "has_training_docs",
    "has_validation_docs",
    "higher_is_better",
    "multiple_input_context",
    "process_results",
    "sampler",
    "set_config",
    "set_fewshot_seed",
    "test_docs",
    "to_dict",
    "training_docs",
    "validation_docs",
)
"""Methods of tasks and their configuration that an evaluation calls in Python once a script has replaced them."""

_OF_SCRIPTS = (
    "doc_to_decontamination_query",
    "features",
    "fewshot_cfg",
    "get",
    "get_config",
    "get_docs",
    "is_multimodal",
    "set_num_fewshot",
    "set_repeats",
    "should_decontaminate",
    "task_docs",
)
"""Methods of tasks that no evaluation calls, here or in 0.4.13."""

_STEPS = (
    "aggregate",
    "apply_filters",
    "build_all_requests",
    "dump_config",
    "instances",
    "override_metric",
    "process_instances",
    "scorers",
    "task_name",
)
"""Methods of tasks that scripts call that run the steps of an evaluation themselves."""

_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")
"""The instructions that look up a name of a module."""

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

INSTEAD_OF_METHODS = (
    "set `filter_list` and `metric_list` of `task.config`, or override `test_docs`, `doc_to_text`, `process_results` or "
    "`aggregation` in a subclass, and pass an object of it in `tasks`"
)
"""What to do instead of replacing a method of tasks that the engine does not call."""


def has_own_tasks(manager: Any = None) -> bool:
    """Whether scripts have changed how a manager loads tasks or what tasks do, so that their objects must be made here."""
    from lm_eval.api.task._documents import Documents
    from lm_eval.config.task import FewshotConfig, TaskConfig

    if manager is not None and "load" in {*vars(manager), *_patches.overridden(type(manager))}:
        return True
    return _patches.replaced_loader() is not None or any(
        issubclass(cls, (Documents, TaskConfig, FewshotConfig)) and _patches._differences(cls)
        for cls in list(_patches._classes)
    )


def refuse(entry: str, model: type | str | None = None) -> None:
    """Raise if a script has changed something that the evaluation would ignore.

    `entry` is `simple_evaluate`, `evaluate`, `command` or `steps`; `model` is the class of the evaluated model, or
    its name.
    """
    found = _patches.changes()
    kind = _class_named(model) if isinstance(model, str) and found else model
    for change in found:
        if not _acts(change, entry, kind if isinstance(kind, type) else None):
            raise NotImplementedError(_message(change, entry))
    own = vars(sys.modules[_patches._PACKAGE])
    for name in ("TaskManager", "simple_evaluate"):
        # The package defines these on access; only a script stores them.
        if entry == "command" and name in own:
            raise NotImplementedError(_message(_patches.Change(_patches._PACKAGE, None, name), entry))
    if entry == "command" and _patches.replaced_loader() is not None:
        raise NotImplementedError(_message(_patches.Change("datasets", None, "load_dataset"), entry))


def _class_named(name: str) -> type | None:
    """Return the class of a model; `None` if the package has no class for the name."""
    from lm_eval.api import registry

    try:
        found = registry.model_registry.get(name, None)
    except ImportError:
        return None
    return found if isinstance(found, type) else None


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
    """Whether an evaluation honours a change; what is not known to act does not."""
    module, owner, name = change
    inside = module.removeprefix(f"{_patches._PACKAGE}.")
    if _is_within(inside, ("models",)) or owner is not None and _patches.is_kind(owner, "api.model", "LM"):
        return _acts_on_model(change, entry, model)
    if owner is None:
        return _function_acts(change, inside, entry)
    if _patches.is_kind(owner, "api.task._documents", "Documents", "config.task", "TaskConfig", "FewshotConfig"):
        return entry != "command" and _task_acts(owner, name, entry)
    if _patches.is_kind(owner, "tasks.manager", "TaskManager"):
        is_private = name.startswith("_") and not name.startswith("__")
        return entry != "command" and not is_private and name not in _patches.uncalled(owner)
    if _patches.is_kind(owner, "api.filter", "Filter", "api.samplers", "ContextSampler", "scorers", "Scorer"):
        # A changed one is called in Python where a task names it; the scorers of output types have no names.
        return inside != "scorers._base"
    if _patches.is_kind(owner, "api.registry", "Registry"):
        return name in ("register", "__setitem__")
    if _patches.is_kind(owner, "api.model", "CachingLM"):
        # The script makes the object, and the evaluation takes the model out of it.
        return entry in ("evaluate", "simple_evaluate") and name == "__init__"
    return _is_listed(inside, owner.__name__, _OF_COMMAND if entry == "command" else _UNUSED)


def _task_acts(owner: type, name: str, entry: str) -> bool:
    """Whether a change of a task class or of a configuration class acts where tasks are made in this process."""
    bases = (_patches._classes[base] for base in owner.__mro__ if base in _patches._classes)
    value = next((known[name] for known in bases if name in known), None)
    is_data = not callable(value) and not isinstance(value, _patches._CODE) and not name.startswith("_")
    known = (*_OF_TASKS, *_OF_SCRIPTS, *(_STEPS if entry == "steps" else ()))
    return name in known or name.startswith("__") or is_data and name not in _patches.uncalled(owner)


def _acts_on_model(change: _patches.Change, entry: str, model: type | None) -> bool:
    """Whether a change that concerns some models acts on the evaluated one, which runs in Python then."""
    module, owner, name = change
    if owner is not None and _patches.is_kind(owner, "api.model", "LM"):
        is_evaluated = entry in ("command", "simple_evaluate") if model is None else owner in model.__mro__
        return not is_evaluated or name not in _patches.uncalled(owner)
    if model is not None:
        modules = _patches.modules_of_model(model)
    else:
        modules = {one for one in _patches._modules if one.startswith(f"{_patches._PACKAGE}.models.")}
    if module not in modules:
        return True
    if owner is None:
        return _is_read(name, {module})
    if name in _patches.uncalled(owner):
        return False
    return _is_read(owner.__name__, modules) if name.startswith("__") else _is_read(name, modules, of_object=True)


def _function_acts(change: _patches.Change, inside: str, entry: str) -> bool:
    if inside == "evaluator" and change.name in ("evaluate", "simple_evaluate"):
        return change.name == entry or entry in ("evaluate", "steps")
    if entry == "command":
        return _is_listed(inside, change.name, _OF_COMMAND)
    if inside == "evaluator":
        return _is_read(change.name, {change.module})
    return _is_listed(inside, change.name, _UNUSED) or _is_listed(inside, change.name, _CALLED)


def _is_listed(inside: str, name: str, table: dict[str, tuple[str, ...]]) -> bool:
    """Whether a table has a name of a module, in the entry of the module itself or else of the package around it."""
    found = [module for module in table if _is_within(inside, (module,))]
    if not found:
        return False
    names = table[max(found, key=len)]
    return name in names if names else True


def _is_within(inside: str, modules: tuple[str, ...]) -> bool:
    return any(inside == module or inside.startswith(f"{module}.") for module in modules)


def _is_read(name: str, modules: set[str], of_object: bool = False) -> bool:
    """Whether code of these modules looks up a global name, or an attribute of objects, when it runs.

    Methods that nothing calls do not count.
    """
    import dis

    codes: list[Any] = []
    for module in modules:
        there = getattr(sys.modules.get(module), "__dict__", {})
        for value in [*_patches._modules.get(module, {}).values(), *there.values()]:
            if isinstance(value, type) and value in _patches._classes:
                dead = _patches.uncalled(value)
                inner = [item for key, item in _patches._classes[value].items() if key not in dead]
            else:
                inner = [value]
            for item in inner:
                item = getattr(item, "fget", None) or getattr(item, "func", None) or getattr(item, "__func__", item)
                if getattr(item, "__module__", None) == module:
                    codes.append(getattr(item, "__code__", None))
    while codes:
        code = codes.pop()
        if code is not None:
            reads = dis.get_instructions(code) if name in code.co_names else ()
            if any(one.argval == name and (one.opname in _GLOBAL) != of_object for one in reads):
                return True
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return False


def _message(change: _patches.Change, entry: str) -> str:
    is_of_model = change.owner is not None and _patches.is_kind(change.owner, "api.model", "LM")
    if entry == "command" and not is_of_model and not _is_refused_everywhere(change):
        return (
            f"`{change}` was changed, but a command line runs in the engine and would ignore that: evaluate with "
            "`lm_eval.simple_evaluate`"
        )
    hint = _hint(change.module)
    if change.owner is not None and _patches.is_kind(change.owner, "api.task._documents", "Documents"):
        hint = INSTEAD_OF_METHODS if change.name in _patches.uncalled(change.owner) else hint
    return f"`{change}` was changed, but the engine would ignore that: {hint}"


def _is_refused_everywhere(change: _patches.Change) -> bool:
    return change.module.startswith(f"{_patches._PACKAGE}.") and not _acts(change, "simple_evaluate", None)


def _hint(module: str) -> str:
    inside = module.removeprefix(f"{_patches._PACKAGE}.")
    found = [part for part in _INSTEAD if _is_within(inside, (part,))]
    return _INSTEAD[max(found, key=len)] if found else "undo the change before the evaluation"
