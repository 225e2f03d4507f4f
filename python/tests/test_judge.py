"""Judges from Python: bound to objects of this process, and asked by scorers."""

from __future__ import annotations

import unittest
from typing import Any

import lm_eval
from lm_eval.api.model import LM
from lm_eval.api.registry import register_scorer, scorer_registry
from lm_eval.judge import ask_judge
from lm_eval.scorers import GenScorer

from tests import engine
from tests.engine import Lengths, sums_task


class Strict(LM):
    """A judge that likes short prompts."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Answer with a grade."""
        prompts = [str(request.args[0]) for request in requests]
        self.asked.extend(prompts)
        return ["Well.\nGRADE: C" if "1+3" in prompt else "GRADE: I" for prompt in prompts]

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """Fail."""
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """Fail."""
        raise NotImplementedError


class Asking(GenScorer):
    """Asks the judge about all answers of a document at once."""

    def score(self, reference: Any, predictions: list[str], **kwargs: Any) -> dict[str, list[Any]]:
        """Return the number of words in the answers of the judge."""
        answers = ask_judge("grader", [f"{reference} {answer}" for answer in predictions], system="Be strict.")
        return {"words": [float(len(answer.split())) for answer in answers]}


def setUpModule() -> None:
    """Use the binary."""
    engine.set_up()
    register_scorer("asking_judge")(Asking)


def tearDownModule() -> None:
    """Leave the registry as it was."""
    scorer_registry._entries.pop("asking_judge")


class Judges(unittest.TestCase):
    """`simple_evaluate` with judges."""

    def task(self, **fields: Any) -> dict[str, Any]:
        """Return a task that is judged."""
        scorer = {
            "type": "judge",
            "role": "grader",
            "prompt": "{{ input }} {{ prediction }}",
            "verdicts": {"C": 1, "I": 0},
        }
        return sums_task(**{"scorer": scorer, "metric_list": [], **fields})

    def test_object_of_this_process(self) -> None:
        judge = Strict()
        results = lm_eval.simple_evaluate(Lengths(), tasks=[self.task()], judges={"grader": judge})
        name = next(iter(results["results"]))
        statistics = results["judging"][name]["none"]
        self.assertEqual(results["results"][name]["judge_score,none"], 0.25)
        self.assertEqual(statistics["verdict_counts"], {"C": 1, "I": 3})
        self.assertEqual(statistics["judgements"], len(judge.asked))
        self.assertEqual(results["judges"]["grader"]["answers"], len(judge.asked))
        sample = results["samples"][name][0]
        self.assertIn(sample["judgements"][0]["verdict"], ("C", "I"))

    def test_back_end_by_name(self) -> None:
        task = self.task(scorer={"type": "judge", "role": "grader", "template": "reference_qa"})
        results = lm_eval.simple_evaluate(
            Lengths(), tasks=[task], judges={"grader": {"backend": "stand-in-judge"}}
        )
        name = next(iter(results["results"]))
        self.assertEqual(results["judges"]["grader"]["model"], "stand-in-judge")
        self.assertEqual(results["judging"][name]["none"]["unparsed"], 0)

    def test_scorers_ask_bound_judges(self) -> None:
        task = sums_task(scorer="asking_judge", metric_list=[])
        results = lm_eval.simple_evaluate(Lengths(), tasks=[task], judges={"grader": "stand-in-judge"})
        self.assertEqual(results["results"]["sums"]["words,none"], 7.0)
        self.assertEqual(results["judges"]["grader"]["answers"], 4)

    def test_judge_of_this_process_cannot_answer_a_scorer_of_this_process(self) -> None:
        task = sums_task(scorer="asking_judge", metric_list=[])
        with self.assertRaisesRegex(Exception, "that process is waiting"):
            lm_eval.simple_evaluate(Lengths(), tasks=[task], judges={"grader": Strict()})

    def test_unbound_role_is_an_error(self) -> None:
        with self.assertRaisesRegex(Exception, "No judge is bound to the role `grader`"):
            lm_eval.simple_evaluate(Lengths(), tasks=[self.task()])

    def test_asking_outside_of_a_run_is_an_error(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "while a run scores"):
            ask_judge("grader", "x")
