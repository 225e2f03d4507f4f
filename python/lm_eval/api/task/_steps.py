"""The steps of an evaluation one by one: requests, filtered answers, scores, results.

The engine performs them, so that the numbers are those of a run. They are performed here only if the caller has
changed the scorers of a task.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from lm_eval.api.instance import Instance

if TYPE_CHECKING:
    from lm_eval.api.task import Task
    from lm_eval.scorers import Scorer

logger = logging.getLogger(__name__)

Groups = dict[int, list[Instance[Any, Any]]]
"""The requests of each document, ordered by `idx`."""

_SCORING_METADATA = ("acc_mutual_info", "metric_kwargs", "option_text")
"""The metadata of a request that scoring needs."""


def _call_engine(operation: str, task: Task, settings: Mapping[str, Any], live: Any = None, **parts: Any) -> Any:
    """Let the engine perform a step for a task."""
    from lm_eval import _engine, _refusals
    from lm_eval._live import Live
    from lm_eval.api import registry
    from lm_eval.tasks import _loaded
    from lm_eval.tasks.manager import TaskManager

    _refusals.refuse("steps")
    live = live or Live()
    message = _loaded.Message(live)
    message.add(task, scores=False)
    seeds = [None, None, None, task._fewshot_seed]
    return _engine.call(
        operation,
        live,
        settings={"seed": seeds, "quiet": True, "python": sys.executable, **_dialect(task), **settings},
        registered=[f"{kind}/{name}" for kind, names in registry._dump().items() for name in names],
        manager=TaskManager()._settings(),
        **message.parts(),
        **parts,
    )


def _dialect(task: Task) -> dict[str, Any]:
    return {"compat": "0.4"} if task._is_compat_04 else {}


# Requests


def build_requests(
    task: Task,
    *,
    samples: Iterable[int] | None,
    rank: int,
    world_size: int,
    chat_template: Callable[..., Any] | None,
    **settings: Any,
) -> list[Instance[Any, Any]]:
    """Return the requests of the documents to evaluate."""
    from lm_eval import _models
    from lm_eval._class_tasks import unwrapped
    from lm_eval._live import Live

    live = Live()
    template = None
    if settings["apply_chat_template"]:
        if chat_template is None:
            raise ValueError("`apply_chat_template` needs a `chat_template`, such as `lm.apply_chat_template`")
        template = live.refer(_template_model(chat_template))
    documents = _call_engine(
        "requests",
        task,
        settings,
        live,
        samples=None if samples is None else list(samples),
        rank=rank,
        world_size=world_size,
        live_model=template,
    )
    instances: list[Instance[Any, Any]] = []
    for document in documents:
        doc = unwrapped(document["doc"])
        for answer in document["instances"]:
            arguments = answer.pop("arguments")
            if isinstance(arguments[0], tuple):
                # A conversation for a server, which models receive unchanged.
                arguments = (_models._json_prompt(arguments[0][0]), *arguments[1:])
            instances.append(Instance(doc=doc, doc_id=document["doc_id"], arguments=arguments, **answer))
    return instances


def build_here(
    task: Task,
    *,
    limit: int | None,
    samples: Iterable[int] | None,
    rank: int,
    world_size: int,
    **settings: Any,
) -> list[Instance[Any, Any]]:
    """Return the requests in a process whose engine is waiting for it, so that it cannot call another one."""
    instances: list[Instance[Any, Any]] = []
    chat = {name: settings[name] for name in ("apply_chat_template", "chat_template")}
    for doc_id, doc in task.doc_iterator(rank=rank, limit=limit, samples=samples, world_size=world_size):
        count = max(task.config.num_fewshot or 0, 0)
        context = task.fewshot_context(doc, num_fewshot=count, gen_prefix=task.doc_to_prefix(doc), **settings)
        metadata = (task.task_name, doc_id, task.config.repeats)
        made = task.construct_requests(doc=doc, ctx=context, metadata=metadata, **chat)
        instances += made if isinstance(made, list) else [] if made is None else [made]
    return instances


def _template_model(chat_template: Callable[..., Any]) -> Any:
    """Return a model that has only a chat template."""
    from lm_eval.api.model import LM

    class Template(LM):
        def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> Any:
            return chat_template(chat_history, add_generation_prompt=add_generation_prompt)

        def chat_template(self, chat_template: Any = False) -> Any:
            return None

        def loglikelihood(self, requests: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = generate_until = loglikelihood

    return Template()


# Scorers


def build_scorers(task: Task) -> list[Scorer]:
    """Return a scorer for each pipeline of a task."""
    from lm_eval.scorers import build_scorer

    config = task.config
    scorers = []
    with _registered_names(task):
        for pipeline in config._pipelines():
            entries = [_known_metric(entry, config.output_type) for entry in pipeline["metric_list"]]
            cfg: Any = {**pipeline, "metric_list": entries}
            scorer = build_scorer(cfg=cfg, output_type=config.output_type, scorer_type=config.scorer)
            if config.multiple_targets:
                scorer.context = {"multiple_targets": True}
            scorers.append(scorer)
    return scorers


@contextmanager
def _registered_names(task: Task) -> Iterator[None]:
    """Resolve names that modules next to the task's file register."""
    from lm_eval import _live, _scope
    from lm_eval._registered import _look_up

    folders = task._folders
    with ExitStack() as stack:
        for kind, name, is_known in _names(task) if folders else ():
            try:
                found = _look_up(_live._functions, kind, name, folders, not is_known)
            except ImportError as error:
                if kind in ("filter", "scorer"):
                    raise
                # Metrics can be left to the engine, which reports a missing package if it needs one.
                logger.debug("The engine will look up `%s`: %s", name, error)
                continue
            finally:
                _live._functions.enter("")
            if found is not None and found[0]:
                stack.enter_context(_scope.within(found[0]))
        yield


