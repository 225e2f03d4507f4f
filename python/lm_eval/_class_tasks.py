"""Worker operations for tasks and samplers that are classes, and their requests to the engine.

The reference `class:NUMBER:MODULE.CLASS` names a task object, `class:NUMBER:MODULE.CLASS/PATH` a part of it: a
method, an aggregation, or a function in its configuration. The engine assigns the number, which identifies the class
and its constructor arguments; each worker makes its own object when it first needs one.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import random
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lm_eval import _calls, _dataset, _host, _models
from lm_eval._protocol import Reference, to_wire

if TYPE_CHECKING:
    from lm_eval._worker import Worker
    from lm_eval.api.task import Task

logger = logging.getLogger(__name__)

SCHEME = "class"
"""The scheme of references to task objects."""

WRAPPED = "__doc__"
"""The only column of a document that is not a dictionary."""

_DOCUMENT_HOOKS = (
    "dataset",
    "download",
    "eval_docs",
    "has_test_docs",
    "has_training_docs",
    "has_validation_docs",
    "test_docs",
    "training_docs",
    "validation_docs",
)

_FIELD_HOOKS = {
    "doc_to_text": "doc_to_text",
    "doc_to_target": "doc_to_target",
    "doc_to_choice": "doc_to_choice",
    "doc_to_image": "doc_to_image",
    "doc_to_audio": "doc_to_audio",
    "doc_to_prefix": "gen_prefix",
}
"""The methods that replace fields of the configuration."""


_STEPS = ("aggregate", "apply_filters", "build_all_requests", "process_instances", "scorers")
"""Methods for scripts that run the steps of an evaluation themselves."""

CONTEXT_HOOKS = ("build_qa_turn", "fewshot_context", "fewshot_examples", "multiple_input_context", "sampler")
"""The methods that take part in making a prompt."""


class Objects:
    """The task objects that this worker has made."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._tasks: dict[str, Task] = {}
        self._configs: dict[str, dict[str, Any]] = {}
        self._before: list[tuple[Task, dict[str, Any]]] = []
        self._lock = threading.Lock()
        worker.loader.schemes[SCHEME] = self.find
        _host.set_dataset_loader(self._load_dataset)
        _host.set_template_renderer(self._render)
        _host.set_judge(self._judge)
        _host.set_aggregator(self._aggregate)

    def query(self, kind: str, **question: Any) -> Any:
        """Send a query to the engine while it waits for the answer to a message."""
        if os.getpid() != self._worker._process:
            raise _host.EngineError("a forked process cannot call the engine")
        with self._lock:
            self._worker.channel.write({"ask": to_wire({"kind": kind, **question})})
            reply = self._worker.channel.read()
        if reply is None:
            raise SystemExit("the engine has ended")
        if "error" in reply:
            raise _host.EngineError(reply["error"])
        return reply["ok"]

    def release(self) -> None:
        """Give the tasks the settings that they had before the run."""
        while self._before:
            task, settings = self._before.pop()
            task._is_compat_04 = settings.pop("compat")
            for name, value in settings.items():
                task.set_config(name, value)

    def find(self, directory: str, rest: str) -> Any:
        """Return the object of a reference."""
        number, _, path = rest.partition(":")
        _, *steps = path.split("/")
        task = self._task(directory, number)
        return task if not steps else _part(task, [unquote(step) for step in steps])

    def config(self, number: str) -> dict[str, Any]:
        """Return a task's configuration as its class defines it, before the caller of the run changes it."""
        return self._configs[number]

    def _task(self, directory: str, number: str) -> Task:
        task = self._tasks.get(number)
        if task is None:
            definition = self.query("class", number=int(number))
            self._worker.loader.enter(directory)
            _calls._seed_all()
            task = _construct(definition["class"], definition["config"])
            self._configs[number] = _config(task)
            self._before.append((task, _settings(task)))
            _configure(task, definition["settings"])
            self._tasks[number] = task
        return task

    def _load_dataset(self, path: str | None, name: str | None = None, **options: Any) -> Any:
        split = options.pop("split", None)
        question = {"path": path, "name": name, "split": split, "folder": self._worker.loader._folder or None}
        answer = self.query("dataset", kwargs=options, **question)
        number = answer["number"]

        def load(name: str) -> dict[str, Any]:
            loaded: dict[str, Any] = self.query("split", number=number, name=name)
            return loaded

        splits = _dataset.splits(answer["names"], load)
        return splits if split is None else splits[split]

    def _render(self, template: str, doc: dict[str, Any]) -> str:
        text: str = self.query("render", template=template, document=doc)
        return text

    def _judge(self, role: str, prompts: list[str], **question: Any) -> list[str]:
        answers: list[str] = self.query("judge", role=role, prompts=prompts, **question)
        return answers

    def _aggregate(self, **question: Any) -> float:
        if os.getpid() != self._worker._process:
            # A forked process has no connection to the engine.
            return _host.aggregate_elsewhere(**question)
        score: float = self.query("aggregate", **question)
        return score


