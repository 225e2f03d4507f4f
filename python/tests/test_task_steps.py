"""The steps of an evaluation, run by a script, give the numbers of a run."""

from __future__ import annotations

import hashlib
import tempfile
import unittest
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api.metrics import Metric, mean
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask, GenerateTask, Task
from lm_eval.config.task import TaskConfig
from lm_eval.scorers import GenScorer
from lm_eval.tasks import TaskManager

from tests import engine


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


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
    """Return a data set."""
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


class Steps(unittest.TestCase):
    """Requests, answers, filters, scores, results."""

    def _compare(self, task: Task, spec: Any, **settings: Any) -> None:
        expected, results = evaluated(spec, **settings)
        task.build_all_requests()
        answer(Model(), task)
        task.process_instances()
        found, count = task.aggregate(bootstrap_iters=100)
        self.assertEqual(found, scores(expected))
        self.assertEqual(count, expected["sample_len"])
        (samples,) = results["samples"].values()
        by_pipeline = {(sample["filter"], sample["doc_id"]): sample for sample in samples}
        for scorer in task.scorers:
            for doc_id, values in scorer.reduced_docs.items():
                sample = by_pipeline[scorer.name, doc_id]
                self.assertEqual(values, {name: sample[name] for name in sample["metrics"]})
        for instance in task.instances or []:
            for name, filtered in instance.filtered_resps.items():
                sample = by_pipeline[name, instance.doc_id]
                self.assertEqual(instance.args, sample["arguments"][instance.idx])
                self.assertEqual(filtered, sample["filtered_resps"][instance.idx])
        directions = results["higher_is_better"][task.config._qualified_name or task.task_name]
        self.assertLessEqual(set(directions.items()), {*task.higher_is_better().items(), *directions.items()})
        self.assertLessEqual(set(task.higher_is_better()), {*directions})

    def test_numbers(self) -> None:
        """A loaded task, a `Task` of a `TaskConfig`, and `from_config` all give the numbers of a run."""
        for name in DEFINITIONS:
            (loaded,) = TaskManager().load([definition(name)])["tasks"].values()
            for task in (
                loaded,
                Task(TaskConfig(**definition(name))),
                ConfigurableTask.from_config(definition(name)),
            ):
                with self.subTest(name, kind=type(task).__name__):
                    self._compare(task, definition(name))

    def test_functions_of_a_loaded_definition(self) -> None:
        """The functions are unchanged, so the task can be called directly."""
        given = {**definition("processed"), "doc_to_text": lambda doc: doc["q"] + "!"}
        (task,) = TaskManager().load([given])["tasks"].values()
        self.assertIs(task.config.process_results, process_results)
        self.assertEqual(task.doc_to_text(task.test_docs()[0]), "0+1!")
        self.assertEqual(task.process_results({}, ["Tx"]), {"length": 2, "first": 1.0})

    def test_evaluates_replaced_documents(self) -> None:
        """Documents that a script puts into `dataset` are evaluated."""
        (loaded,) = TaskManager().load([definition("generated")])["tasks"].values()
        for task in (loaded, Task(TaskConfig(**definition("generated")))):
            with self.subTest(type(task).__name__):
                self.assertFalse(task._has_own_data)
                self.assertEqual(len(task.test_docs()), 9)
                self.assertFalse(task._has_own_data)
                task.dataset["test"] = [task.dataset["test"][index] for index in (8, 3)]
                task.build_all_requests()
                self.assertEqual([instance.doc["q"] for instance in task.instances or []], ["8+1", "3+1"])
                results = lm_eval.evaluate(Model(), {"generated": task}, bootstrap_iters=0)
                self.assertEqual([sample["doc"]["q"] for sample in results["samples"]["generated"][:2]], ["8+1", "3+1"])

    def test_class_formats_its_own_turns(self) -> None:
        """A class that formats its own examples has its method called."""

        class Dashed(ConfigurableTask):
            def build_qa_turn(self, **parts: Any) -> Any:
                return super().build_qa_turn(**{**parts, "q": f"- {parts['q']}"})

        task = Dashed(config={**definition("generated"), "task": "dashed"})
        task.build_all_requests(limit=1)
        (instance,) = task.instances or []
        self.assertTrue(instance.args[0].startswith("- Q: 10"))
        self.assertTrue(instance.args[0].endswith("\n\n- Q: 0+1\nA:"))
        results = lm_eval.simple_evaluate(model=Model(), tasks=[task], limit=1, bootstrap_iters=0)
        self.assertEqual(results["samples"]["dashed"][0]["arguments"][0], instance.args)

    def test_document_selection(self) -> None:
        """`limit`, `samples` and the shares of several processes."""
        task = Task(TaskConfig(**definition("chosen")))
        ids = lambda: sorted({instance.doc_id for instance in task.instances or []})
        task.build_all_requests(limit=4)
        self.assertEqual(ids(), [0, 1, 2, 3])
        task.build_all_requests(samples=[1, 5, 7])
        self.assertEqual(ids(), [1, 5, 7])
        task.build_all_requests(limit=5, rank=1, world_size=2)
        self.assertEqual(ids(), [1, 3])
        self.assertEqual(task.build_all_requests(limit=1), task.instances)

    def test_ranks(self) -> None:
        """Values of several processes are merged and aggregated."""
        whole = Task(TaskConfig(**definition("processed")))
        parts = [Task(TaskConfig(**definition("processed"))) for _ in range(2)]
        merged: dict[str, dict[int, Any]] = {}
        for rank, part in enumerate(parts):
            part.build_all_requests(rank=rank, world_size=2)
            answer(Model(), part)
            part.process_instances()
            for name, values in part._export_reduced().items():
                merged.setdefault(name, {}).update(values)
        whole._import_reduced({name: dict(sorted(values.items())) for name, values in merged.items()})
        self.assertEqual(whole.aggregate(100)[0], scores(evaluated(definition("processed"))[0]))

    def test_settings(self) -> None:
        """Repeats, examples, the seed, a single metric and a system prompt, as in the arguments of a run."""
        task = Task(TaskConfig(**definition("repeated")))
        task.set_repeats(2)
        task.set_num_fewshot(3)
        task.set_fewshot_seed(5)
        task.config.filter_list = task.config.filter_list[:1]
        spec = {**definition("repeated"), "filter_list": DEFINITIONS["repeated"]["filter_list"][:1]}
        self._compare(task, spec, repeats=2, num_fewshot=3, fewshot_random_seed=5)
        task = Task(TaskConfig(**definition("chosen")))
        task.set_repeats(3)
        self.assertEqual(task.config.repeats, 1)
        pinned = Task(TaskConfig(**{**definition("chosen"), "num_fewshot": 0}))
        pinned.set_num_fewshot(3)
        self.assertEqual(pinned.config.num_fewshot, 0)
        task = Task(TaskConfig(**definition("generated")))
        task.override_metric("bypass")
        task.build_all_requests(limit=2)
        answer(Model(), task)
        task.process_instances()
        self.assertEqual([scorer.name for scorer in task.scorers], ["none"])
        self.assertEqual(set(task.aggregate(0)[0]), {"bypass,none", "bypass_stderr,none"})

    def test_changed_metrics_apply_to_pipelines(self) -> None:
        """Changed metrics of the task apply to its pipelines, unless these have their own."""
        (loaded,) = TaskManager().load([definition("generated")])["tasks"].values()
        changed = [{"metric": "exact_match", "ignore_case": True}, {"metric": "chrf"}]
        spec = {**definition("generated"), "metric_list": changed}
        for task in (loaded, Task(TaskConfig(**definition("generated")))):
            with self.subTest(type(task).__name__):
                self.assertEqual([metric.name for metric in task.scorers[0].metrics or ()], ["exact_match", "bleu"])
                task.set_config("metric_list", changed)
                self._compare(task, spec)
                self.assertEqual([metric.name for metric in task.scorers[0].metrics or ()], ["exact_match", "chrf"])
                self.assertEqual([metric.name for metric in task.scorers[1].metrics or ()], ["exact_match"])
                results = lm_eval.evaluate(Model(), {"generated": task}, bootstrap_iters=100)
                self.assertEqual(scores(results["results"]["generated"]), task.aggregate(100)[0])

    def test_chat(self) -> None:
        """Conversations are those of a run."""
        task = Task(TaskConfig(**definition("generated")))
        lm = Model()
        task.build_all_requests(
            limit=3,
            system_instruction="Be brief.",
            apply_chat_template=True,
            fewshot_as_multiturn=True,
            chat_template=lm.apply_chat_template,
        )
        results = lm_eval.simple_evaluate(
            model=lm,
            tasks=[definition("generated")],
            limit=3,
            system_instruction="Be brief.",
            apply_chat_template=True,
            bootstrap_iters=0,
        )
        prompts = [sample["arguments"][0][0] for sample in results["samples"]["generated"][:3]]
        self.assertEqual([instance.args[0] for instance in task.instances or []], prompts)
        self.assertIn("<user>Q: 0+1\nA:", prompts[0])
        with self.assertRaisesRegex(ValueError, "chat_template"):
            task.build_all_requests(apply_chat_template=True)

    def test_apply_filters_only(self) -> None:
        """`apply_filters` fills `filtered_resps` and scores nothing."""
        task = Task(TaskConfig(**definition("generated")))
        task.build_all_requests(limit=2)
        answer(Model(), task)
        task.apply_filters()
        for instance in task.instances or []:
            digit = instance.resps[0].split()[-1].strip(".")
            self.assertEqual(instance.filtered_resps, {"number": [digit], "flexible": instance.resps})
        self.assertEqual(dict(task.scorers[0].reduced_docs), {})

    def test_missing_answers_are_an_error(self) -> None:
        """A missing answer is an error that names the document, not a zero."""
        task = Task(TaskConfig(**definition("repeated")))
        with self.assertRaisesRegex(ValueError, "build_all_requests"):
            task.process_instances()
        task.build_all_requests(limit=2)
        with self.assertRaisesRegex(ValueError, "document 0 of `repeated` has 0 answers, not 4"):
            task.process_instances()

    def test_replaces_invalid_unicode_in_answers(self) -> None:
        """Characters that UTF-8 cannot encode are replaced, as in a run."""
        task = Task(TaskConfig(**definition("own")))
        for instance in task.build_all_requests(limit=2):
            instance.resps.append("a\ud800b")
        task.process_instances()
        self.assertEqual(task.aggregate(0)[0]["common_words,none"], 3.0)

    def test_uses_changed_scorers(self) -> None:
        """Scorers that a script has changed are used."""
        task = Task(TaskConfig(**definition("generated")))
        self.assertFalse(task._has_own_scorers)
        (task.scorers[0].metrics or []).append(
            Metric(name="letters", fn=lambda references, predictions: float(len(predictions[0])), aggregation=mean)
        )
        self.assertTrue(task._has_own_scorers)
        task.build_all_requests()
        answer(Model(), task)
        task.process_instances()
        found, count = task.aggregate(bootstrap_iters=100)
        expected = scores(evaluated(definition("generated"))[0])
        self.assertEqual({name: found[name] for name in expected}, expected)
        self.assertEqual((found["letters,number"], count), (1.0, 9))
        with self.assertRaisesRegex(NotImplementedError, "process_instances"):
            lm_eval.evaluate(Model(), {"generated": task})

    def test_aggregate_of_a_scorer(self) -> None:
        """`aggregate` of a scorer receives the arguments it has parameters for."""

        class Bare(GenScorer):
            def aggregate(self, reduced_docs: Any, **kwargs: Any) -> Any:  # type: ignore[override]
                return {"names": sorted(kwargs)}, len(reduced_docs)

        class Iterations(GenScorer):
            def aggregate(self, reduced_docs: Any, *, bootstrap_iters: Any = 1) -> Any:  # type: ignore[override]
                return {"iterations": bootstrap_iters}, len(reduced_docs)

        task = Task(TaskConfig(**definition("generated")))
        for scorer, expected in (
            (Bare, {"names": ["aggregation_overrides", "bootstrap_iters"]}),
            (Iterations, {"iterations": 7}),
        ):
            own = scorer.from_dict({"name": "own", "filter": [], "metric_list": []}, output_type="generate_until")
            own.import_reduced({0: {"a": 1.0}})
            task.scorers[:] = [own]
            self.assertEqual(task.aggregate(7), (expected, 1))

    def test_python_scorers(self) -> None:
        """The scorers of a task give the engine's numbers, as far as they know the metrics."""
        for name in DEFINITIONS:
            task = Task(TaskConfig(**definition(name)))
            task.build_all_requests()
            answer(Model(), task)
            expected = scores(evaluated(definition(name))[0])
            task.scorers[0].context = {**task.scorers[0].context}
            self.assertFalse(task._has_own_scorers)
            task._scorers_built = (task._scorers_built[0], None)
            self.assertTrue(task._has_own_scorers)
            with self.subTest(name):
                if name == "native":
                    with self.assertRaisesRegex(NotImplementedError, "`rouge1` is computed by the engine"):
                        task.process_instances()
                    continue
                task.process_instances()
                self.assertEqual(task.aggregate(100)[0], expected)

    def test_code_needs_consent(self) -> None:
        """Generated code runs only when that is confirmed."""
        task = Task(TaskConfig(**{**definition("own"), "unsafe_code": True}))
        task.build_all_requests(limit=2)
        answer(Model(), task)
        with self.assertRaisesRegex(ValueError, "confirm_run_unsafe_code"):
            task.process_instances()
        task.process_instances(confirm_run_unsafe_code=True)
        self.assertIn("common_words,none", task.aggregate(0)[0])