def _names(task: Task) -> Iterator[tuple[str, str, bool]]:
    """Yield the names that a task's scorers use, and whether they resolve without its folder."""
    from lm_eval.api import registry

    used: list[tuple[str, Any]] = [("scorer", (task.config.scorer or {}).get("type"))]
    for pipeline in task.config._pipelines():
        used += [("filter", step["function"]) for step in pipeline["filter"]]
        for entry in pipeline["metric_list"]:
            used += [(kind, entry.get(kind)) for kind in ("metric", "aggregation", "reduction")]
    for kind, name in dict.fromkeys((kind, name) for kind, name in used if isinstance(name, str)):
        yield kind, name, name in registry._REGISTRIES[kind]


def _known_metric(entry: Mapping[str, Any], output_type: str) -> Any:
    """Return a metric entry, or a placeholder for a metric that only the engine or the task computes."""
    from lm_eval.api.metrics import mean
    from lm_eval.api.metrics.metric import Metric
    from lm_eval.api.registry import aggregation_registry, metric_registry, reduction_registry

    name = entry["metric"]
    if callable(name) or name in metric_registry:
        try:
            Metric.from_dict(entry, output_type)
        except (KeyError, ValueError) as error:
            logger.debug("The engine will compute `%s`: %s", name, error)
        else:
            return entry
    label = str(getattr(name, "__name__", name))
    higher = entry.get("higher_is_better")

    def computed_elsewhere(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"`{label}` is computed by the engine: call `process_instances` of the task")

    def part(kind: str, registry: Any) -> Any:
        given = entry.get(kind)
        return given if callable(given) else registry.get(given, None) if isinstance(given, str) else None

    return Metric(
        name=label,
        fn=computed_elsewhere,
        kwargs=entry.get("kwargs", {}),
        aggregation=part("aggregation", aggregation_registry) or mean,
        higher_is_better=True if higher is None else higher,
        output_type={output_type},
        reduction=part("reduction", reduction_registry),
    )


def state_of(scorers: Sequence[Scorer]) -> list[Any]:
    """Return a key that changes when the caller changes the scorers."""
    return [(type(scorer), {name: _part(item) for name, item in _settings(scorer)}) for scorer in scorers]


def _settings(scorer: Scorer) -> Iterator[tuple[str, Any]]:
    return ((name, item) for name, item in vars(scorer).items() if name not in ("_raw_docs", "_reduced_docs"))


def _part(value: Any) -> Any:
    if isinstance(value, list):
        return list(value)
    if isinstance(value, dict):
        return dict(value)
    if hasattr(value, "filters"):
        return value.name, list(value.filters)
    return value


# Answers


def groups_of(task: Task) -> Groups:
    """Return the requests of a task by document."""
    instances = task.instances
    if not instances:
        raise ValueError(f"The task `{task.task_name}` has no requests yet; call `build_all_requests` first")
    groups: Groups = {}
    for instance in instances:
        if len(instance.resps) != instance.repeats:
            raise ValueError(
                f"Request {instance.idx} of document {instance.doc_id} of `{task.task_name}` has "
                f"{len(instance.resps)} answers, not {instance.repeats}; put those of the model into `resps`"
            )
        groups.setdefault(instance.doc_id or 0, []).append(instance)
    for requests in groups.values():
        requests.sort(key=lambda instance: instance.idx)
    return groups


def _serialized(groups: Groups) -> list[dict[str, Any]]:
    """Return answered requests in the form sent to the engine."""
    from lm_eval import _models
    from lm_eval._class_tasks import WRAPPED

    fields = ("request_type", "idx", "repeats", "target", "task_name", "additional_args")
    documents = []
    for doc_id, requests in groups.items():
        doc = requests[0].doc
        answer = [
            {
                **{name: getattr(request, name) for name in fields},
                "arguments": request.args,
                "resps": [_models._valid(answer) if isinstance(answer, str) else answer for answer in request.resps],
                "metadata": {name: request.metadata[name] for name in _SCORING_METADATA if name in request.metadata},
            }
            for request in requests
        ]
        wrapped = doc if isinstance(doc, Mapping) else {WRAPPED: doc}
        documents.append({"doc_id": doc_id, "doc": wrapped, "instances": answer})
    return documents