def objects(worker: Worker) -> Objects:
    """Return the task objects of a worker."""
    held = getattr(worker, "objects", None)
    if held is None:
        held = worker.objects = Objects(worker)  # type: ignore[attr-defined]
    return held


# Task objects


def _construct(made: Any, config: dict[str, Any]) -> Task:
    from lm_eval.api.task import Task

    if not isinstance(made, type) or not issubclass(made, Task):
        name = getattr(made, "__name__", repr(made))
        raise TypeError(f"`{name}` is not a subclass of `lm_eval.api.task.Task`; a task class must be one")
    takes_config = "config" in inspect.signature(made).parameters
    task: Task = made(config=config) if takes_config else made()
    if not hasattr(task, "_config"):
        raise TypeError(f"`{made.__name__}` does not call the constructor of `lm_eval.api.task.Task`")
    if config.get("task") is not None:
        task._config.task = config["task"]
    return task


def _configure(task: Task, settings: dict[str, Any]) -> None:
    """Apply the run's settings to the task."""
    task._is_compat_04 = settings.get("compat") == "0.4"
    count = settings.get("num_fewshot")
    if count is not None and task.get_config("num_fewshot") != 0:
        task.set_config("num_fewshot", count)
    if task.get_config("output_type") == "generate_until":
        if settings.get("gen_kwargs"):
            task.set_config("generation_kwargs", settings["gen_kwargs"], update=True)
        if settings.get("repeats") is not None:
            task.set_config("repeats", settings["repeats"])
    task.set_fewshot_seed(settings.get("fewshot_seed"))


def _settings(task: Task) -> dict[str, Any]:
    """Return the settings that `_configure` may change, except the seed, which every run sets."""
    fields = {name: task.get_config(name) for name in ("num_fewshot", "generation_kwargs", "repeats")}
    return {**fields, "compat": task._is_compat_04}


def _config(task: Task) -> dict[str, Any]:
    """Return the configuration fields that the class sets, including those it changes later."""
    now = task._config.to_dict(keep_callable=True)
    given, normal = task._given, task._normal
    changed = {name: value for name, value in now.items() if normal.get(name) != value}
    removed = {name: None for name in normal if name not in now}
    return {**{name: value for name, value in given.items() if name != "task"}, **changed, **removed}


def _part(task: Task, steps: list[str]) -> Any:
    """Return the object at a path."""
    kind, *rest = steps
    if kind == "aggregation":
        return task.aggregation()[rest[0]]
    if kind == "config":
        return _walk(task._config.to_dict(keep_callable=True), rest)
    if kind == "example":
        override = getattr(task._config.fewshot_config, _FIELD_HOOKS[rest[0]])
        return lambda doc: task._example_field(rest[0], unwrapped(doc), override)
    if kind == "eval_docs":
        return lambda: _wrapped(task.eval_docs)
    method = getattr(task, kind)
    if kind == "fewshot_docs":
        return lambda: _wrapped(method())
    return lambda doc, *arguments: method(unwrapped(doc), *arguments)


def _walk(value: Any, steps: list[str]) -> Any:
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def _wrapped(split: Any) -> Any:
    """Return the documents, each as a dictionary."""
    if split is None or hasattr(split, "column_names") or isinstance(split, (str, Mapping)):
        return split
    return [doc if isinstance(doc, Mapping) else {WRAPPED: doc} for doc in split]


def unwrapped(doc: Any) -> Any:
    """Return a document in the form the class uses."""
    return doc[WRAPPED] if isinstance(doc, Mapping) and len(doc) == 1 and WRAPPED in doc else doc


# Operations


