"""`simple_evaluate` and `evaluate`, with the engine on the other end."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import lm_eval
from lm_eval import _engine, simple_evaluate
from lm_eval.api.filter import Filter
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM
from lm_eval.api.registry import register_aggregation, register_filter, register_metric, register_model
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager, get_task_dict

from tests import engine
from tests.engine import Lengths, sums_task
from tests.registries import RegistryTestCase

CHANGING = (
    "date",
    "total_evaluation_time_seconds",
    "fewshot_as_multiturn",
    "git_hash",
)
"""What differs between two runs, or between a flag that is not given and an argument."""


def setUpModule() -> None:
    """Use the program that was built for tests."""
    engine.set_up()


def scores(results: dict[str, Any], task: str) -> dict[str, Any]:
    """Return the scores of a task without its name and its errors."""
    entry = results["results"][task]
    return {key: value for key, value in entry.items() if "," in key and "stderr" not in key}


def _children(process: int) -> list[str]:
    """Return the number and the command of each process that a process has started."""
    command = ["ps", "--ppid", str(process), "-o", "pid=,args="]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "ps --ppid" not in line]


class Results(unittest.TestCase):
    """The result object, and the files that a tracker writes."""

    def test_same_files_as_the_command_line(self) -> None:
        """Results and records are the same bytes, whichever way they were asked for."""
        with tempfile.TemporaryDirectory() as folder:
            engine.run(
                *("run", "--quiet", "--model", "ngram", "--tasks", "demo_all,demo", "--limit", "6"),
                *("--log_samples", "--output_path", os.path.join(folder, "cli")),
            )
            tracker = EvaluationTracker(output_path=os.path.join(folder, "python"))
            results = simple_evaluate(
                model="ngram",
                model_args={},
                tasks=["demo_all", "demo"],
                limit=6.0,
                batch_size=1,
                device="cuda:0",
                gen_kwargs={},
                evaluation_tracker=tracker,
            )
            samples = results.pop("samples")
            tracker.save_results_aggregated(results=results, samples=samples)
            for task, records in samples.items():
                tracker.save_results_samples(task_name=task, samples=records)
            files = {}
            for way in ("cli", "python"):
                found = sorted(Path(folder, way).rglob("*.json*"))
                files[way] = {
                    path.name.rpartition("_")[0]: path.read_text(encoding="utf-8") for path in found
                }
            self.assertEqual(list(files["cli"]), list(files["python"]))
            self.assertGreater(len(files["cli"]), 10)
            for name, text in files["cli"].items():
                with self.subTest(name):
                    self.assertEqual(self._stable(text), self._stable(files["python"][name]))

    def _stable(self, text: str) -> list[str]:
        return [
            line for line in text.splitlines() if line.split('"')[1:2] not in [[name] for name in CHANGING]
        ]

    def test_the_object(self) -> None:
        """It has its parts, in order, with the types of Python."""
        results = simple_evaluate(model="ngram", tasks="demo_choice", limit=3, model_args="seed=1,order=3")
        self.assertEqual(
            list(results)[:9],
            [
                *("results", "groups", "group_subtasks", "configs", "versions", "n-shot"),
                *("higher_is_better", "n-samples", "samples"),
            ],
        )
        self.assertEqual(results["config"]["model_args"], "seed=1,order=3")
        self.assertEqual((results["config"]["limit"], results["config"]["device"]), (3, "cpu"))
        record = results["samples"]["demo_choice::demo_capitals"][0]
        self.assertIsInstance(record["arguments"][0], tuple)
        self.assertIsInstance(record["resps"][0][0], tuple)
        self.assertIsInstance(record["target"], int)
        without = simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=3, log_samples=False)
        self.assertNotIn("samples", without)
        unscored = simple_evaluate(
            model="ngram", tasks=["demo_capitals"], limit=3, log_samples=False, predict_only=True
        )
        self.assertEqual(len(unscored["samples"]["demo_capitals"]), 3)

    def test_arguments(self) -> None:
        """Settings reach the engine."""
        documents = {"demo_capitals": [1, 4]}
        results = simple_evaluate(model="ngram", tasks=["demo_capitals"], samples=documents, num_fewshot=2)
        self.assertEqual([record["doc_id"] for record in results["samples"]["demo_capitals"]], [1, 4])
        self.assertEqual(results["n-shot"], {"demo_capitals": 2})
        prompt = results["samples"]["demo_capitals"][0]["arguments"][0][0]
        self.assertEqual(prompt.count("Question:"), 3)
        plain = simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=2, bootstrap_iters=0)
        self.assertEqual(plain["results"]["demo_capitals"]["acc_stderr,none"], "N/A")
        self.assertIsNone(
            simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=2, bootstrap_iters=None)["config"][
                "bootstrap_iters"
            ]
        )
        older = simple_evaluate(model="ngram", tasks=["demo_choice"], limit=2, compat="0.4")
        self.assertIn("demo_capitals", older["results"])
        self.assertEqual(older["compat"], "0.4")
        settings = simple_evaluate(
            model="dummy", tasks=["demo_arithmetic"], limit=2, gen_kwargs="max_gen_toks=7,temperature=0.5"
        )
        used = settings["samples"]["demo_arithmetic"][0]["arguments"][0][1]
        self.assertEqual((used["max_gen_toks"], used["temperature"]), (7, 0.5))
        self.assertEqual(settings["config"]["gen_kwargs"], {"max_gen_toks": 7, "temperature": 0.5})

    def test_wrong_arguments(self) -> None:
        """Each is an exception of a fitting type that says what to do."""
        task = ["demo_capitals"]
        for arguments, kind, message in (
            ({"model": "ngram", "tasks": []}, ValueError, "no tasks"),
            ({"model": "ngram", "tasks": ("demo_capitals",)}, TypeError, "tuple"),
            ({"model": "ngram", "tasks": [7]}, TypeError, "int"),
            ({"model": 7, "tasks": task}, TypeError, "int"),
            ({"model": "engram", "tasks": task}, ValueError, "ngram"),
            ({"model": "ngram", "tasks": ["demo_capitels"]}, KeyError, "Did you mean `demo_capitals`"),
            ({"model": "ngram", "tasks": [{"task": "x", "nonsense": 1}]}, TypeError, "nonsense"),
            ({"model": "ngram", "tasks": task, "limit": 1, "samples": {}}, ValueError, "exclude"),
            ({"model": "ngram", "tasks": task, "limit": -1}, ValueError, "limit"),
            ({"model": "ngram", "tasks": task, "compat": "0.3"}, ValueError, "0.4"),
            ({"model": "ngram", "tasks": task, "num_fewshot": "two"}, ValueError, "whole number"),
            ({"model": "ngram", "tasks": task, "samples": {"other": [1]}}, ValueError, "demo_capitals"),
            ({"model": "ngram", "tasks": task, "check_integrity": True}, ValueError, "self-tests"),
            ({"model": "ngram", "tasks": [sums_task(unsafe_code=True)]}, ValueError, "confirm"),
        ):
            with self.subTest(str(arguments)), self.assertRaisesRegex(kind, message):
                simple_evaluate(**arguments)


class Registered(Lengths):
    """A model that is registered in this process."""


class Models(RegistryTestCase):
    """Models that are objects of this process."""

    def test_all_kinds_of_requests(self) -> None:
        """Each method is called with many requests at once, and the answers are scored."""
        model = Lengths("The answer is 85.")
        hook = model.cache_hook
        results = simple_evaluate(
            model=model, tasks=["demo_capitals", "demo_prose", "demo_arithmetic"], limit=4
        )
        self.assertEqual(
            sorted(model.calls), [("generate_until", 4), ("loglikelihood", 16), ("loglikelihood_rolling", 4)]
        )
        self.assertIs(model.cache_hook, hook)
        self.assertEqual(results["config"]["model"], "Lengths")
        self.assertIsNone(results["config"]["model_args"])
        shortest = [
            min(range(len(record["arguments"])), key=lambda place: len(record["arguments"][place][1]))
            == record["target"]
            for record in results["samples"]["demo_capitals"]
        ]
        self.assertEqual(scores(results, "demo_capitals")["acc,none"], sum(shortest) / 4)
        self.assertEqual(results["samples"]["demo_arithmetic"][0]["resps"], [["The answer is 85."]])

    def test_models_by_name(self) -> None:
        """A class that this process has registered is made with its arguments."""
        register_model("lengths-of-this-test")(Registered)
        results = simple_evaluate(
            model="lengths-of-this-test", model_args="answer=six", tasks=[sums_task()], batch_size=8
        )
        self.assertEqual(results["samples"]["sums"][0]["resps"], [["six"]])
        self.assertEqual(results["config"]["model"], "lengths-of-this-test")
        self.assertEqual(results["config"]["model_args"], "answer=six")
        with_object = simple_evaluate(
            model="lengths-of-this-test", model_args={"thing": object}, tasks=[sums_task()], limit=1
        )
        self.assertEqual(with_object["config"]["model_args"], {"thing": "<class 'object'>"})
        with self.assertRaisesRegex(TypeError, "twice"):
            simple_evaluate(
                model="lengths-of-this-test", model_args={"device": "a"}, device="b", tasks=["demo_capitals"]
            )

    def test_chat_templates(self) -> None:
        """Conversations go through the model's own template."""

        class Chat(Lengths):
            tokenizer_name = "mine"

            def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
                return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)

            def chat_template(self, chat_template: bool | str = False) -> str:
                return "the template"

        tracker = EvaluationTracker()
        results = simple_evaluate(
            model=Chat(),
            tasks=[sums_task(num_fewshot=1)],
            limit=1,
            apply_chat_template=True,
            system_instruction="Be brief.",
            evaluation_tracker=tracker,
        )
        prompt = results["samples"]["sums"][0]["arguments"][0][0]
        self.assertRegex(prompt, r"^<system>Be brief\.<user>\d\+1 =<assistant>\d<user>2\+2 =$")
        noted = tracker.general_config_tracker
        self.assertEqual((noted.chat_template, noted.model_source), ("the template", "CUSTOM"))

    def test_exceptions(self) -> None:
        """What a model raises is what the caller gets, with what the engine says as its cause."""
        trouble = ZeroDivisionError("of the model")

        class Broken(Lengths):
            def loglikelihood(self, requests: list[Any]) -> Any:
                raise trouble

        with self.assertRaises(ZeroDivisionError) as raised:
            simple_evaluate(model=Broken(), tasks=["demo_capitals"])
        self.assertIs(raised.exception, trouble)
        self.assertIn("Broken", str(raised.exception.__cause__))

        class Short(Lengths):
            def loglikelihood(self, requests: list[Any]) -> Any:
                return [(0.0, True)]

        with self.assertRaisesRegex(ValueError, "answers to"):
            simple_evaluate(model=Short(), tasks=["demo_capitals"])

    def test_answers_that_differ_from_early_ones(self) -> None:
        """Scores are those of the answers that are returned, or there are none."""

        class Stripping(Lengths):
            def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
                for request in requests:
                    self.cache_hook.add_partial("generate_until", request.args, "<think></think>4")
                return ["4" for _ in requests]

        with self.assertRaisesRegex(ValueError, r"returned `\('4',\)` for request 0 of 3, after it had given"):
            simple_evaluate(model=Stripping("4"), tasks=[sums_task()], limit=3)

    def test_cached_models(self) -> None:
        """A `CachingLM` is evaluated as the model inside, and its file answers the next one."""
        with tempfile.TemporaryDirectory() as folder:
            first, second = Lengths(), Lengths()
            cached = CachingLM(first, os.path.join(folder, "cache.db"))
            hook = first.cache_hook
            task = TaskManager().load(["demo_choice"])
            found = lm_eval.evaluate(cached, task, bootstrap_iters=0)
            self.assertEqual(found["results"], lm_eval.evaluate(Lengths(), task, bootstrap_iters=0)["results"])
            self.assertIs(first.cache_hook, hook)
            self.assertGreater(len(cached.dbdict), 0)
            again = CachingLM(second, os.path.join(folder, "cache.db"))
            results = simple_evaluate(again, tasks=["demo_choice"], bootstrap_iters=0)
            self.assertEqual(scores(results, "demo_choice"), scores(found, "demo_choice"))
            self.assertEqual((second.calls, results["config"]["model"]), ([], "Lengths"))

    def test_cached_models_that_hand_answers_over(self) -> None:
        """What a model hands over before it fails is in the file of its `CachingLM`."""

        class Failing(Lengths):
            def loglikelihood(self, requests: list[Any]) -> Any:
                """Hand over one answer."""
                self.cache_hook.add_partial("loglikelihood", requests[0].args, (-1.0, False))
                raise RuntimeError("out of memory")

        with tempfile.TemporaryDirectory() as folder:
            cached = CachingLM(Failing(), os.path.join(folder, "cache.db"))
            with self.assertRaisesRegex(RuntimeError, "out of memory"):
                simple_evaluate(cached, tasks=["demo_choice"], bootstrap_iters=0)
            self.assertEqual(len(cached.dbdict), 1)

    def test_answers_of_objects(self) -> None:
        """With one cache, an object gets the answers of an equal one, and none of others."""
        with tempfile.TemporaryDirectory() as folder:
            asked = []
            for answer in ("4", "4", "5"):
                lm = Lengths(answer)
                simple_evaluate(lm, tasks=[sums_task()], bootstrap_iters=0, use_cache=folder + "/cache")
                asked.append(bool(lm.calls))
        self.assertEqual(asked, [True, False, True])

    def test_answers_of_models_by_name(self) -> None:
        """A model with plain arguments is the same one in a later run, whatever it keeps in its attributes."""
        made: list[Lengths] = []

        @register_model("stamped")
        class Stamped(Lengths):
            def __init__(self, **arguments: Any) -> None:
                super().__init__(**arguments)
                self.made = len(made)
                made.append(self)

        with tempfile.TemporaryDirectory() as folder:
            for arguments in ({"answer": "4"}, {"answer": "4"}, {"answer": "5"}):
                simple_evaluate(
                    "stamped", arguments, tasks=[sums_task()], bootstrap_iters=0, use_cache=folder + "/cache"
                )
        self.assertEqual([bool(lm.calls) for lm in made], [True, False, True])


