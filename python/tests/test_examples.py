"""Code examples of the documentation can be typed in and return the documented values."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from lm_eval.api.filter import Filter
from lm_eval.api.instance import GenInstance, Instance, LLInstance
from lm_eval.api.metrics import LLResults, Metric
from lm_eval.api.metrics._numeric import array
from lm_eval.api.model import LM
from lm_eval.api.registry import (
    _dump,
    get_aggregation,
    get_filter,
    get_metric,
    get_model,
    get_reduction,
    register_aggregation,
    register_filter,
    register_metric,
    register_model,
    register_reduction,
    register_scorer,
)
from lm_eval.scorers import GenScorer, ScoredDoc, build_scorer

from tests.registries import RegistryTestCase


def generated(doc_id: int, target: Any, answers: list[str], pipeline: str) -> Instance[Any, Any]:
    """Return the answered request of a document."""
    return Instance(
        request_type="generate_until",
        doc={},
        arguments=("", {}),
        doc_id=doc_id,
        target=target,
        resps=answers,
        filtered_resps={pipeline: answers},
    )


class Metrics(RegistryTestCase):
    """User-defined metrics, aggregations and reductions."""

    def test_registered_metric(self) -> None:
        """A metric with its direction, output type and aggregation."""

        @register_metric(
            metric="my_metric", higher_is_better=False, output_type="generate_until", aggregation="mean"
        )
        def my_metric(references: Any, predictions: Any, **kwargs: Any) -> float:
            return 1.0 if predictions == references else 0.0

        metric = get_metric("my_metric")
        assert metric is not None
        self.assertEqual(metric.compute(["a"], ["a"], whatever=1), 1.0)
        self.assertEqual(metric.compute(["a"], ["b"]), 0.0)
        facts = _dump()["metric"]["my_metric"]
        self.assertEqual(facts["aggregation"], "mean")
        self.assertEqual(facts["output_type"], ["generate_until"])
        self.assertIs(facts["higher_is_better"], False)
        self.assertIs(facts["builtin"], False)
        overridden = Metric.from_dict(
            {"metric": "my_metric", "aggregation": "median", "higher_is_better": True}
        )
        self.assertIs(overridden.aggregation, get_aggregation("median"))
        self.assertTrue(overridden.higher_is_better)

    def test_metric_function_of_task_file(self) -> None:
        """A metric given as `!function` treats its arguments as strings."""

        def my_custom_metric(references: Any, predictions: Any, **kwargs: Any) -> float:
            return 1.0 if predictions.strip() == references.strip() else 0.0

        metric = Metric.from_dict({"metric": my_custom_metric, "ignored": 1}, "generate_until")
        self.assertEqual(metric.name, "my_custom_metric")
        self.assertEqual(metric.compute(["a"], [" a\n"]), 1.0)

    def test_pass_through_metric_with_its_aggregation(self) -> None:
        """The pair of labels is passed to the aggregation; a built-in metric can be defined again."""

        @register_aggregation("matthews_corrcoef")
        def matthews_corrcoef(items: Any) -> float:
            golds, predicted = zip(*items)
            return sum(left == right for left, right in zip(golds, predicted)) / len(golds)

        @register_metric(
            metric="mcc",
            higher_is_better=True,
            output_type="multiple_choice",
            aggregation="matthews_corrcoef",
        )
        def mcc_fn(items: Any) -> Any:
            return items

        metric = get_metric("mcc")
        assert metric is not None
        results = LLResults(results=[], targets=1, lls=array([-3.0, -1.0]), is_greedy=[False, True])
        pair = metric.compute(1, results)
        self.assertEqual(pair, (1, 1))
        self.assertEqual(metric.aggregate([pair, (0, 1)]), 0.5)

    def test_aggregation(self) -> None:
        """A registered aggregation is found by name."""

        @register_aggregation("my_aggregation")
        def my_aggregation(items: Any) -> float:
            return sum(items) / len(items)

        self.assertEqual(
            Metric.from_dict({"metric": "acc", "aggregation": "my_aggregation"}).aggregate([1, 0]), 0.5
        )

    def test_reduction(self) -> None:
        """The most frequent repeat, as a function and by name."""

        @register_reduction("my_reduction")
        def my_reduction(references: Any, predictions: Any) -> Any:
            return Counter(predictions).most_common(1)[0][0]

        self.assertIs(get_reduction("my_reduction"), my_reduction)
        cfg = {"name": "n", "metric_list": [{"metric": "exact_match", "reduction": my_reduction}]}
        scorer = build_scorer(cfg, "generate_until")
        scored = scorer.score_instances({0: [generated(0, "a", ["a", "b", "a"], "n")]})
        self.assertEqual(scorer.reduce(scored), {0: {"exact_match": 1}})

    def test_built_in_reductions(self) -> None:
        """The documented names exist."""
        for name in ("take_first", "mean", "pass_at_k"):
            self.assertIsNotNone(get_reduction(name), name)


class Filters(RegistryTestCase):
    """User-defined filters."""

    def test_filter_with_an_argument(self) -> None:
        """A filter that normalises answers."""

        @register_filter("normalize_answer")
        class NormalizeAnswerFilter(Filter):
            def __init__(self, strip_punct: bool = False) -> None:
                self.strip_punct = strip_punct

            def apply(self, resps: Any, docs: Any) -> Any:
                stripped = [[answer.strip().lower() for answer in answers] for answers in resps]
                if self.strip_punct:
                    stripped = [[answer.rstrip(".,;:!?") for answer in answers] for answers in stripped]
                return stripped

        cfg = {
            "name": "clean-match",
            "filter": [
                {"function": "normalize_answer", "kwargs": {"strip_punct": True}},
                {"function": "take_first"},
            ],
        }
        scorer = build_scorer(cfg, "generate_until")
        request = generated(0, "yes", [" Yes! ", "no"], "other")
        scorer.apply_filter([request])
        self.assertEqual(request.filtered_resps["clean-match"], ["yes"])
        self.assertIn("normalize_answer", _dump()["filter"])

    def test_filter_metric_and_pipeline_together(self) -> None:
        """Extracts a number from an answer and compares it with a tolerance."""

        @register_filter("extract_number")
        class ExtractNumberFilter(Filter):
            def apply(self, resps: Any, docs: Any) -> Any:
                def number(answer: str) -> str:
                    found = re.search(r"(\d+)", answer)
                    return found.group(1) if found else ""

                return [[number(answer) for answer in answers] for answers in resps]

        @register_metric(
            metric="numeric_match", higher_is_better=True, output_type="generate_until", aggregation="mean"
        )
        def numeric_match(references: Any, predictions: Any, tolerance: float = 0) -> float:
            try:
                return 1.0 if abs(float(references) - float(predictions)) <= tolerance else 0.0
            except (ValueError, TypeError):
                return 0.0

        self.assertIs(get_filter("extract_number"), ExtractNumberFilter)
        cfg = {
            "name": "numeric",
            "filter": [{"function": "extract_number"}, {"function": "take_first"}],
            "metric_list": [{"metric": "numeric_match", "tolerance": 0.01}],
        }
        scorer = build_scorer(cfg, "generate_until")
        requests = [
            generated(number, target, [answer], "unused")
            for number, (target, answer) in enumerate([("42", "it is 42."), ("7", "8"), ("1", "none")])
        ]
        scorer.apply_filter(requests)
        reduced = scorer.reduce(
            scorer.score_instances({request.doc_id or 0: [request] for request in requests})
        )
        results, count = scorer.aggregate(reduced)
        self.assertEqual(results["numeric_match,numeric"], 1 / 3)
        self.assertEqual(count, 3)


class Scorers(RegistryTestCase):
    """The three levels of user-defined scorers."""

    def test_configuration_only(self) -> None:
        """Default filters and metrics."""

        @register_scorer("last_number")
        @dataclass
        class LastNumberScorer(GenScorer):
            default_filter_cfg: ClassVar[Any] = [
                {"function": "regex", "kwargs": {"regex_pattern": r"(\d+)", "group_select": -1}},
                {"function": "take_first"},
            ]
            default_metric_cfg: ClassVar[Any] = [{"metric": "exact_match"}]

        scorer = build_scorer({"name": "none"}, "generate_until", "last_number")
        request = generated(0, "7", ["3 and 7"], "unused")
        scorer.apply_filter([request])
        self.assertEqual(scorer.score_doc(0, [request]).scores, {"exact_match": [1]})

    def test_per_document(self) -> None:
        """A custom score for each prediction."""

        @register_scorer("custom_match")
        @dataclass
        class CustomMatchScorer(GenScorer):
            def score(self, reference: Any, predictions: Any, metric_kwargs: Any = None) -> Any:
                return {"match": [float(reference in prediction) for prediction in predictions]}

        scorer = build_scorer(None, "generate_until", "custom_match")
        self.assertEqual(scorer.name, "custom_match")
        scored = scorer.score_doc(5, [generated(5, "x", ["axb"], "custom_match")])
        self.assertEqual(scored, ScoredDoc(doc_id=5, reference="x", scores={"match": [1.0]}))

    def test_batch(self) -> None:
        """All documents are passed to a judge at once; its name is an argument."""
        asked: list[Any] = []

        def batch_judge(model: str, pairs: dict[int, tuple[str, str]]) -> dict[int, float]:
            asked.append((model, len(pairs)))
            return {doc_id: float(wanted == found) for doc_id, (wanted, found) in pairs.items()}

        @register_scorer("ai_judge")
        @dataclass
        class AIJudgeScorer(GenScorer):
            judge_model: str = "stand-in"

            def score_instances(self, instances: Any) -> Any:
                inputs = {doc_id: self._extract_inputs(requests) for doc_id, requests in instances.items()}
                ratings = batch_judge(
                    self.judge_model,
                    {doc_id: (wanted, found[0]) for doc_id, (wanted, found, _) in inputs.items()},
                )
                return {
                    doc_id: ScoredDoc(doc_id=doc_id, reference=wanted, scores={"judge": [ratings[doc_id]]})
                    for doc_id, (wanted, _, _) in inputs.items()
                }

        scorer = build_scorer(
            {"name": "j"}, "generate_until", {"type": "ai_judge", "kwargs": {"judge_model": "strict"}}
        )
        scored = scorer.score_instances(
            {0: [generated(0, "a", ["a"], "j")], 1: [generated(1, "a", ["b"], "j")]}
        )
        self.assertEqual(asked, [("strict", 2)])
        results, _ = scorer.aggregate(scorer.reduce(scored))
        self.assertEqual(results["judge,j"], 0.5)
        self.assertEqual(results["judge_stderr,j"], 0.5)


class Models(RegistryTestCase):
    """User-defined models."""

    def test_model(self) -> None:
        """A model with the three methods."""

        @register_model("my-model", "my-alias")
        class MyModel(LM):
            def __init__(self, size: int = 1, batch_size: int | None = None) -> None:
                super().__init__()
                self.size = size

            def loglikelihood(self, requests: Any) -> Any:
                return [(-float(len(request.args[1])), False) for request in requests]

            def loglikelihood_rolling(self, requests: Any) -> Any:
                return [(-1.0, False) for _ in requests]

            def generate_until(self, requests: Any) -> Any:
                return ["x" * self.size for _ in requests]

        self.assertIs(get_model("my-alias"), MyModel)
        model = MyModel.create_from_arg_string("size=3", {"batch_size": None})
        request: GenInstance = Instance("generate_until", {}, ("p", {"until": ["\n"]}))
        self.assertEqual(model.generate_until([request]), ["xxx"])
        self.assertEqual((model.rank, model.world_size), (0, 1))
        with self.assertRaises(ValueError):
            get_model("unknown")
        with self.assertRaises(TypeError):
            register_model("no-model")(dict)

    def test_both_forms_of_instances(self) -> None:
        """Explicit fields, and the tuple of v0.4."""
        old: LLInstance = Instance(
            request_type="loglikelihood", doc={}, arguments=("c", " t"), idx=0, metadata=("task", 3, 2)
        )
        new: LLInstance = Instance(
            request_type="loglikelihood", doc={}, arguments=("c", " t"), task_name="task", doc_id=3, repeats=2
        )
        self.assertEqual(old, new)
        self.assertEqual(Instance("loglikelihood_rolling", {}, "text").args, ("text",))
