"""Evaluates a model on tasks, with the engine."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import random
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lm_eval import _class_tasks, _distributed, _engine, _patches, _refusals, utils
from lm_eval._live import Live
from lm_eval._protocol import Unsendable, to_wire
from lm_eval.api.group import Group
from lm_eval.api.model import LM, CachingLM, is_plain
from lm_eval.api.task import Task
from lm_eval.evaluator_utils import get_task_list
from lm_eval.tasks import _loaded
from lm_eval.tasks.manager import TaskManager
from lm_eval.utils import simple_parse_args_string

if TYPE_CHECKING:
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks.manager import TaskDict

__all__ = ["evaluate", "get_task_list", "simple_evaluate"]

logger = logging.getLogger(__name__)

_OF_EVALUATION = (
    "results",
    "groups",
    "group_subtasks",
    "configs",
    "versions",
    "n-shot",
    "higher_is_better",
    "n-samples",
    "samples",
    "audit",
    "bounds",
    "compat",
    "failed_requests",
    "judges",
    "judging",
)
"""The keys of the results that are about scores rather than about the run."""

_QUIET = ("WARNING", "WARN", "ERROR", "CRITICAL", "FATAL")


def simple_evaluate(
    model: str | LM | CachingLM,
    model_args: str | Mapping[str, Any] | None = None,
    tasks: str | list[str | dict[str, Any] | Task] | None = None,
    num_fewshot: int | None = None,
    repeats: int | None = None,
    batch_size: int | str | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
    use_cache: str | None = None,
    cache_requests: bool = False,
    rewrite_requests_cache: bool = False,
    delete_requests_cache: bool = False,
    limit: float | None = None,
    samples: Mapping[str, list[int]] | str | None = None,
    bootstrap_iters: int | None = 100_000,
    check_integrity: bool = False,
    write_out: bool = False,
    log_samples: bool = True,
    evaluation_tracker: EvaluationTracker | None = None,
    system_instruction: str | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool = True,
    gen_kwargs: str | Mapping[str, Any] | None = None,
    task_manager: TaskManager | None = None,
    verbosity: str | None = None,
    predict_only: bool = False,
    random_seed: int | None = 0,
    numpy_random_seed: int | None = 1234,
    torch_random_seed: int | None = 1234,
    fewshot_random_seed: int | None = 1234,
    confirm_run_unsafe_code: bool = False,
    metadata: Mapping[str, Any] | None = None,
    *,
    compat: str | None = None,
    choices: str | None = None,
    max_failures: int | None = 0,
    judges: Mapping[str, str | Mapping[str, Any] | LM] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    prices: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Evaluate a model on tasks and return the results.

    `model` is an object, the name of a backend, or the name of a model that this process registered. `tasks` are
    names, inline definitions (whose fields may be functions) and task objects. `compat="0.4"` follows the rules of
    the 0.4 line. `choices` is `"letters"` or `"generate"`: how multiple-choice options are compared by a model that
    cannot score them. If more than `max_failures` requests fail, the evaluation fails; `None` allows any number of
    failures, and the affected documents are excluded from the scores. The requests cache has no effect: building
    prompts is faster than reading them. `judges` binds roles to models that grade answers: an `LM` object, a string
    such as `"local-chat-completions,model=NAME,base_url=URL"`, or a mapping with `backend` and its arguments;
    `baseline` is a stored run that pairwise judges compare with, `prices` a file with the prices of tokens. If several processes share the model, the first one evaluates and the others
    return `None`.
    """
    if limit is not None and samples is not None:
        raise ValueError("`limit` and `samples` cannot be combined")
    specs = [tasks] if isinstance(tasks, (str, Mapping, Task)) else tasks
    if not specs:
        raise ValueError("No tasks to evaluate; set `tasks`")
    if not isinstance(specs, list):
        raise TypeError(f"`tasks` must be a list, not a value of type `{type(specs).__name__}`")
    if not isinstance(model, (str, LM, CachingLM)):
        raise TypeError(f"`model` must be a name or an `LM` object, not a value of type `{type(model).__name__}`")
    _refusals.refuse("simple_evaluate", model if isinstance(model, str) else _class_of(model))
    if _refusals.has_own_tasks():
        # A script's own code may shuffle documents, and then draws from the generators.
        with contextlib.suppress(ImportError):
            importlib.import_module("numpy")
    _seed(random_seed, numpy_random_seed, torch_random_seed)
    # Reference: models read the string with the function of `utils`, everything else with the name of this module.
    arguments = utils.simple_parse_args_string(model_args) if isinstance(model_args, str) else dict(model_args or {})
    # Reference: missing arguments are an empty string for a name, and nothing for an object.
    given = "" if model_args is None and isinstance(model, str) else model_args
    if not apply_chat_template and _looks_like_chat(arguments):
        logger.warning(
            "The model arguments look like those of a chat model, but `apply_chat_template` is off: "
            "prompts are plain strings"
        )
    if gen_kwargs:
        logger.warning("`gen_kwargs` overrides generation settings of the tasks: %s", _parsed(gen_kwargs))
    settings = {
        "model": model if isinstance(model, str) else _class_name(model),
        "model_args": _serializable(arguments) if isinstance(model, str) else {},
        "num_fewshot": num_fewshot,
        "repeats": repeats,
        "batch_size": batch_size,
        "max_batch_size": max_batch_size,
        "device": device,
        "use_cache": use_cache,
        "limit": limit,
        "samples": samples,
        "bootstrap_iters": bootstrap_iters,
        "check_integrity": check_integrity,
        "write_out": write_out,
        "log_samples": log_samples,
        "system_instruction": system_instruction,
        "apply_chat_template": apply_chat_template,
        "fewshot_as_multiturn": fewshot_as_multiturn,
        "gen_kwargs": _parsed(gen_kwargs),
        "predict_only": predict_only,
        "seed": [random_seed, numpy_random_seed, torch_random_seed, fewshot_random_seed],
        "confirm_run_unsafe_code": confirm_run_unsafe_code,
        "compat": compat,
        "choices": choices,
        "max_failures": max_failures,
        "quiet": _is_quiet(verbosity),
        "verbosity": _log_level(verbosity),
        "judge": {role: judge for role, judge in (judges or {}).items() if not isinstance(judge, LM)} or None,
        "baseline": None if baseline is None else os.fspath(baseline),
        "prices": None if prices is None else os.fspath(prices),
    }
    live_judges = {role: judge for role, judge in (judges or {}).items() if isinstance(judge, LM)}
    shown = {
        "model": _name(model),
        "model_source": model if isinstance(model, str) else "CUSTOM",
        "model_args": _serializable(given) if isinstance(given, Mapping) else given,
        "device": device,
        "batch_size": batch_size,
        "gen_kwargs": None if gen_kwargs is None else _parsed(gen_kwargs),
        "bootstrap_iters": bootstrap_iters,
    }
    lm = _model(
        model, arguments, given, {"batch_size": batch_size, "max_batch_size": max_batch_size, "device": device}
    )
    if lm is None and evaluation_tracker is not None:
        # Answers of an object are cached only on request: only the caller can tell it from another one.
        settings["output_path"] = getattr(evaluation_tracker, "output_path", None)
    manager = task_manager or TaskManager(metadata={**_serializable(arguments), **(metadata or {})})
    _refusals.refuse_overrides(type(manager), "an evaluation")
    live = Live()
    # Plain arguments identify the model, whatever its attributes become.
    live.needs_identity = use_cache is not None and not (isinstance(model, str) and is_plain(arguments))
    message = _loaded.Message(live)
    if _refusals.has_own_tasks(manager):
        _flattened(manager.load(specs), message)
    else:
        for spec in specs:
            message.add(spec)
    try:
        answer = _run(live, settings, shown, lm, manager, message, live_judges)
    except _distributed.Finished:
        return None  # type: ignore[return-value]
    if evaluation_tracker is not None:
        evaluation_tracker.general_config_tracker.log_experiment_args(
            model_source=answer["tracked"]["model_source"],
            model_args=given,
            system_instruction=system_instruction,
            chat_template=answer["tracked"]["chat_template"],
            fewshot_as_multiturn=fewshot_as_multiturn,
        )
        tracker = evaluation_tracker.general_config_tracker
        tracker.model_name = answer["tracked"]["model_name"]
        tracker.model_name_sanitized = answer["tracked"]["model_name_sanitized"]
    results: dict[str, Any] = answer["results"]
    return results