class Functions(RegistryTestCase):
    """Inline tasks with functions of this process."""

    def test_every_field(self) -> None:
        """Functions of documents, prompts, filters and metrics are called here."""
        seen: list[str] = []

        def process_docs(dataset: Any) -> Any:
            seen.append("process_docs")
            return dataset.map(lambda doc: {**doc, "q": f"What is {doc['q']}"})

        def doc_to_text(doc: dict[str, Any]) -> str:
            seen.append("doc_to_text")
            random.random()
            return f"{doc['q']}?"

        def first_word(resps: Any, docs: Any) -> Any:
            seen.append("filter")
            return [[answer.split()[0] for answer in answers] for answers in resps]

        def close(references: Any, predictions: Any, **kwargs: Any) -> float:
            seen.append("metric")
            return 1.0 / (1 + abs(int(references[0]) - int(predictions[0])))

        def worst(items: list[float]) -> float:
            seen.append("aggregation")
            return min(items)

        task = sums_task(
            process_docs=process_docs,
            doc_to_text=doc_to_text,
            filter_list=[{"name": "first", "filter": [{"function": "custom", "filter_fn": first_word}]}],
            metric_list=[{"metric": close, "aggregation": worst, "higher_is_better": True}],
        )
        random.seed(5)
        expected = random.Random(5)
        results = simple_evaluate(model=Lengths("4 is it"), tasks=[task], bootstrap_iters=0, random_seed=None)
        self.assertEqual(random.random(), expected.random())
        self.assertEqual(results["results"]["sums"]["close,first"], 1 / 15)
        self.assertEqual(set(seen), {"process_docs", "doc_to_text", "filter", "metric", "aggregation"})
        self.assertEqual(results["samples"]["sums"][0]["arguments"][0][0], "What is 2+2?")
        self.assertIn("def doc_to_text", results["configs"]["sums"]["doc_to_text"])

    def test_scores_of_the_task(self) -> None:
        """`process_results` gives scores; closures and bound methods are functions, too."""

        class Judge:
            def __init__(self, bonus: float) -> None:
                self.bonus = bonus

            def process_results(self, doc: dict[str, Any], results: list[str]) -> dict[str, float]:
                return {"points": self.bonus + float(results[0] == doc["a"])}

        task = sums_task(
            process_results=Judge(10.0).process_results,
            metric_list=[{"metric": "points", "aggregation": "mean", "higher_is_better": True}],
        )
        results = simple_evaluate(model=Lengths("4"), tasks=[task])
        self.assertEqual(scores(results, "sums"), {"points,none": 10.5})

    def test_names_of_this_process(self) -> None:
        """What was registered here is found by name, as what is built in."""

        @register_metric(
            metric="near_of_this_test",
            higher_is_better=True,
            aggregation="top_of_this_test",
            output_type="generate_until",
        )
        def near(references: Any, predictions: Any, **kwargs: Any) -> float:
            return -float(abs(int(references[0]) - int(predictions[0])))

        @register_aggregation("top_of_this_test")
        def top(items: list[float]) -> float:
            return max(items)

        @register_filter("digits_of_this_test")
        class Digits(Filter):
            def apply(self, resps: Any, docs: Any) -> Any:
                return [["".join(filter(str.isdigit, answer)) for answer in answers] for answers in resps]

        task = sums_task(
            filter_list=[
                {
                    "name": "digits",
                    "filter": [{"function": "digits_of_this_test"}, {"function": "take_first"}],
                }
            ],
            metric_list=[{"metric": "near_of_this_test"}],
        )
        results = simple_evaluate(model=Lengths("x5y"), tasks=[task], bootstrap_iters=0)
        self.assertEqual(scores(results, "sums"), {"near_of_this_test,digits": -1.0})

    def test_exceptions(self) -> None:
        """What a function raises is what the caller gets."""

        class Trouble(Exception):
            pass

        def doc_to_text(doc: dict[str, Any]) -> str:
            raise Trouble(doc["q"])

        with self.assertRaises(Trouble) as raised:
            simple_evaluate(model="ngram", tasks=[sums_task(doc_to_text=doc_to_text)])
        self.assertEqual(raised.exception.args, ("2+2",))
        self.assertIn("doc_to_text", str(raised.exception.__cause__))
        with self.assertRaisesRegex(RuntimeError, "nothing_like_it") as unknown:
            simple_evaluate(model="ngram", tasks=[sums_task(doc_to_text="{{ nothing_like_it }}")])
        self.assertIn("sums", str(unknown.exception))

    def test_functions_of_files(self) -> None:
        """Functions of task files run in workers; what they raise comes with their traceback."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "helpers.py").write_text(
                "import os\ndef data(**kwargs): return {'test': [{'q': str(os.getpid()), 'a': 'x'}]}\n"
                "def bad(doc): return 1 / 0\n"
            )
            text = (
                "task: {}\ncustom_dataset: !function helpers.data\ntest_split: test\n"
                "doc_to_text: {}\ndoc_to_target: a\n"
            )
            Path(folder, "a.yaml").write_text(text.format("of_file", "q"))
            Path(folder, "b.yaml").write_text(text.format("bad_file", "!function helpers.bad"))
            manager = TaskManager(include_path=folder, include_defaults=False)
            results = simple_evaluate(model="dummy", tasks=["of_file"], task_manager=manager)
            process = results["samples"]["of_file"][0]["arguments"][0][0]
            self.assertNotEqual(process, str(os.getpid()))
            with self.assertRaisesRegex(RuntimeError, r"helpers\.bad(.|\n)*ZeroDivisionError"):
                simple_evaluate(model="dummy", tasks=["bad_file"], task_manager=manager)


class OfClass(Task):
    """A task whose requests and scores are made in Python."""

    VERSION = 3
    OUTPUT_TYPE = "generate_until"

    def __init__(self, numbers: list[int] | None = None, config: Any = None) -> None:
        super().__init__(config=config or {"task": "of_class", "output_type": "generate_until"})
        self.numbers = numbers or [1, 2, 3, 4]

    def has_test_docs(self) -> bool:
        """There are."""
        return True

    def test_docs(self) -> Any:
        """Return the numbers."""
        return [{"n": number} for number in self.numbers]

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
        """Return a number as text."""
        return f"{doc['n']}?"

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> str:
        """Return the number's double."""
        return str(2 * doc["n"])

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """Return the one request."""
        kwargs.pop("apply_chat_template", None)
        kwargs.pop("chat_template", None)
        return Instance(
            request_type="generate_until", doc=doc, arguments=(ctx, {"until": ["\n"]}), idx=0, **kwargs
        )

    def process_results(self, doc: Any, results: Any) -> dict[str, float]:
        """Return whether the answer is right."""
        return {"right": float(results[0] == self.doc_to_target(doc))}

    def aggregation(self) -> Any:
        """Return how scores become one."""
        return {"right": lambda items: sum(items) / len(items)}

    def higher_is_better(self) -> Any:
        """Return that it is."""
        return {"right": True}


