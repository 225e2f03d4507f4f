"""Metrics, aggregations, reductions and standard errors return the recorded values."""

from __future__ import annotations

import unittest
from typing import Any

from lm_eval.api import metrics
from lm_eval.api.metrics._numeric import array, pairwise_sum
from lm_eval.api.registry import get_aggregation, get_metric

from tests.golden import GoldenTestCase, cases


class LoglikelihoodMetrics(GoldenTestCase):
    """Metrics over log-likelihoods."""

    def test_recorded_values(self) -> None:
        """Each metric of each case."""
        for number, case in enumerate(cases("metrics_loglikelihood")):
            for kind, target, options in (
                ("values", case["target"], {}),
                ("values_multiple_targets", case["targets"], {"multiple_targets": True}),
            ):
                for name, expected in case.get(kind, {}).items():
                    self._check(f"case {number} {name}", name, case, target, options, expected)

    def _check(
        self,
        message: str,
        name: str,
        case: dict[str, Any],
        target: Any,
        options: dict[str, Any],
        expected: Any,
    ) -> None:
        results = metrics.LLResults(
            results=[],
            targets=target,
            choices=case["choices"],
            lls_mutual_info=array(case["lls_mutual_info"]),
            lls=array(case["lls"]),
            is_greedy=case["is_greedy"],
        )
        metric = get_metric(name)
        assert metric is not None
        if "error" in expected:
            with self.assertRaises(Exception, msg=message):
                metric.compute(target, results, **options)
            type(self).compared += 1
        else:
            value = metric.compute(target, results, **options)
            self.assert_recorded(value, expected["out"], message)


class ExactMatch(GoldenTestCase):
    """Exact match."""

    def test_recorded_values(self) -> None:
        """Each case, called as scorers call it."""
        metric = get_metric("exact_match")
        assert metric is not None
        for number, case in enumerate(cases("metrics_exact_match")):
            value = metric.compute(case["references"], case["predictions"], **case["kwargs"])
            self.assert_recorded(value, case["out"], f"case {number}")

    def test_documented_table(self) -> None:
        """Numbers, null and list targets."""
        for references, predictions, options, expected in (
            ([42], ["42", "x"], {}, [0, 0]),
            ([42], ["42", "x"], {"regexes_to_ignore": [","]}, [1, 0]),
            ([42], ["42", "x"], {"ignore_punctuation": True}, [1, 0]),
            ([42], ["42"], {"ignore_case": True, "regexes_to_ignore": [","]}, [1]),
            (["a"], ["a", "b"], {}, [1, 0]),
            (["Hello"], ["hello!"], {"ignore_case": True, "ignore_punctuation": True}, [1]),
            (["x"], ["THE x"], {"regexes_to_ignore": ["the "], "ignore_case": True}, [0]),
            (["a"], ["a。"], {"ignore_punctuation": True}, [0]),
            ([["a", "b"]], ["b", "c"], {"multiple_targets": True}, [1, 0]),
            ([["a", "b"]], ["b", "c"], {}, [1, 0]),
            (["None"], [None], {"ignore_punctuation": True}, [1]),
            ([3.0], ["3.0"], {"regexes_to_ignore": ["x"]}, [1]),
            (["a\0"], ["a"], {}, [1]),
        ):
            value = metrics.exact_match_fn(references, predictions, **options)
            self.assertEqual(value, {"exact_match": expected}, (references, predictions, options))
        with self.assertRaises(TypeError):
            metrics.exact_match_fn([42], ["42"], ignore_case=True)
        with self.assertRaises(TypeError):
            metrics.exact_match_fn(["a"], ["a"], unknown_option=1)


class Aggregations(GoldenTestCase):
    """Aggregations and standard errors."""

    pairs = ("weighted_perplexity", "bits_per_byte", "weighted_mean")

    def test_recorded_values(self) -> None:
        """Each aggregation of each case."""
        for number, case in enumerate(cases("aggregations")):
            for name, expected in case["aggregations"].items():
                values = self._values(name, case)
                aggregation = get_aggregation(name)
                assert aggregation is not None
                self.assert_recorded(aggregation(values), expected["out"], f"case {number} {name}")

    def test_recorded_standard_errors(self) -> None:
        """Closed form and bootstrap."""
        for number, case in enumerate(cases("aggregations")):
            for key, expected in case["stderr"].items():
                name, _, iterations = key.partition("@")
                aggregation = get_aggregation(name)
                assert aggregation is not None
                stderr = metrics.stderr_for_metric(aggregation, int(iterations or 100000))
                assert stderr is not None
                value = stderr(self._values(name, case))
                self.assert_recorded(value, expected["out"], f"case {number} {key}")

    def test_sums_are_the_same_on_every_python(self) -> None:
        """Summation is left to right without compensation, or in numpy's order where the reference uses numpy."""
        self.assertEqual(metrics.mean([0.1] * 10), 0.09999999999999999)
        self.assertEqual(pairwise_sum([0.1] * 10), 1.0)
        self.assertEqual(metrics.median([4, 1, 3, 2]), 3)

    def test_no_standard_error_without_bootstrap(self) -> None:
        """Zero and `None` disable it."""
        self.assertIsNone(metrics.stderr_for_metric(metrics.mean, 0))
        self.assertIsNone(metrics.stderr_for_metric(metrics.mean, None))

    def _values(self, name: str, case: dict[str, Any]) -> Any:
        return [tuple(pair) for pair in case["pairs"]] if name in self.pairs else case["values"]


class PooledStandardErrors(GoldenTestCase):
    """Standard errors of groups."""

    def test_recorded_values(self) -> None:
        """Each case."""
        for number, case in enumerate(cases("pooled_stderr")):
            if "error" in case["pooled"]:
                with self.assertRaises(ZeroDivisionError):
                    metrics.pooled_sample_stderr(case["stderrs"], case["sizes"])
                type(self).compared += 1
                continue
            value = metrics.pooled_sample_stderr(case["stderrs"], case["sizes"])
            self.assert_recorded(value, case["pooled"]["out"], f"case {number}")


class PassAtK(GoldenTestCase):
    """pass@k."""

    def test_recorded_values(self) -> None:
        """Each case."""
        for number, case in enumerate(cases("pass_at_k")):
            value = metrics.pass_at_k(None, case["predictions"], k=case["k"])
            self.assert_recorded(value, case["out"], f"case {number}")


class CorpusMetrics(GoldenTestCase):
    """BLEU, chrF, TER, F1 and MCC."""

    def test_generations(self) -> None:
        """Each case of generations."""
        scorers = {"bleu": metrics.Bleu(), "chrf": metrics.Chrf(), "ter": metrics.Ter()}
        for number, case in enumerate(cases("corpus_text")):
            items = [([*wanted], [found]) for wanted, found in zip(case["references"], case["predictions"])]
            for name, metric in scorers.items():
                self.assert_recorded(metric.aggregation(items), case[name], f"case {number} {name}")

    def test_labels(self) -> None:
        """Each case of gold and predicted labels."""
        for number, case in enumerate(cases("f1_mcc")):
            items = list(zip(case["golds"], case["preds"]))
            for name, metric in (("f1", metrics.F1()), ("mcc", metrics.MCC())):
                message = f"case {number} {name}"
                if "error" in case[name]:
                    with self.assertRaises(ValueError, msg=message):
                        metric.aggregation(items)
                    type(self).compared += 1
                else:
                    self.assert_recorded(metric.aggregation(items), case[name]["out"], message)


if __name__ == "__main__":
    unittest.main()