def evaluate(
    lm: LM | CachingLM,
    task_dict: TaskDict | Mapping[Any, Any],
    limit: float | None = None,
    samples: Mapping[str, list[int]] | None = None,
    cache_requests: bool = False,
    rewrite_requests_cache: bool = False,
    bootstrap_iters: int | None = 100_000,
    write_out: bool = False,
    log_samples: bool = True,
    system_instruction: str | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool = False,
    verbosity: str = "INFO",
    confirm_run_unsafe_code: bool = False,
    *,
    compat: str | None = None,
    max_failures: int | None = 0,
) -> dict[str, Any]:
    """Evaluate a model object on loaded tasks and return the scores.

    `task_dict` is the return value of `TaskManager.load`, or nested dictionaries with groups as keys.
    """
    if limit is not None and samples is not None:
        raise ValueError("`limit` and `samples` cannot be combined")
    if not isinstance(lm, (LM, CachingLM)):
        raise TypeError(f"`lm` must be an `LM` object, not a value of type `{type(lm).__name__}`")
    _refusals.refuse("evaluate", _class_of(lm))
    live = Live()
    live.needs_identity = False
    message = _loaded.Message(live)
    tasks, short = _flattened(task_dict, message)
    if not tasks:
        raise ValueError("No tasks to evaluate")
    settings = {
        "model": _class_name(lm),
        "limit": limit,
        "samples": samples and {long: samples[name] for long, name in _all_names(short, samples)},
        "bootstrap_iters": bootstrap_iters,
        "write_out": write_out,
        "log_samples": log_samples,
        "system_instruction": system_instruction,
        "apply_chat_template": apply_chat_template,
        "fewshot_as_multiturn": fewshot_as_multiturn,
        "seed": [None, None, None, _fewshot_seed(tasks)],
        "confirm_run_unsafe_code": confirm_run_unsafe_code,
        "compat": compat,
        "max_failures": max_failures,
        "quiet": _is_quiet(verbosity),
        "verbosity": _log_level(verbosity),
    }
    seeds = [task._fewshot_seed for task in tasks]
    try:
        answer = _run(live, settings, {"model_args": None}, lm, TaskManager(), message)
    except _distributed.Finished:
        return None  # type: ignore[return-value]
    finally:
        for task, seed in zip(tasks, seeds, strict=True):
            if task._fewshot_seed != seed:
                task.set_fewshot_seed(seed)
    results = {name: answer["results"][name] for name in _OF_EVALUATION if name in answer["results"]}
    return _renamed(results, short) if short else results