class Objects(unittest.TestCase):
    """Tasks that are objects."""

    def test_objects_as_tasks(self) -> None:
        """`simple_evaluate` takes objects among names and definitions."""
        plain = ConfigurableTask(config=sums_task(task="plain"))
        results = simple_evaluate(
            model=Lengths("4"), tasks=["demo_capitals", plain, OfClass([2, 3]), sums_task()], limit=3
        )
        self.assertEqual(list(results["results"]), ["demo_capitals", "plain", "of_class", "sums"])
        self.assertEqual(scores(results, "plain"), scores(results, "sums"))
        self.assertEqual(results["results"]["of_class"]["right,none"], 0.5)

    def test_chat_templates(self) -> None:
        """A task that makes its contexts itself is given the template of a model of this process."""

        class Chat(Lengths):
            def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
                return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)

            def chat_template(self, chat_template: bool | str = False) -> str:
                return "the template"

        class Turns(OfClass):
            def fewshot_context(self, doc: Any, num_fewshot: int, chat_template: Any = None, **_: Any) -> Any:
                return chat_template([{"role": "user", "content": self.doc_to_text(doc)}])

        results = simple_evaluate(model=Chat(), tasks=[Turns([2, 3])], apply_chat_template=True)
        prompts = [sample["arguments"][0][0] for sample in results["samples"]["of_class"]]
        self.assertEqual(prompts, ["<user>2?", "<user>3?"])

    def test_seeds_of_examples(self) -> None:
        """Objects have the seed of the run, and those that `evaluate` draws examples for have one in common."""

        class Drawing(OfClass):
            def fewshot_context(self, doc: Any, num_fewshot: int, **kwargs: Any) -> str:
                assert self.fewshot_rnd is not None
                return str(self.fewshot_rnd.random())

        def prompts(seed: int) -> list[str]:
            task = Drawing([1, 2, 3])
            results = simple_evaluate(model=Lengths("4"), tasks=[task], fewshot_random_seed=seed)
            self.assertEqual(task._fewshot_seed, seed)
            return [sample["arguments"][0][0] for sample in results["samples"]["of_class"]]

        self.assertEqual(prompts(1), prompts(1))
        self.assertNotEqual(prompts(1), prompts(2))
        tasks = {name: ConfigurableTask(config=sums_task(task=name, num_fewshot=1)) for name in ("one", "two")}
        tasks["two"].set_fewshot_seed(7)
        with self.assertRaisesRegex(ValueError, "`one` has 1234 and `two` has 7"):
            lm_eval.evaluate(Lengths("4"), {"tasks": tasks})
        tasks["one"].set_config("num_fewshot", 0)
        two = lm_eval.evaluate(Lengths("4"), {"tasks": tasks}, limit=2)
        alone = simple_evaluate(model=Lengths("4"), tasks=[tasks["two"]], limit=2, fewshot_random_seed=7)
        self.assertEqual(two["samples"]["two"], alone["samples"]["two"])

    def test_objects_with_data(self) -> None:
        """The engine loads the data of an object and renders its templates."""

        class Louder(ConfigurableTask):
            def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
                return str(super().doc_to_text(doc, doc_to_text)).upper()

        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder, "rows.jsonl")
            rows.write_text('{"q": "three", "a": "3"}\n{"q": "four", "a": "4"}\n', encoding="utf-8")
            fields = sums_task(
                task="louder",
                custom_dataset=None,
                fewshot_split=None,
                dataset_path="json",
                dataset_kwargs={"data_files": {"test": str(rows)}},
            )
            results = simple_evaluate(model=Lengths("4"), tasks=[Louder(config=fields)])
        self.assertEqual(results["samples"]["louder"][0]["arguments"][0][0], "THREE =")
        self.assertEqual(scores(results, "louder"), {"exact_match,none": 0.5})

    def test_classes_of_files(self) -> None:
        """A task file may name a class, whose object the manager makes."""
        code = """
            from lm_eval.api.task import ConfigurableTask

            class Mine(ConfigurableTask):
                def __init__(self, config=None):
                    super().__init__(config={**{k: v for k, v in config.items() if k != "class"}})

                def has_test_docs(self):
                    return True

                def test_docs(self):
                    return [{"q": "1", "a": "4"}, {"q": "2", "a": "5"}]
        """
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(textwrap.dedent(code), encoding="utf-8")
            Path(folder, "mine.yaml").write_text(
                "task: mine\nclass: !function mine.Mine\ndoc_to_text: q\ndoc_to_target: a\n"
                "output_type: generate_until\nmetric_list: [{metric: exact_match}]\n",
                encoding="utf-8",
            )
            manager = TaskManager(include_path=folder, include_defaults=False)
            loaded = manager.load("mine")
            self.assertEqual(type(loaded["tasks"]["mine"]).__name__, "Mine")
            results = lm_eval.evaluate(Lengths("4"), loaded)
            again = simple_evaluate(model=Lengths("4"), tasks=["mine"], task_manager=manager)
        self.assertEqual(scores(results, "mine"), {"exact_match,none": 0.5})
        self.assertEqual(results["results"], again["results"])

    def test_loaded_tasks(self) -> None:
        """`evaluate` takes what the manager loads, with what was changed since."""
        loaded = TaskManager().load(["demo_choice", "demo_arithmetic"])
        loaded["tasks"]["demo_arithmetic"].set_config("num_fewshot", 0)
        loaded["tasks"]["demo_arithmetic"].set_config("generation_kwargs", {"max_gen_toks": 3}, update=True)
        results = lm_eval.evaluate(Lengths(), loaded, limit=2)
        self.assertEqual(results["n-shot"]["demo_arithmetic"], 0)
        arguments = results["samples"]["demo_arithmetic"][0]["arguments"][0]
        self.assertEqual((arguments[0].count("Problem:"), arguments[1]["max_gen_toks"]), (1, 3))
        self.assertEqual(list(results["groups"]), ["demo_choice"])
        self.assertNotIn("config", results)
        expected = simple_evaluate(model=Lengths(), tasks=["demo_choice"], limit=2)
        self.assertEqual(results["groups"], expected["groups"])
        self.assertEqual(results["group_subtasks"], expected["group_subtasks"])

    def test_formats(self) -> None:
        """A prompt format stays what it is, and a field that was changed since counts."""
        loaded = TaskManager().load(["demo_facts@generate"])
        task = next(iter(loaded["tasks"].values()))
        expected = simple_evaluate(model=Lengths(), tasks=["demo_facts@generate"], limit=2)
        results = lm_eval.evaluate(Lengths(), loaded, limit=2)
        self.assertEqual(results["samples"], expected["samples"])
        task.set_config("doc_to_text", "CHANGED")
        changed = lm_eval.evaluate(Lengths(), loaded, limit=1)["samples"]
        self.assertIn("CHANGED", next(iter(changed.values()))[0]["arguments"][0][0])

    def test_nested_dictionaries(self) -> None:
        """The older form has groups as keys; its names are the short ones."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nested = get_task_dict(["demo_choice", "demo_capitals@mcqa"], TaskManager())
        self.assertEqual([warning.category for warning in caught], [DeprecationWarning])
        results = lm_eval.evaluate(Lengths(), nested, limit=2)
        self.assertEqual(
            results["group_subtasks"], {"demo_choice": ["demo_capitals", "demo_facts", "demo_sentiment"]}
        )
        expected = simple_evaluate(model=Lengths(), tasks=["demo_choice"], limit=2)
        self.assertEqual(results["groups"], expected["groups"])
        with self.assertRaisesRegex(TypeError, "LM"):
            lm_eval.evaluate("ngram", nested)  # type: ignore[arg-type]


class Surroundings(unittest.TestCase):
    """Threads, event loops, other streams, and the ends of processes."""

    def test_threads(self) -> None:
        """Evaluations in several threads do not meet."""
        found: dict[str, Any] = {}

        def work(answer: str) -> None:
            found[answer] = scores(simple_evaluate(model=Lengths(answer), tasks=[sums_task()]), "sums")

        threads = [threading.Thread(target=work, args=(answer,)) for answer in ("4", "6")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {"4": {"exact_match,none": 0.5}, "6": {"exact_match,none": 0.25}})

    def test_event_loops(self) -> None:
        """A loop that runs, as in a notebook, is no hindrance."""

        async def work() -> Any:
            return simple_evaluate(model=Lengths(), tasks=[sums_task()])

        self.assertEqual(scores(asyncio.run(work()), "sums"), {"exact_match,none": 0.5})

    def test_messages(self) -> None:
        """What the engine says goes to what stands for standard error."""
        stream = io.StringIO()
        with contextlib.redirect_stderr(stream):
            simple_evaluate(model="ngram", tasks=["demo_capitals"], limit=1, write_out=True)
        self.assertIn("capital", stream.getvalue())

    def _child(self, body: str, folder: str) -> subprocess.Popen[str]:
        code = (
            "import os, sys, time\nimport lm_eval\nfrom tests.engine import Lengths\n"
            "class Slow(Lengths):\n"
            "    def loglikelihood(self, requests):\n"
            "        print('asked', flush=True)\n"
            "        for request in requests:\n"
            "            time.sleep(0.02)\n"
            "            answer = (-float(len(request.args[1])), False)\n"
            "            self.cache_hook.add_partial('loglikelihood', request.args, answer)\n"
            "            yield answer\n" + textwrap.dedent(body)
        )
        environment = {**os.environ, "PYTHONPATH": str(engine.REPOSITORY / "python"), "FOLDER": folder}
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell may have let its background processes ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )

    def _engine_of(self, process: int) -> list[int]:
        return [int(line.split()[0]) for line in _children(process)]

    def test_interrupts(self) -> None:
        """Ctrl-C ends the engine in order, and what was answered is kept."""
        body = """
            try:
                cache = os.environ["FOLDER"] + "/cache"
                lm_eval.simple_evaluate(Slow(), tasks=["demo_capitals"], use_cache=cache)
            except KeyboardInterrupt as error:
                print("interrupted:", error, flush=True)
        """
        with tempfile.TemporaryDirectory() as folder:
            child = self._child(body, folder)
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "asked\n")
            time.sleep(0.5)
            engines = self._engine_of(child.pid)
            child.send_signal(signal.SIGINT)
            output, errors = child.communicate(timeout=30)
            self.assertIn("interrupted: The run was interrupted", output, errors)
            self.assertEqual(len(engines), 1)
            self._assert_ended(engines[0])
            listed = engine.run("journal", "ls", folder + "/cache.journal", "--json").stdout
            self.assertGreater(json.loads(listed.splitlines()[0])["answered"], 5)

    def test_messages_are_not_cut(self) -> None:
        """Ctrl-C finds that a message is being written, held back or sent, until that is over."""
        mine, theirs = socket.socketpair()
        self.addCleanup(mine.close)
        self.addCleanup(theirs.close)
        channel = _engine._Channel(mine.fileno(), lambda *_: None, lambda *_: None)
        seen: list[bool] = []

        def dumps(message: Any) -> str:
            seen.append(channel.is_writing)
            return "{}"

        def write(descriptor: int, frames: Any) -> int:
            seen.append(channel.is_writing)
            return len(frames)

        with mock.patch("lm_eval._protocol._dumps", dumps), mock.patch("lm_eval._protocol.os.write", write):
            channel.hold({})
            channel.flush()
            channel.write({})
            channel._flushed = 0
            channel.hold({})
        self.assertEqual((seen, channel.is_writing), ([True] * 6, False))

    def test_interrupts_without_calls(self) -> None:
        """Ctrl-C also ends an engine that asks nothing of this process."""
        body = """
            import http.server, threading
            class Silent(http.server.BaseHTTPRequestHandler):
                def do_POST(self):
                    print("asked", flush=True)
                    time.sleep(60)
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/v1/completions"
            args = {"model": "m", "base_url": url, "tokenizer_backend": None, "timeout": 2, "max_retries": 1}
            try:
                lm_eval.simple_evaluate("local-completions", args, tasks=["demo_arithmetic"], limit=1)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """
        with tempfile.TemporaryDirectory() as folder:
            child = self._child(body, folder)
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "asked\n")
            engines = self._engine_of(child.pid)
            child.send_signal(signal.SIGINT)
            output, errors = child.communicate(timeout=30)
            self.assertIn("interrupted", output, errors)
            self._assert_ended(engines[0])

    def test_killed_callers(self) -> None:
        """An engine whose caller is gone ends by itself."""
        with tempfile.TemporaryDirectory() as folder:
            child = self._child('lm_eval.simple_evaluate(Slow(), tasks=["demo_capitals"])', folder)
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "asked\n")
            engines = self._engine_of(child.pid)
            child.kill()
            child.communicate()
            self.assertEqual(len(engines), 1)
            self._assert_ended(engines[0])

    def test_killed_engines(self) -> None:
        """An engine that is killed is an exception."""

        class Killer(Lengths):
            def loglikelihood(self, requests: list[Any]) -> Any:
                for line in _children(os.getpid()):
                    if "serve-python" in line:
                        os.kill(int(line.split()[0]), signal.SIGKILL)
                return super().loglikelihood(requests)

        with self.assertRaisesRegex(RuntimeError, "signal 9"):
            simple_evaluate(model=Killer(), tasks=["demo_capitals"])

    def _assert_ended(self, process: int) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                # Its parent was killed, and whoever has it now will look after it.
                return
            time.sleep(0.05)
        self.fail(f"the process {process} is still there")


class Documentation(unittest.TestCase):
    """What the documentation shows."""

    def test_the_page(self) -> None:
        """Its examples run, one after the other, as in a notebook."""
        page = (engine.REPOSITORY / "docs" / "python-api.md").read_text(encoding="utf-8")
        blocks = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
        self.assertGreater(len(blocks), 4)
        namespace: dict[str, Any] = {"__name__": "page"}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
            os.mkdir(os.path.join(folder, "my_tasks"))
            os.chdir(folder)
            try:
                for block in blocks:
                    exec(block, namespace)
            finally:
                os.chdir(before)
            files = [path.name.partition("_")[0] for path in Path(folder, "results").rglob("*.json*")]
        self.assertEqual(sorted(files), ["results", "samples"])
        self.assertIn("|demo_capitals|", printed.getvalue())

    def test_the_command(self) -> None:
        """Typed by hand, the command for this package says what it is."""
        done = subprocess.run(
            [engine.program(), "serve-python"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("Python package", done.stderr)

    # Names that are documented, by module.
    NAMES: ClassVar[dict[str, tuple[str, ...]]] = {
        "lm_eval": ("simple_evaluate", "evaluate", "TaskManager", "__version__"),
        "lm_eval.evaluator": ("simple_evaluate", "evaluate"),
        "lm_eval.tasks": ("TaskManager", "TaskDict", "get_task_dict"),
        "lm_eval.loggers": ("EvaluationTracker",),
        "lm_eval.config.evaluate_config": ("EvaluatorConfig",),
        "lm_eval.config.task": ("TaskConfig", "MetricConfig", "FilterStep", "ScorerConfig", "FilterPipeline"),
        "lm_eval.api.group": ("Group", "ConfigurableGroup"),
        "lm_eval.utils": ("make_table", "simple_parse_args_string"),
    }

    def test_names(self) -> None:
        """They can be imported."""
        import importlib

        for module, names in self.NAMES.items():
            for name in names:
                self.assertTrue(hasattr(importlib.import_module(module), name), f"{module}.{name}")
        self.assertTrue(issubclass(Lengths, LM))


if __name__ == "__main__":
    unittest.main()