UTILS = """
from lm_eval.api.filter import Filter
from lm_eval.api.registry import register_aggregation, register_filter, register_metric

@register_filter("digits")
class Digits(Filter):
    def apply(self, resps, docs):
        return [["".join(c for c in r if c.isdigit()) for r in answers] for answers in resps]

@register_aggregation("largest")
def largest(items):
    return max(items)

@register_metric(metric="close", higher_is_better=True, output_type="generate_until", aggregation="largest")
def close(references, predictions, tolerance=0):
    return [1.0 / (1 + abs(int(references[0]) - int(p))) for p in predictions]

def data(**kwargs):
    return {"test": [{"q": str(n), "a": str(n % 4)} for n in range(6)]}

"""

CLASS = """
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

class Asked(ConfigurableTask):
    VERSION = 3

    def __init__(self, config):
        config.pop("class")
        self.suffix = config.pop("suffix")
        super().__init__(config={**config, "metadata": {"version": 3}})

    def has_test_docs(self):
        return True

    def test_docs(self):
        return [{"q": str(n), "a": str(n % 4)} for n in range(6)]

    def construct_requests(self, doc, ctx, apply_chat_template=False, chat_template=None, **kwargs):
        return [
            Instance(request_type="generate_until", doc=doc, arguments=(ctx + self.suffix, {"until": []}), idx=0, **kwargs),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " yes"), idx=1, **kwargs),
        ]

    def process_results(self, doc, results):
        text, (likelihood, greedy) = results
        return {"hit": doc["a"] in text, "yes": likelihood}

    def aggregation(self):
        return {"hit": mean, "yes": max}

    def higher_is_better(self):
        return {"hit": True, "yes": False}
"""