def apply_filters(task: Task) -> None:
    """Store each pipeline's filtered answers in the requests."""
    groups = groups_of(task)
    if task._has_own_scorers:
        for scorer in task.scorers:
            scorer.apply_filter([request for requests in groups.values() for request in requests])
        return
    answer = _score(task, groups, only_filter=True)
    for pipeline in answer["pipelines"]:
        _keep_filtered(groups, pipeline)


def process_instances(task: Task) -> None:
    """Score the answers of a task and store the values in its scorers."""
    groups = groups_of(task)
    if task._has_own_scorers:
        _process_here(task, groups)
        return
    answer = _score(task, groups)
    task._owners = [pipeline["owners"] for pipeline in answer["pipelines"]]
    for scorer, pipeline in zip(task.scorers, answer["pipelines"], strict=True):
        _keep_filtered(groups, pipeline)
        _keep_scores(scorer, pipeline, groups)


def _score(task: Task, groups: Groups, only_filter: bool = False) -> Any:
    settings = {"confirm_run_unsafe_code": task._may_run_code}
    return _call_engine("score", task, settings, documents=_serialized(groups), only_filter=only_filter)


def _keep_filtered(groups: Groups, pipeline: Mapping[str, Any]) -> None:
    for requests, filtered in zip(groups.values(), pipeline["filtered"], strict=True):
        for request, answers in zip(requests, filtered, strict=True):
            request.filtered_resps[pipeline["name"]] = answers


def _keep_scores(scorer: Scorer, pipeline: Mapping[str, Any], groups: Groups) -> None:
    """Store the values that the engine computed in a scorer."""
    from lm_eval.scorers import ScoredDoc

    reduced = dict(pipeline["reduced"])
    scorer.import_reduced(reduced)
    raw = {one["doc_id"]: ScoredDoc(**one) for one in pipeline["raw"]}
    # Where each metric has one value, these are the reduced values.
    scorer._raw_docs = raw or {
        doc_id: ScoredDoc(
            doc_id=doc_id,
            reference=groups[doc_id][0].target,
            scores={name: [value] for name, value in values.items()},
        )
        for doc_id, values in reduced.items()
    }


def _process_here(task: Task, groups: Groups) -> None:
    """Score with the scorers that the caller has assigned to a task."""
    everything = [request for requests in groups.values() for request in requests]
    for scorer in task.scorers:
        scorer.apply_filter(everything)
    for request in everything:
        if request.request_type == "loglikelihood_rolling":
            for name, answers in request.filtered_resps.items():
                pairs = [answer if isinstance(answer, (tuple, list)) else (answer, False) for answer in answers]
                request.filtered_resps[name] = pairs
    for scorer in task.scorers:
        scored = _processed_results(task, scorer, groups)
        scorer.set_results(scorer.score_instances(groups) if scored is None else scored)


def _processed_results(task: Task, scorer: Scorer, groups: Groups) -> dict[int, Any] | None:
    """Return the value of `process_results`, or `None` where it leaves scoring to the scorer."""
    from lm_eval.scorers import ScoredDoc

    scored: dict[int, Any] = {}
    for doc_id, requests in groups.items():
        answers = [answer for request in requests for answer in request.filtered_resps[scorer.name]]
        values = task.process_results(requests[0].doc, answers)
        if values is None:
            if scored:
                raise ValueError(f"`process_results` of `{task.task_name}` returned nothing for document {doc_id}")
            return None
        scores = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
        scored[doc_id] = ScoredDoc(doc_id=doc_id, reference=requests[0].target, scores=scores)
    return scored


def aggregate(task: Task, bootstrap_iters: int | None) -> tuple[dict[str, Any], int]:
    """Return the results of a task and the number of its documents."""
    from lm_eval.scorers._base import _takes

    if task._has_own_scorers:
        results: dict[str, Any] = {}
        count = 0
        for scorer in task.scorers:
            overrides = dict(task.aggregation()) if "aggregation" in task._hooks() else {}
            given: dict[str, Any] = {"bootstrap_iters": bootstrap_iters, "aggregation_overrides": overrides}
            options = {name: value for name, value in given.items() if _takes(scorer.aggregate, name)}
            own, documents = scorer.aggregate(scorer.reduced_docs, **options)
            results.update(own)
            count = max(count, documents)
        return results, count
    owners = task._owners or [[] for _ in task.scorers]
    pipelines = [
        {"reduced": [[doc_id, values] for doc_id, values in scorer.reduced_docs.items()], "owners": own}
        for scorer, own in zip(task.scorers, owners, strict=True)
    ]
    settings = {"bootstrap_iters": bootstrap_iters or 0, "confirm_run_unsafe_code": task._may_run_code}
    answer = _call_engine("aggregate", task, settings, pipelines=pipelines)
    return answer["metrics"], answer["sample_len"]
