"""Keys, scoring, reduction and aggregation of scorers."""

from __future__ import annotations

import unittest
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.scorers import GenScorer, LLScorer, MetricKey, ScoredDoc, build_scorer


def choice(idx: int, text: str, ll: float, **fields: Any) -> Instance[Any, Any]:
    """Return the answered request for one option."""
    answers = [(ll, fields.pop("greedy", False))]
    return Instance(
        request_type="loglikelihood",
        doc={},
        arguments=("Q:", text),
        idx=idx,
        doc_id=0,
        resps=answers,
        filtered_resps={"none": answers},
        **fields,
    )


def generated(answers: list[str], name: str, **fields: Any) -> Instance[Any, Any]:
    """Return the answered generation request."""
    return Instance("generate_until", {}, ("Q", {}), filtered_resps={name: answers}, **fields)


class Keys(unittest.TestCase):
    """Keys of results."""

    def test_parse_and_write(self) -> None:
        """Each row of the specification."""
        for text, metric, scorer, is_stderr, parent in (
            ("acc,none", "acc", "none", False, None),
            ("pass@1(exact_match)_stderr,strict", "pass@1(exact_match)", "strict", True, "exact_match"),
            ("a,b,c", "a", "b,c", False, None),
            ("pass@1(f(x)),n", "pass@1(f(x))", "n", False, "f(x)"),
        ):
            key = MetricKey.parse(text)
            assert key is not None
            self.assertEqual((key.metric, key.scorer, key.is_stderr), (metric, scorer, is_stderr))
            self.assertEqual(key.parent_metric, parent)
            self.assertEqual(str(key), text)
        self.assertIsNone(MetricKey.parse("alias"))


class Scoring(unittest.TestCase):
    """From answers to results."""

    def test_repeats_are_reduced_to_pass_at_k(self) -> None:
        """Four repeats of an exact match."""
        cfg = {
            "name": "s",
            "metric_list": [{"metric": "exact_match", "kwargs": {"regexes_to_ignore": ["x"]}}],
        }
        scorer = build_scorer(cfg, "generate_until")
        self.assertIsInstance(scorer, GenScorer)
        scored = scorer.score_instances({3: [generated(["0", "1", "2", "0"], "s", target="0x")]})
        self.assertEqual(scored[3].scores, {"exact_match": [1, 0, 0, 1]})
        scorer.set_results(scored)
        expected = {"pass@1(exact_match)": 0.5, "pass@3(exact_match)": 1.0, "pass@4(exact_match)": 1.0}
        self.assertEqual(scorer.reduced_docs, {3: expected})
        self.assertIs(scorer.higher_is_better["pass@3(exact_match)"], True)
        results, count = scorer.aggregate(scorer.reduced_docs)
        self.assertEqual(results["pass@1(exact_match),s"], 0.5)
        self.assertEqual(results["pass@1(exact_match)_stderr,s"], "N/A")
        self.assertEqual(count, 1)
        exported = scorer.export_reduced()
        scorer.import_reduced({**exported, 4: exported[3]})
        self.assertEqual((len(scorer.reduced_docs), len(scorer.raw_docs)), (2, 0))

    def test_choices(self) -> None:
        """Lengths with and without the delimiter, and mutual information."""
        cfg = {
            "name": "none",
            "metric_list": [{"metric": name} for name in ("acc", "acc_norm", "acc_mutual_info")],
        }
        scorer = build_scorer(cfg, "multiple_choice")
        self.assertIsInstance(scorer, LLScorer)
        requests = [
            choice(0, " ab", -2.2, target=1, metadata={"option_text": "ab"}),
            choice(1, " abcdef", -6.0, target=1, metadata={"option_text": "abcdef"}),
            choice(2, " ab", -1.0, target=1, metadata={"acc_mutual_info": True}),
            choice(3, " abcdef", -9.0, target=1, metadata={"acc_mutual_info": True}),
        ]
        scored = scorer.score_doc(0, requests)
        self.assertEqual(scored.scores, {"acc": [0], "acc_norm": [1], "acc_mutual_info": [1]})
        self.assertEqual(scored.reference, 1)
        for request in requests:
            request.metadata.pop("option_text", None)
        # Without the option strings, the delimiter is included: -2.2 / 3 beats -6 / 7.
        self.assertEqual(scorer.score_doc(0, requests).scores["acc_norm"], [0])
        with self.assertRaises(AssertionError):
            scorer.score_doc(0, requests[:3])

    def test_corpus_metrics_and_numbers(self) -> None:
        """The pair of a corpus metric is one value; so is a plain number."""

        def length(references: Any, predictions: Any) -> int:
            return len(predictions[0])

        cfg = {"name": "n", "metric_list": [{"metric": "bleu"}, {"metric": length, "aggregation": "mean"}]}
        scorer = build_scorer(cfg, "generate_until")
        text = "the cat sat on the mat"
        scored = scorer.score_instances({0: [generated([text], "n", target=text)]})
        self.assertEqual(scored[0].scores["length"], [len(text)])
        results, _ = scorer.aggregate(scorer.reduce(scored), bootstrap_iters=0)
        self.assertAlmostEqual(results["bleu,n"], 100.0)

    def test_defaults_and_errors(self) -> None:
        """What a scorer uses where nothing is configured."""
        self.assertEqual(
            [metric.name for metric in build_scorer(None, "multiple_choice").metrics or ()],
            ["acc", "acc_norm"],
        )
        first = build_scorer({"name": "none"}, "generate_until", {"type": "first_token"})
        self.assertEqual(
            [dict(metric.kwargs) for metric in first.metrics or ()],
            [{"ignore_case": True, "ignore_punctuation": True}],
        )
        with self.assertRaises(ValueError):
            build_scorer(None, "poetry")
        with self.assertRaises(KeyError):
            build_scorer(None, "generate_until", "unknown")
        with self.assertRaises(TypeError):
            build_scorer(None, "generate_until", {"type": "regex", "kwargs": {"regex_pattern": "x"}})
        with self.assertRaises(ValueError):
            build_scorer({"name": "n", "metric_list": [{"metric": "acc"}]}, "generate_until")

    def test_values_without_a_reduction(self) -> None:
        """A name without a metric keeps its first value, with a warning."""
        scorer = build_scorer({"name": "n"}, "generate_until")
        with self.assertLogs("lm_eval.scorers", "WARNING") as logged:
            reduced = scorer.reduce({0: ScoredDoc(0, "a", {"new": [3, 2]})})
        self.assertEqual(reduced, {0: {"new": 3}})
        self.assertIn("`new` has 2 values per document and no reduction", logged.output[0])

    def test_configuration_without_a_name(self) -> None:
        """The default name of a pipeline is `none`; results are kept as given."""
        scorer = GenScorer.from_dict({})
        self.assertEqual(scorer.name, "none")
        scored = {0: ScoredDoc(0, "a", {"exact_match": [1.0]})}
        scorer.set_results(scored)
        self.assertIs(scorer.raw_docs, scored)
        self.assertEqual(scorer.reduced_docs, {0: {"exact_match": 1.0}})


if __name__ == "__main__":
    unittest.main()