def _fewshot_seed(tasks: list[Task]) -> int | None:
    """Return the seed shared by all tasks that have examples or their own `fewshot_context`."""
    own = {*_class_tasks.CONTEXT_HOOKS}
    drawing = [task for task in tasks if task.get_config("num_fewshot") or own & {*task._hooks()}] or tasks
    first = drawing[0]
    for task in drawing:
        if task._fewshot_seed != first._fewshot_seed:
            raise ValueError(
                f"The few-shot seeds differ: `{first.task_name}` has {first._fewshot_seed} and "
                f"`{task.task_name}` has {task._fewshot_seed}; give all tasks the same with `set_fewshot_seed`, or "
                "evaluate them one by one"
            )
    return first._fewshot_seed


def _run(
    live: Live,
    settings: dict[str, Any],
    shown: dict[str, Any],
    lm: LM | CachingLM | None,
    manager: TaskManager,
    message: _loaded.Message,
    judges: Mapping[str, LM] | None = None,
) -> Any:
    """Run the evaluation in the engine."""
    from lm_eval.api import registry

    if lm is not None:
        _refusals.refuse_overrides(_class_of(lm), "an evaluation")
    if lm is not None and _distributed.size_of(lm) > 1:
        # Processes that cannot share requests must fail before any work is done.
        _distributed.Group(lm)

    registered = [f"{kind}/{name}" for kind, names in registry._dump().items() for name in names]
    answer = _engine.call(
        "evaluate",
        live,
        settings={**settings, "python": sys.executable},
        shown=shown,
        live_model=None if lm is None else live.refer(lm),
        live_judges={role: live.refer(judge) for role, judge in (judges or {}).items()},
        registered=registered,
        manager=manager._settings(),
        **message.parts(),
    )
    answer["results"]["configs"] = live.shown(answer["results"]["configs"])
    for records in answer["results"].get("samples", {}).values():
        for record in records:
            record["arguments"] = [tuple(arguments) for arguments in record["arguments"]]
    return answer


def _flattened(task_dict: Mapping[Any, Any], message: _loaded.Message) -> tuple[list[Task], dict[str, str]]:
    """Register loaded tasks and groups with the engine; return the tasks, and the short names of some."""
    short: dict[str, str] = {}
    found: list[Task] = []
    message.groups = []
    if isinstance(task_dict.get("tasks"), Mapping):
        for name, task in task_dict["tasks"].items():
            message.add(task, key=name)
            found.append(task)
        members = task_dict.get("group_map") or {}
        for name, group in (task_dict.get("groups") or {}).items():
            message.add_group(group, members.get(name, group.child_names))
        return found, short

    used: dict[str, Task] = {}

    def walk(nested: Mapping[Any, Any]) -> list[str]:
        names = []
        for key, value in nested.items():
            if isinstance(value, Mapping):
                if not isinstance(key, Group):
                    raise TypeError(f"The keys of a task dictionary must be groups, not {key!r}")
                index = len(message.groups or [])
                children = walk(value)
                message.add_group(key, children, index)
                names.append(key.name)
            elif isinstance(value, Task):
                name = _unique(_loaded.key_of(value), _loaded.qualified_name(value), key, used)
                used[name] = value
                message.add(value, key=name)
                found.append(value)
                names.append(name)
                # Reference: members of nested dictionaries keep the names they have there.
                if isinstance(key, str) and key != name and key not in short.values():
                    short[name] = key
            elif isinstance(value, tuple) and len(value) == 2:
                # Older dictionaries list the group next to each of its tasks.
                names += walk({key: value[1]})
            else:
                raise TypeError(
                    f"A task dictionary must contain `Task` objects, not a value of type `{type(value).__name__}`"
                )
        return names

    walk(task_dict)
    return found, short


