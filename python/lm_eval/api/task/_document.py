"""Steps of one document, for programs that drive a task by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lm_eval.api._types import Doc
from lm_eval.api.instance import Instance
from lm_eval.api.metrics._numeric import floats
from lm_eval.api.metrics.results import LLResults

if TYPE_CHECKING:
    from lm_eval.api.task import Task


def inputs(task: Task, doc: Doc) -> tuple[int, str] | None:
    """Return the gold index and the continuation of a document whose options are contexts; `None` for any other.

    An integer from `doc_to_text` with a list of options means that.
    """
    text = task.doc_to_text(doc)
    if task.OUTPUT_TYPE != "multiple_choice" or not isinstance(text, int) or not task.doc_to_choice(doc):
        return None
    return text, str(task._resolve(task.config.doc_to_target, doc))


def question(task: Task, doc: Doc) -> Any:
    """Return the question of a document, or one per option if its options are contexts."""
    return task.doc_to_text(doc) if inputs(task, doc) is None else list(task.doc_to_choice(doc))



def scores_mutual_information(task: Task) -> bool:
    """Whether the task needs each option without its context, too."""
    entries = task.config.metric_list or ()
    return any(isinstance(entry, dict) and entry.get("metric") == "acc_mutual_info" for entry in entries)


def unconditional(request: Instance[Any, Any], idx: int) -> Instance[Any, Any]:
    """Return the request for the same continuation without a context."""
    metadata = {**request.metadata, "acc_mutual_info": True}
    return replace(request, arguments=("", request.args[1]), idx=idx, metadata=metadata)


def process_results(task: Task, doc: Doc, results: Sequence[Any]) -> dict[str, Any]:
    """Return the values of the task's metrics for one document, by the rules of the 0.4 line.

    `results` are the filtered answers to the requests of the document, in order.
    """
    context = question(task, doc)
    requests = task.construct_requests(doc, context if isinstance(context, list) else "")
    requests = requests if isinstance(requests, list) else [requests]
    scorer = task.scorers[0]
    for request, answer in zip(requests, results):
        is_rolling = request.request_type == "loglikelihood_rolling" and not isinstance(answer, (tuple, list))
        request.arguments = request.args if len(request.args) > 1 else ("", *request.args)
        request.filtered_resps = {scorer.name: [(answer, False) if is_rolling else answer]}
    values = {name: _value(task, name, one) for name, one in scorer.score_doc(0, requests).scores.items()}
    if task.OUTPUT_TYPE == "multiple_choice" and "brier_score" in values:
        values["brier_score"] = requests[0].target, _probabilities(LLResults.from_instances(requests, scorer.name))
    return values


def _value(task: Task, metric: str, repeats: Any) -> Any:
    """Return the value of a metric in the form of the 0.4 line: floats for accuracies, strings instead of lists of one."""
    value = _single(repeats)
    if isinstance(value, tuple) and task.OUTPUT_TYPE == "generate_until":
        return tuple(_single(part) for part in value)
    is_accuracy = metric.startswith("acc") if task.OUTPUT_TYPE == "multiple_choice" else metric == "exact_match"
    return float(value) if is_accuracy and isinstance(value, int) else value


def _single(values: Any) -> Any:
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def _probabilities(results: LLResults) -> Any:
    """Return the probabilities of the options, normalised over the options."""
    from math import exp

    from lm_eval.api.metrics._numeric import array

    lls = floats(results.lls)
    weights = [exp(ll - max(lls)) for ll in lls]
    return array(weight / sum(weights) for weight in weights)