def _describe(worker: Worker, task: Any, message: dict[str, Any]) -> Iterator[Any]:
    directory, reference = message["function"]
    hooks = {*task._hooks(), *(name for name in vars(task) if not name.startswith("_"))}

    # A script that runs the steps itself calls them; a run does not.
    unused = sorted(hooks.intersection(_STEPS))
    if unused:
        logger.warning("A run does not call `%s` of the class `%s`", "`, `".join(unused), type(task).__name__)
    task._refuse_ignored(besides=_STEPS)

    def part(*steps: str) -> Reference:
        return Reference(directory, "/".join([reference, *(quote(step, safe="") for step in steps)]))

    own_documents = any(hook in hooks for hook in _DOCUMENT_HOOKS) or task._dataset is not None
    described = {
        "object": Reference(directory, reference),
        "config": _referenced(worker, objects(worker).config(reference.split(":")[1]), ["config"], part),
        "fields": {field: part(hook) for hook, field in _FIELD_HOOKS.items() if hook in hooks},
        "example_fields": {
            field: part("example", hook)
            for hook, field in _FIELD_HOOKS.items()
            if hook in hooks and hook in ("doc_to_text", "doc_to_target", "doc_to_choice")
        },
        "eval_docs": part("eval_docs") if own_documents else None,
        "fewshot_docs": part("fewshot_docs") if own_documents or "fewshot_docs" in hooks else None,
        "excludes_evaluated": _excludes(task),
        "makes_requests": "construct_requests" in hooks,
        "makes_context": any(hook in hooks for hook in CONTEXT_HOOKS),
        "process_results": part("process_results") if "process_results" in hooks else None,
        "aggregation": _aggregations(task, part) if "aggregation" in hooks else None,
        "higher_is_better": dict(task.higher_is_better()) if "higher_is_better" in hooks else None,
        "is_configurable": task._is_configurable,
        "output_type": task._config.output_type,
        "dataset_path": task.DATASET_PATH,
        "dataset_name": task.DATASET_NAME,
        "unsafe_code": bool(task.UNSAFE_CODE),
        "version": task.VERSION,
    }
    changed = task._changed_methods()
    if changed & {"aggregation", "higher_is_better"}:
        _replace_aggregations(described, changed)
    yield described


def _replace_aggregations(described: dict[str, Any], changed: set[str]) -> None:
    """Let the methods that a script has replaced decide about the metrics of the configuration, too."""
    parts = {
        "aggregation": described["aggregation"] if "aggregation" in changed else None,
        "higher_is_better": described["higher_is_better"] if "higher_is_better" in changed else None,
    }

    def entry(metric: dict[str, Any]) -> dict[str, Any]:
        own = {key: values[metric["metric"]] for key, values in parts.items() if values and metric["metric"] in values}
        return {**metric, **own}

    config = described["config"]
    for owner in (config, *(config.get("filter_list") or ())):
        if owner.get("metric_list"):
            owner["metric_list"] = [entry(metric) for metric in owner["metric_list"]]


def _excludes(task: Any) -> bool:
    """Return whether a document must be excluded from its own examples."""
    # Reference: older classes decide by whether there are training documents.
    return task._excludes_evaluated() if task._is_configurable else not task.has_training_docs()


def _aggregations(task: Any, part: Callable[..., Reference]) -> dict[str, Any]:
    """Return the aggregation of each metric: its name if built in, otherwise a reference to the function."""
    from lm_eval.api import registry

    known = registry.aggregation_registry
    names = {id(known.get(name)): name for name in known if registry._is_builtin(known.get(name))}
    return {
        metric: names.get(id(function)) or part("aggregation", metric)
        for metric, function in task.aggregation().items()
    }


def _referenced(worker: Worker, value: Any, steps: list[str], part: Callable[..., Reference]) -> Any:
    """Return the configuration with functions replaced by references."""
    if isinstance(value, Mapping):
        return {key: _referenced(worker, item, [*steps, str(key)], part) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_referenced(worker, item, [*steps, str(index)], part) for index, item in enumerate(value)]
    if not callable(value):
        return value
    for (directory, reference), known in worker.loader._known.items():
        if known is value:
            return Reference(directory, reference)
    return part(*steps)


