"""`simple_evaluate` with models of this process, by name and as objects."""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
import unittest
from typing import Any

import lm_eval
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM
from lm_eval.api.registry import register_model
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

from tests import engine
from tests.engine import Lengths, scores, sums_task
from tests.registries import RegistryTestCase


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Registered(Lengths):
    """A model registered in this process."""


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
            min(range(len(record["arguments"])), key=lambda index: len(record["arguments"][index][1]))
            == record["target"]
            for record in results["samples"]["demo_capitals"]
        ]
        self.assertEqual(scores(results, "demo_capitals")["acc,none"], sum(shortest) / 4)
        self.assertEqual(results["samples"]["demo_arithmetic"][0]["resps"], [["The answer is 85."]])

    def test_documents_of_requests(self) -> None:
        """A model that reads `request.doc` gets the document, also in copies; only while its method runs."""
        kept: list[Any] = []

        class Reading(Lengths):
            def loglikelihood(self, requests: Any) -> Any:
                self.documents = [request.doc for request in requests]
                self.copies = [copy.copy(requests[0]), pickle.loads(pickle.dumps(requests[-1]))]
                return super().loglikelihood(requests)

            def generate_until(self, requests: Any) -> Any:
                kept.extend(requests)
                return super().generate_until(requests)

        model = Reading("x")
        results = simple_evaluate(model=model, tasks=["demo_capitals", sums_task()], limit=2)
        expected = [record["doc"] for record in results["samples"]["demo_capitals"]]
        self.assertEqual(model.documents, [doc for doc in expected for _ in doc["choices"]])
        self.assertEqual([request.doc for request in model.copies], expected)
        self.assertTrue(all(type(request) is Instance for request in model.copies))
        with self.assertRaisesRegex(RuntimeError, "only while the model's method runs"):
            _ = kept[0].doc
        # Also where nothing else needs the documents.
        simple_evaluate(model=model, tasks=["demo_capitals"], limit=2, log_samples=False)
        self.assertEqual(model.documents, [doc for doc in expected for _ in doc["choices"]])

    def test_objects_get_every_request(self) -> None:
        """Equal requests reach an object each time, in one evaluation and in the next, unless answers are saved."""
        task = sums_task(custom_dataset=lambda **_: {"test": [{"q": "2+2", "a": "4"}] * 3, "train": []})
        model = Lengths()
        for _ in range(2):
            simple_evaluate(model=model, tasks=[task])
        self.assertEqual(model.calls, [("generate_until", 3)] * 2)
        model.answer = "5"
        results = simple_evaluate(model=model, tasks=[task])
        self.assertEqual(results["samples"]["sums"][0]["resps"], [["5"]])
        with tempfile.TemporaryDirectory() as folder:
            model.calls.clear()
            simple_evaluate(model=model, tasks=[task], use_cache=os.path.join(folder, "answers"))
        self.assertEqual(model.calls, [("generate_until", 1)])

    def test_models_by_name(self) -> None:
        """A class registered in this process is constructed with its arguments."""
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
        with self.assertRaisesRegex(TypeError, "both as an argument"):
            simple_evaluate(
                model="lengths-of-this-test", model_args={"device": "a"}, device="b", tasks=["demo_capitals"]
            )

    def test_chat_templates(self) -> None:
        """Conversations are rendered by the model's own template."""

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
        """An exception of a model reaches the caller, with the engine's error as its cause."""
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

    def test_rejects_answers_that_differ_from_early_ones(self) -> None:
        """An answer that differs from the one handed over earlier is an error."""

        class Stripping(Lengths):
            def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
                for request in requests:
                    self.cache_hook.add_partial("generate_until", request.args, "<think></think>4")
                return ["4" for _ in requests]

        with self.assertRaisesRegex(ValueError, r"returned `\('4',\)` for request 0 of 3, after it had given"):
            simple_evaluate(model=Stripping("4"), tasks=[sums_task()], limit=3)

    def test_cached_models(self) -> None:
        """A `CachingLM` is evaluated as the model inside it, and its file answers the next run."""
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
        """Answers handed over before a failure are in the file of the `CachingLM`."""

        class Failing(Lengths):
            def loglikelihood(self, requests: list[Any]) -> Any:
                """Hand over one answer, then fail."""
                self.cache_hook.add_partial("loglikelihood", requests[0].args, (-1.0, False))
                raise RuntimeError("out of memory")

        with tempfile.TemporaryDirectory() as folder:
            cached = CachingLM(Failing(), os.path.join(folder, "cache.db"))
            with self.assertRaisesRegex(RuntimeError, "out of memory"):
                simple_evaluate(cached, tasks=["demo_choice"], bootstrap_iters=0)
            self.assertEqual(len(cached.dbdict), 1)

    def test_equal_objects_share_cached_answers(self) -> None:
        """Objects share cached answers only if they are equal."""
        with tempfile.TemporaryDirectory() as folder:
            asked = []
            for answer in ("4", "4", "5"):
                lm = Lengths(answer)
                simple_evaluate(lm, tasks=[sums_task()], bootstrap_iters=0, use_cache=folder + "/cache")
                asked.append(bool(lm.calls))
        self.assertEqual(asked, [True, False, True])

    def test_named_models_reuse_cached_answers(self) -> None:
        """Plain arguments identify a model in a later run, whatever its attributes are."""
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


if __name__ == "__main__":
    unittest.main()
