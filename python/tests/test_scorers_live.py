"""Scorers of the process that calls `simple_evaluate`: which methods are called, and their exceptions."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from typing import Any

import lm_eval
from lm_eval.api import registry
from lm_eval.api.registry import register_aggregation, register_metric, register_scorer
from lm_eval.scorers import GenScorer, ScoredDoc

from tests import engine
from tests.engine import Lengths, sums_task


class OwnTrouble(Exception):
    """An exception that cannot be rebuilt from its message."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(code)
        self.detail = detail


@dataclass
class LiveSteps(GenScorer):
    """Implements every step itself."""

    seen: int = 0

    def apply_filter(self, instances: Any) -> None:
        """Add the length of the prompt to each answer."""
        super().apply_filter(instances)
        for one in instances:
            answers = one.filtered_resps[self.name]
            one.filtered_resps[self.name] = [f"{answer}/{len(one.args[0])}" for answer in answers]

    def score(self, reference: Any, predictions: list[str], **kwargs: Any) -> dict[str, list[Any]]:
        """Return the number after the slash."""
        self.seen += 1
        return {"prompt": [int(answer.partition("/")[2]) for answer in predictions]}

    def reduce(self, scored_docs: Any) -> Any:
        """Double everything."""
        reduced = super().reduce(scored_docs)
        return {doc_id: {name: 2 * value for name, value in doc.items()} for doc_id, doc in reduced.items()}

    def aggregate(self, reduced_docs: Any, **options: Any) -> Any:
        """Add the number of documents the object has seen."""
        results, count = super().aggregate(reduced_docs, **options)
        return {**results, f"seen,{self.name}": self.seen}, count

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """Lower is better."""
        return {"prompt": False}


class LiveTrouble(GenScorer):
    """Fails in the step that its class names."""

    step = "score"

    def _fail(self, step: str) -> None:
        if step == type(self).step:
            raise OwnTrouble(7, detail=step)

    def apply_filter(self, instances: Any) -> None:
        """Fail, or filter."""
        self._fail("apply_filter")
        super().apply_filter(instances)

    def score_instances(self, instances: Any) -> dict[int, ScoredDoc]:
        """Fail, or score."""
        self._fail("score_instances")
        return super().score_instances(instances)

    def score(self, reference: Any, predictions: list[str], metric_kwargs: Any = None) -> Any:
        """Fail, or score."""
        self._fail("score")
        return {"m": [0.0 for _ in predictions]}

    def reduce(self, scored_docs: Any) -> Any:
        """Fail, or reduce."""
        self._fail("reduce")
        return super().reduce(scored_docs)

    def aggregate(self, reduced_docs: Any, **options: Any) -> Any:
        """Fail, or aggregate."""
        self._fail("aggregate")
        return super().aggregate(reduced_docs, **options)

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """Fail, or return the directions."""
        self._fail("higher_is_better")
        return super().higher_is_better


def _failing_aggregation(items: Any) -> float:
    raise OwnTrouble(8, detail="aggregation")


def _failing_metric(references: Any, predictions: Any) -> float:
    raise OwnTrouble(9, detail="metric")


def evaluate(**fields: Any) -> dict[str, Any]:
    """Return the results of the task about sums."""
    log_samples = fields.pop("log_samples", False)
    return lm_eval.simple_evaluate(
        Lengths(), tasks=[sums_task(**fields)], log_samples=log_samples, bootstrap_iters=10, verbosity="ERROR"
    )


class Live(unittest.TestCase):
    """Scorers of this process."""

    @classmethod
    def setUpClass(cls) -> None:
        """Use the debug binary, and register test classes until the tests end."""
        engine.set_up()
        for table in registry._REGISTRIES.values():
            len(table)
            cls.addClassCleanup(setattr, table, "_entries", dict(table._entries))
        register_scorer("live_steps")(LiveSteps)
        register_scorer("live_trouble")(LiveTrouble)
        register_aggregation("live_trouble")(_failing_aggregation)
        register_metric(metric="live_trouble", output_type="generate_until", aggregation="mean")(_failing_metric)

    def test_every_step_is_used(self) -> None:
        """With and without logged samples."""
        for log_samples in (False, True):
            answer = evaluate(scorer="live_steps", metric_list=[], log_samples=log_samples)
            scores = answer["results"]["sums"]
            self.assertEqual((scores["prompt,none"], scores["seen,none"]), (10.0, 4))
            self.assertEqual(answer["higher_is_better"]["sums"], {"prompt": False})

    def test_exceptions_arrive_unchanged(self) -> None:
        """The same objects, from every step, aggregation and metric."""
        steps = ("apply_filter", "score_instances", "score", "reduce", "aggregate", "higher_is_better")
        for step in steps:
            LiveTrouble.step = step
            with self.subTest(step):
                with self.assertRaises(OwnTrouble) as caught:
                    evaluate(scorer="live_trouble", metric_list=[])
                self.assertEqual((caught.exception.args, caught.exception.detail), ((7,), step))

        def inline(items: Any) -> float:
            raise OwnTrouble(10, detail="inline")

        for detail, entry in (
            ("aggregation", {"metric": "exact_match", "aggregation": "live_trouble"}),
            ("inline", {"metric": "exact_match", "aggregation": inline}),
            ("metric", {"metric": "live_trouble"}),
        ):
            with self.subTest(detail):
                with self.assertRaises(OwnTrouble) as caught:
                    evaluate(metric_list=[entry])
                self.assertEqual(caught.exception.detail, detail)

    def test_mean_rejects_lists(self) -> None:
        """A metric of this process that returns several numbers for one answer."""

        def marks(references: Any, predictions: Any) -> list[float]:
            return [1.0, 0.0]

        def flat(items: Any) -> float:
            return sum(sum(item) for item in items) / len(items)

        scores = evaluate(metric_list=[{"metric": marks, "aggregation": flat}])["results"]["sums"]
        self.assertEqual(scores["marks,none"], 1.0)
        with self.assertRaisesRegex(RuntimeError, "(?s)sums.*`mean` of `marks`.*document 0"):
            evaluate(metric_list=[{"metric": marks, "aggregation": "mean"}])


if __name__ == "__main__":
    unittest.main()