FILES = {
    "utils.py": UTILS,
    "asked.py": CLASS,
    "close.yaml": "task: close_to\ncustom_dataset: !function utils.data\ntest_split: test\n"
    "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\n"
    "filter_list: [{name: digits, filter: [{function: digits}, {function: take_first}]}]\n"
    "metric_list: [{metric: close, tolerance: 2}]\n",
    "asked.yaml": "task: asked\nclass: !function asked.Asked\nsuffix: '?'\noutput_type: generate_until\n"
    "doc_to_text: q\ndoc_to_target: a\n",
    "shaped.yaml": "task: shaped\nclass: !function shaped.Shaped\nformats: mcqa\ndoc_to_text: q\ndoc_to_target: a\n"
    "doc_to_choice: c\ncustom_dataset: !function shaped.data\ntest_split: test\n",
    "shaped.py": "from lm_eval.api.task import ConfigurableTask\n"
    "def data(**kwargs):\n    return {'test': [{'q': '1?', 'a': 1, 'c': ['x', 'y']}] * 2}\n"
    "class Shaped(ConfigurableTask):\n"
    "    def apply_filters(self):\n        return super().apply_filters()\n",
    "base.yaml": "num_fewshot: 0\n",
    "again.yaml": "task: again\ncustom_dataset: !function utils.data\ntest_split: test\n"
    "output_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: exact_match}]\n",
    "again.py": "from lm_eval.api.registry import register_metric\n"
    "@register_metric(metric='exact_match', higher_is_better=True, output_type='generate_until', aggregation='mean')\n"
    "def exact_match(references, predictions, **kwargs):\n    return 42.0\n",
    "group.yaml": "include: base.yaml\ngroup: of_both\ntask: [close_to, asked]\nmetadata: {version: 4}\n"
    "aggregate_metric_list: {metric: close}\n",
}