def _unique(loaded: str, present: str, key: Any, used: Mapping[str, Task]) -> str:
    """Return a name for a task that no other one has: scripts rename objects, and load one name several times."""
    for name in (loaded if loaded == present else present, key):
        if isinstance(name, str) and name not in used:
            return name
    return f"{loaded} ({len(used)})"


def _all_names(short: dict[str, str], samples: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Map the engine's names of tasks with selected documents to the caller's."""
    long = {name: qualified for qualified, name in short.items()}
    return [(long.get(name, name), name) for name in samples]


def _renamed(results: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return the results with tasks renamed."""

    def rename(value: Any) -> Any:
        return names.get(value, value) if isinstance(value, str) else value

    renamed = {
        part: {rename(name): entry for name, entry in entries.items()}
        if isinstance(entries, dict)
        else entries
        for part, entries in results.items()
    }
    for entry in renamed["results"].values():
        entry["name"] = rename(entry["name"])
    for part in ("configs", "versions", "n-shot", "higher_is_better"):
        renamed[part] = dict(sorted(renamed[part].items()))
    subtasks = renamed["group_subtasks"].items()
    renamed["group_subtasks"] = {group: [rename(member) for member in members] for group, members in subtasks}
    return renamed


def _model(
    model: str | LM | CachingLM,
    arguments: dict[str, Any],
    given_arguments: str | Mapping[str, Any] | None,
    additional: dict[str, Any],
) -> LM | CachingLM | None:
    """Return the model if it is in this process: an object, or an instance of a class registered here."""
    if not isinstance(model, str):
        return model
    from lm_eval.api import registry

    is_own = model in registry._dump().get("model", {}) or _distributed.is_shared(model)
    if not is_own and not _patches.has_changed("lm_eval.api.registry", "get_model"):
        return None
    given = {name: value for name, value in additional.items() if value is not None}
    twice = sorted(given.keys() & arguments.keys())
    if twice:
        raise TypeError(f"`{twice[0]}` is given both as an argument and in `model_args`")
    kind = registry.get_model(model)
    made: LM
    if isinstance(given_arguments, str) and "create_from_arg_string" in _patches.overridden(kind):
        made = kind.create_from_arg_string(given_arguments, given)
    else:
        made = kind.create_from_arg_obj(arguments, given)
    return made


def _name(model: str | LM | CachingLM) -> str:
    """Return the name of the model shown in results."""
    if isinstance(model, str):
        return model
    name = getattr(getattr(model, "config", None), "_name_or_path", None)
    return name if isinstance(name, str) else _class_name(model)


def _class_name(lm: LM | CachingLM) -> str:
    """Return the class name of a model, ignoring a cache around it."""
    return _class_of(lm).__name__


def _class_of(lm: LM | CachingLM) -> type:
    while isinstance(lm, CachingLM):
        lm = lm.lm
    return type(lm)


def _looks_like_chat(arguments: Mapping[str, Any]) -> bool:
    """Reference: any argument that contains one of these words."""
    values = [str(value).lower() for value in arguments.values()]
    return any(word in text for text in values for word in ("inst", "chat"))


def _serializable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return model arguments as the engine takes them; other objects as strings."""
    converted = {}
    for name, value in arguments.items():
        try:
            to_wire(value)
            converted[name] = value
        except Unsendable:
            converted[name] = repr(value)
    return converted


def _parsed(given: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return arguments as a dictionary."""
    return simple_parse_args_string(given) if isinstance(given, str) else dict(given or {})


def _seed(python: int | None, numpy: int | None, torch: int | None) -> None:
    """Seed the generators of this process that are in use."""
    if python is not None:
        random.seed(python)
    if numpy is not None and "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(numpy)
    if torch is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(torch)


def _is_quiet(verbosity: str | None) -> bool:
    return str(verbosity or os.environ.get("LMEVAL_LOG_LEVEL", "")).upper() in _QUIET


def _log_level(verbosity: str | None) -> str | None:
    """`DEBUG` if the engine is to print its log of every request."""
    return "DEBUG" if str(verbosity or "").upper() == "DEBUG" else None