def _requests(worker: Worker, task: Any, message: dict[str, Any]) -> Iterator[Any]:
    doc = unwrapped(message["document"])
    _calls._seed((doc,))
    task._drawn = [unwrapped(example) for example in message["examples"]]
    chat: dict[str, Any] = {"apply_chat_template": message["apply_chat_template"], "chat_template": None}
    if message["apply_chat_template"]:
        chat["chat_template"] = functools.partial(_apply_template, worker)
    context = message["context"]
    with _seeded(task, doc) if message["makes_context"] else contextlib.nullcontext():
        if message["makes_context"]:
            context = _call_fitting(
                task.fewshot_context,
                (doc,),
                num_fewshot=max(task.get_config("num_fewshot") or 0, 0),
                system_instruction=message["system_instruction"],
                fewshot_as_multiturn=message["fewshot_as_multiturn"],
                gen_prefix=task.doc_to_prefix(doc),
                **chat,
            )
        metadata = (task.task_name, message["doc_id"], task.get_config("repeats"))
        made = _call_fitting(task.construct_requests, (), doc=doc, ctx=context, metadata=metadata, **chat)
    made = [] if made is None else list(made) if isinstance(made, (list, tuple)) else [made]
    made.sort(key=lambda instance: instance.idx)
    target = next((instance.target for instance in made if instance.target is not None), None)
    if target is None and made:
        target = task.doc_to_target(doc)
    # From here on, the task draws its own examples again.
    task._drawn = []
    yield {"instances": [_instance(instance) for instance in made], "target": target}


@contextlib.contextmanager
def _seeded(task: Any, doc: Any) -> Iterator[None]:
    """Seed the class's own draws by the seed of the run and the document, so that the worker makes no difference."""
    seed, generator = task._fewshot_seed, task.fewshot_rnd
    task.set_fewshot_seed(zlib.crc32(repr((seed, doc)).encode("utf-8", "surrogatepass")))
    try:
        yield
    finally:
        task.set_fewshot_seed(seed)
        task.fewshot_rnd = generator


def _instance(instance: Any) -> dict[str, Any]:
    return {
        "request_type": instance.request_type,
        "arguments": list(instance.args),
        "idx": instance.idx,
        "repeats": instance.repeats,
        "additional_args": instance.additional_args,
    }


def _apply_template(
    worker: Worker, messages: list[dict[str, Any]], add_generation_prompt: bool = True, **_: Any
) -> Any:
    question = {"messages": messages, "add_generation_prompt": bool(add_generation_prompt)}
    model = getattr(worker, "model", None)
    if model is not None:
        # The engine would have to call this process, which is busy.
        return next(_models._prompt(worker, None, {"handle": model, **question}))
    return objects(worker).query("chat_template", **question)


def _call_fitting(function: Callable[..., Any], arguments: tuple[Any, ...], **named: Any) -> Any:
    """Call a method with those named arguments that it accepts."""
    parameters = inspect.signature(function).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        named = {name: value for name, value in named.items() if name in parameters}
    return function(*arguments, **named)


def _sample(worker: Worker, made: Any, message: dict[str, Any]) -> Iterator[Any]:
    held: dict[int, Any] = objects(worker).__dict__.setdefault("samplers", {})
    known = held.get(message["sampler"])
    if known is None:
        pool = objects(worker).query("pool")["documents"]
        # Tasks draw their examples one after the other.
        held.clear()
        known = held[message["sampler"]] = (_make_sampler(made, pool, message["seed"]), pool)
    sampler, pool = known
    generator = getattr(sampler, "rnd", None)
    if isinstance(generator, random.Random) and message["state"] is not None:
        generator.setstate(message["state"])
    indices = {id(doc): index for index, doc in enumerate(pool)}
    draws = []
    for doc in message["evaluated"]:
        _calls._seed((message["count"], doc))
        drawn = sampler.sample(n=message["count"], eval_doc=doc)
        draws.append([_position(example, pool, indices) for example in drawn])
        if len(draws[-1]) != message["count"]:
            raise ValueError(f"{message['count']} examples were requested, but the sampler returned {len(draws[-1])}")
    generator = getattr(sampler, "rnd", None)
    yield {"draws": draws, "state": generator.getstate() if isinstance(generator, random.Random) else None}


def _make_sampler(made: Any, pool: list[Any], seed: int | None) -> Any:
    if not isinstance(made, type):
        raise TypeError(f"a sampler is a class, not a value of type `{type(made).__name__}`")
    sampler = _call_fitting(made, (list(pool),), rnd=seed)
    if hasattr(sampler, "set_rnd"):
        sampler.set_rnd(seed)
    return sampler


def _position(example: Any, pool: list[Any], indices: dict[int, int]) -> int:
    """Return the index of an example in the pool."""
    index = indices.get(id(example))
    if index is None:
        index = next((number for number, doc in enumerate(pool) if doc == example), None)
    if index is None:
        raise ValueError("the sampler returned a document that is not in its pool")
    return index


OPERATIONS = {"describe_class": _describe, "class_requests": _requests, "sample": _sample}