class Files(unittest.TestCase):
    """Tasks of a folder, with names that its modules register."""

    def setUp(self) -> None:
        """Write the folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in FILES.items():
            Path(folder.name, name).write_text(text, encoding="utf-8")
        self.manager = TaskManager(include_path=folder.name, include_defaults=False)

    def _same(self, name: str) -> Task:
        task = self.manager.load([name])["tasks"][name]
        task.build_all_requests()
        answer(Model(), task)
        task.process_instances()
        expected = scores(evaluated(name, task_manager=self.manager)[0])
        self.assertEqual(task.aggregate(100)[0], expected)
        return task

    def test_registered_names(self) -> None:
        """Filters, metrics and aggregations that `utils.py` registers are known to the scorers, too."""
        task = self._same("close_to")
        self.assertIsInstance(task, GenerateTask)
        (scorer,) = task.scorers
        self.assertEqual([metric.name for metric in scorer.metrics or ()], ["close"])
        self.assertEqual(task.aggregation()["close"]([1, 3, 2]), 3)
        self.assertEqual(task.higher_is_better(), {"close": True})
        expected = task.aggregate(100)
        scorer.metrics = list(scorer.metrics or ())
        scorer.context = {"tolerance": 1}
        self.assertTrue(task._has_own_scorers)
        task.process_instances()
        self.assertEqual(task.aggregate(100)[0], expected[0])

    def test_scorers_use_redefined_names(self) -> None:
        """The scorers of a task use names that its folder redefines, as a run does."""
        task = self._same("again")
        self.assertEqual(task.aggregate(0)[0]["exact_match,none"], 42.0)
        task.scorers[0].context = {"changed": True}
        self.assertTrue(task._has_own_scorers)
        task.process_instances()
        self.assertEqual(task.aggregate(0)[0]["exact_match,none"], 42.0)

    def test_config_names_the_class(self) -> None:
        """The configuration of a class names the class, as in the reference."""
        task = self._same("asked")
        self.assertEqual((task.VERSION, len(task.instances or [])), (3, 12))
        self.assertEqual([instance.request_type for instance in (task.instances or [])[:2]], ["generate_until", "loglikelihood"])

    def test_class_with_a_format(self) -> None:
        """The format is applied once, whoever calls; a warning lists the methods a run does not call."""
        task = self._same("shaped")
        self.assertEqual((task.instances or [])[0].args, ("Question: 1?\nA. x\nB. y\nAnswer:", " A"))
        self.assertEqual(task.doc_to_text(task.test_docs()[0]), "Question: 1?\nA. x\nB. y\nAnswer:")
        self.assertEqual(task.config.formats, "mcqa")

    def test_group_that_includes(self) -> None:
        """`include` of a group is followed, and the group records its origin."""
        loaded = self.manager.load(["of_both"])
        group = loaded["groups"]["of_both"]
        self.assertEqual((group.version, group.has_aggregation), ("4", True))
        self.assertEqual(group.to_dict()["task"], ["close_to", "asked"])
        self.assertEqual(group.child_names, ["of_both::close_to", "of_both::asked"])
        self.assertEqual(loaded["tasks"]["of_both::close_to"].config.num_fewshot, 0)
        results = lm_eval.evaluate(Model(), loaded, bootstrap_iters=0)
        (of_group,) = results["groups"].values()
        self.assertEqual(of_group, group.aggregate(results["results"]))


if __name__ == "__main__":
    unittest.main()
