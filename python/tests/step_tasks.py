"""Tasks, data and a model for the tests of evaluation steps."""

from __future__ import annotations

import hashlib
from typing import Any

import lm_eval
from lm_eval.api.model import LM
from lm_eval.api.task import Task


def share(*parts: Any) -> float:
    """Return a number between 0 and 1 that depends only on the arguments."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 2**32


class Model(LM):
    """Answers by the request's string, and each repeat differently."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Return numbers that look like log-likelihoods."""
        return [(-20 * share(r.args), share(r.args, 1) > 0.5) for r in requests]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
        """Return numbers that look like log-likelihoods."""
        return [-100 * share(r.args[-1]) for r in requests]

    def generate_until(self, requests: list[Any]) -> list[str]:
        """Return one of a few answers."""
        answers = []
        for request in requests:
            prompt = request.args[0]
            self.asked[prompt] = self.asked.get(prompt, -1) + 1
            answers.append(f"The answer is {int(4 * share(prompt, self.asked[prompt]))}.")
        return answers

    def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
        """Return a conversation as a string."""
        turns = "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)
        return turns + ("<assistant>" if add_generation_prompt else "")

    def chat_template(self, chat_template: Any = False) -> str:
        """Return a fake template."""
        return "turns"

    @property
    def tokenizer_name(self) -> str:
        """Return a name."""
        return "turns"


def answer(lm: LM, task: Task) -> None:
    """Let a model answer the requests of a task."""
    for instance in task.instances or []:
        for _ in range(instance.repeats):
            (response,) = getattr(lm, instance.request_type)([instance])
            instance.resps.append(response)


def rows(count: int, start: int) -> list[dict[str, Any]]:
    """Return documents."""
    return [
        {"q": f"{n}+1", "a": str(n % 4), "c": ["zero", "a one", "twos"], "g": n % 3, "t": f"{n} makes {n}", "n": n % 4 - 100}
        for n in range(start, start + count)
    ]


def data(**kwargs: Any) -> dict[str, list[dict[str, Any]]]:
    """Return a dataset."""
    return {"train": rows(8, 100), "test": rows(9, 0)}


def process_results(doc: dict[str, Any], results: list[Any]) -> dict[str, Any]:
    """Return scores under custom names."""
    return {"length": len(results[0]), "first": float(results[0][:1] == "T")}


def top(values: list[float]) -> float:
    """Return the maximum."""
    return max(values)


def common_words(references: Any, predictions: Any, **kwargs: Any) -> Any:
    """Return the length of each answer."""
    return [float(len(answer)) for answer in predictions]


def hundred(resps: Any, docs: Any) -> Any:
    """Return the value that the engine also uses for a target that is not an option."""
    return [["-100"] for _ in resps]


NUMBER = [{"function": "regex", "regex_pattern": "(\\d+)"}, {"function": "take_first"}]

COMMON: dict[str, Any] = {"custom_dataset": data, "test_split": "test", "training_split": "train"}

DEFINITIONS: dict[str, dict[str, Any]] = {
    "generated": {
        "output_type": "generate_until",
        "num_fewshot": 2,
        "doc_to_text": "Q: {{q}}\nA:",
        "doc_to_target": "{{a}}",
        "filter_list": [
            {"name": "number", "filter": NUMBER},
            {"name": "flexible", "filter": NUMBER[1:], "metric_list": [{"metric": "exact_match", "ignore_case": True}]},
        ],
        "metric_list": [{"metric": "exact_match", "regexes_to_ignore": ["x"]}, {"metric": "bleu"}],
    },
    "repeated": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}} =",
        "doc_to_target": "{{a}}",
        "repeats": 4,
        "generation_kwargs": {"until": ["\n"], "do_sample": True, "temperature": 0.7},
        "filter_list": [
            {"name": "all", "filter": NUMBER[:1]},
            {"name": "vote", "filter": [NUMBER[0], {"function": "majority_vote"}, {"function": "take_first"}]},
            {"name": "two", "filter": [{"function": "take_first_k", "k": 2}, NUMBER[0]]},
        ],
    },
    "chosen": {
        "output_type": "multiple_choice",
        "num_fewshot": 1,
        "doc_to_text": "{{q}}",
        "doc_to_target": "g",
        "doc_to_choice": "c",
        "metric_list": [{"metric": name} for name in ("acc", "acc_norm", "acc_mutual_info", "mcc", "brier_score")],
    },
    "likely": {
        "output_type": "loglikelihood",
        "doc_to_text": "{{q}} =",
        "doc_to_target": " {{a}}",
    },
    "rolled": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{t}}",
    },
    "processed": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "process_results": process_results,
        "metric_list": [{"metric": "length", "aggregation": top, "higher_is_better": False}],
    },
    "native": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "The answer is {{a}}",
        "metric_list": [{"metric": "rouge1"}, {"metric": "squad_f1"}],
    },
    "own": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "metric_list": [{"metric": common_words, "aggregation": "median"}],
    },
    "several": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": ["The answer is {{a}}.", "3"],
        "multiple_targets": True,
        "metric_list": [{"metric": "exact_match"}],
    },
    "numbered": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "n",
        "filter_list": [{"name": "hundred", "filter": [{"function": "custom", "filter_fn": hundred}]}],
    },
    "unresolved": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{c[g] if g else 'none of them'}}",
        "doc_to_choice": "c",
    },
    "formatted": {
        "formats": "mcqa",
        "doc_to_text": "q",
        "doc_to_target": "g",
        "doc_to_choice": "c",
    },
}


def definition(name: str) -> dict[str, Any]:
    """Return the definition of a task."""
    return {"task": name, **COMMON, **DEFINITIONS[name]}


def scores(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the metric values of a results entry."""
    return {name: value for name, value in entry.items() if "," in name}


def evaluated(task: Any, **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the results of a run of one task, and the task object."""
    results = lm_eval.simple_evaluate(model=Model(), tasks=[task], bootstrap_iters=100, **settings)
    (entry,) = results["results"].values()
    return entry, results
