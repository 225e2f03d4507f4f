"""Inventory of the documented scoring API: every name exists, has its signature and works as documented.

Examples of the same pages are in `test_examples.py` and, run by the binary, in `test_examples_binary.py`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import os
import subprocess
import sys
import unittest
from collections.abc import Mapping
from typing import Any, Generic
from unittest import mock

from lm_eval.api import metrics
from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import LLResults, Metric
from lm_eval.api.registry import (
    aggregation_registry,
    get_aggregation,
    get_metric,
    get_reduction,
    metric_registry,
    register_aggregation,
    register_filter,
    register_metric,
)
from lm_eval.scorers import GenScorer, LLScorer, MetricKey, ScoredDoc, Scorer, build_scorer

from tests.registries import RegistryTestCase

SUBMODULES = ("metric", "aggregations", "corpus", "generation", "ll", "reduce", "stderr", "utils", "_types", "results")

LIKELIHOOD = {
    # Function, its registered name, and its parameters.
    "acc": ("acc", ("references", "predictions", "multiple_targets")),
    "acc_norm": ("acc_norm", ("references", "predictions", "multiple_targets")),
    "acc_bytes": ("acc_bytes", ("references", "predictions", "multiple_targets")),
    "acc_mutual_info_fn": ("acc_mutual_info", ("references", "predictions", "multiple_targets")),
    "exact_match_mc": ("exact_match_mc", ("references", "predictions")),
    "bpb": ("bpb", ("references", "predictions")),
    "logprob_fn": ("logprob", ("references", "predictions")),
    "brier_score": ("brier_score", ("references", "predictions")),
}

CORPUS = ("Perplexity", "WordPerplexity", "BytePerplexity", "BitsPerByte", "Bleu", "Chrf", "Ter", "F1", "MCC")

SCORERS = [
    "ChoiceMatchScorer",
    "FirstTokenScorer",
    "GenScorer",
    "LLScorer",
    "MetricKey",
    "ReducedDoc",
    "RegexExtractionScorer",
    "ScoredDoc",
    "Scorer",
    "build_scorer",
]


def parameters(function: Any) -> list[str]:
    """Return the names of a function's parameters, without `self` and `cls`."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def bundle(lls: list[float], choices: list[str], **fields: Any) -> LLResults:
    """Return log-likelihoods of options."""
    results: list[Any] = [[(ll, False)] for ll in lls]
    given = {"is_greedy": [False] * len(lls), "targets": 0, **fields}
    return LLResults(results=results, choices=choices, lls=metrics._numeric.array(lls), **given)


class MetricsPage(unittest.TestCase):
    """Built-in metrics, aggregations, corpus metrics, standard errors, types."""

    def test_modules(self) -> None:
        """The package is split as documented."""
        for name in SUBMODULES:
            importlib.import_module(f"lm_eval.api.metrics.{name}")
        from lm_eval.api.metrics import _types
        from lm_eval.api.metrics.metric import AggregationFn, MetricFn, ReductionFn

        self.assertIs(_types.MetricFn, MetricFn)
        self.assertIs(_types.AggregationFn, AggregationFn)
        self.assertIs(_types.ReductionFn, ReductionFn)

    def test_metrics_of_likelihoods(self) -> None:
        """Names, parameters, and a value of each."""
        results = bundle(
            [-4.0, -3.0], [" abcdefgh", " ab"], is_greedy=[True, False], lls_mutual_info=metrics._numeric.array([1, 2])
        )
        expected = {
            "acc": 0,
            "acc_norm": 1,
            "acc_bytes": 1,
            "acc_mutual_info_fn": 0,
            "exact_match_mc": 1,
            "bpb": 4.0 / 9 / math.log(2),
            "logprob_fn": -4.0,
            "brier_score": 2 * (1 / (1 + math.exp(-1))) ** 2,
        }
        for name, (registered, names) in LIKELIHOOD.items():
            function = getattr(metrics, name)
            self.assertEqual(tuple(parameters(function)), names, name)
            self.assertAlmostEqual(function(0, results), expected[name], msg=name)
            self.assertIs(get_metric(registered).fn, function)
            # A registered metric can be used like a `Metric`.
            self.assertAlmostEqual(metric_registry[registered].compute(0, results), expected[name], msg=name)
            self.assertEqual(metric_registry[registered].aggregate([1.0, 2.0]), 1.5)

    def test_exact_match(self) -> None:
        """`exact_match_fn`."""
        function = metrics.exact_match_fn
        self.assertEqual(parameters(function), ["references", "predictions", "multiple_targets", "kwargs"])
        self.assertEqual(function(["a"], ["a", "b"]), {"exact_match": [1, 0]})
        self.assertEqual(function([["a", "b"]], ["B"], True, ignore_case=True), {"exact_match": [1]})

    def test_aggregations(self) -> None:
        """Each by its function and by its name."""
        for name, values, expected in (
            ("mean", [1, 2, 6], 3.0),
            ("median", [1, 2, 6], 2),
            ("nanmean", [1.0, math.nan, 3.0], 2.0),
            ("weighted_mean", [(1.0, 1), (5.0, 2)], 2.0),
            ("perplexity", [-1.0, -3.0], math.exp(2)),
            ("weighted_perplexity", [(-1.0, 1), (-5.0, 2)], math.exp(2)),
            ("bits_per_byte", [(-1.0, 1), (-5.0, 2)], 2 / math.log(2)),
        ):
            function = getattr(metrics, name)
            self.assertAlmostEqual(function(values), expected, msg=name)
            self.assertIs(get_aggregation(name), function)
            self.assertIs(aggregation_registry[name], function)

    def test_corpus_metrics(self) -> None:
        """Their classes, base classes, and the path from documents to a score."""
        from lm_eval.api.metrics.corpus import CorpusMetric, _SacrebleuCorpusMetric

        self.assertTrue(inspect.isabstract(CorpusMetric))
        self.assertTrue(issubclass(CorpusMetric, Generic))
        for name in CORPUS:
            made = getattr(metrics, name)()
            self.assertIsInstance(made, CorpusMetric)
            self.assertEqual(issubclass(type(made), _SacrebleuCorpusMetric), name in ("Bleu", "Chrf", "Ter"), name)
            self.assertEqual(parameters(made.aggregation), ["items"])
        results = bundle([-2.0], ["one two"])
        self.assertEqual(metrics.Perplexity()(0, results), -2.0)
        self.assertEqual(metrics.WordPerplexity()(0, results), (-2.0, 2))
        self.assertEqual(metrics.BytePerplexity()(0, results), (-2.0, 7))
        self.assertAlmostEqual(metrics.BitsPerByte().aggregation([(-2.0, 7)]), 2 / 7 / math.log(2))
        self.assertAlmostEqual(metrics.Bleu().aggregation([(["a b c d"], ["a b c d"])]), 100.0)
        self.assertEqual(metrics.Ter().aggregation([(["a b"], ["a b"])]), 0.0)
        self.assertAlmostEqual(metrics.Chrf().aggregation([(["abc"], ["abc"])]), 100.0)
        pairs = [metrics.F1()(1, bundle([-2.0, -1.0], ["a", "b"])), metrics.MCC()(0, bundle([-1.0, -2.0], ["a", "b"]))]
        self.assertEqual(pairs, [(1, 1), (0, 0)])
        self.assertEqual((metrics.F1().aggregation(pairs), metrics.MCC().aggregation(pairs)), (1.0, 1.0))
        with self.assertLogs("lm_eval", "WARNING"):
            self.assertEqual(metrics.F1().reduce(0, [(1, 1), (0, 0)]), (1, 1))

    def test_standard_errors(self) -> None:
        """Which standard error each aggregation has."""
        self.assertEqual(parameters(metrics.stderr_for_metric), ["metric", "bootstrap_iters"])
        self.assertEqual(parameters(metrics.bootstrap_stderr), ["f", "xs", "iters"])
        self.assertIsNone(metrics.stderr_for_metric(metrics.mean, 0))
        self.assertIs(metrics.stderr_for_metric(metrics.mean, 5), metrics.mean_stderr)
        self.assertAlmostEqual(metrics.mean_stderr([0.0, 1.0]), 0.5)
        found = metrics.stderr_for_metric(metrics.median, 1500)
        assert found is not None
        self.assertEqual(found([1, 2, 5, 9]), metrics.bootstrap_stderr(metrics.median, [1, 2, 5, 9], 1500))

    def test_bootstrap_without_processes(self) -> None:
        """With the variable set, and a function that cannot be pickled."""
        with mock.patch.dict(os.environ, {"LMEVAL_DISABLE_MULTIPROC": "1"}):
            calls: list[int] = []
            metrics.bootstrap_stderr(lambda xs: calls.append(os.getpid()) or xs[0], [1.0, 2.0], 10)
        self.assertEqual(calls, [os.getpid()] * 10)

    def test_metric_record(self) -> None:
        """Fields, defaults, and rejected values."""
        self.assertTrue(dataclasses.is_dataclass(Metric) and issubclass(Metric, Generic))
        names = ["name", "fn", "kwargs", "aggregation", "higher_is_better", "output_type", "reduction"]
        self.assertEqual(parameters(Metric), names)
        self.assertEqual(parameters(Metric.from_dict), ["cfg", "output_type"])
        made: Metric[float, float] = Metric("m", lambda references, predictions, **kw: float(kw["x"]))
        self.assertEqual((made.aggregation, made.higher_is_better, made.output_type), (None, True, {"multiple_choice"}))
        self.assertIs(made.reduction, metrics.take_first)
        self.assertEqual(made.compute(["a"], ["b"], x=3), 3.0)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            made.name = "n"  # type: ignore[misc]
        with self.assertRaisesRegex(ValueError, "aggregation"):
            made.aggregate([1.0])
        with self.assertRaises(TypeError):
            Metric("m", 3)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            Metric("m", abs, aggregation="mean")  # type: ignore[arg-type]
        with self.assertRaises(ValueError):
            Metric("", abs)  # type: ignore[arg-type]
        with self.assertRaises(ValueError):
            Metric.from_dict({"metric": "acc", "aggregation": "maen"}, "multiple_choice")
        self.assertEqual(Metric.from_dict({"metric": "acc"}, "multiple_choice").aggregate([0, 1]), 0.5)

    def test_parse_metric(self) -> None:
        """All kinds of entries."""
        from lm_eval.api.metrics.utils import parse_metric

        entry = {"metric": "exact_match", "ignore_case": True}
        self.assertEqual(dict(parse_metric(entry, "generate_until").kwargs), {"ignore_case": True})
        self.assertEqual(parse_metric("acc").name, "acc")
        self.assertEqual(parse_metric(metrics.acc, "multiple_choice").name, "acc")
        made: Metric[Any, Any] = Metric("m", abs)  # type: ignore[arg-type]
        self.assertIs(parse_metric(made), made)
        with self.assertRaises(TypeError):
            parse_metric(3)

    def test_ll_results(self) -> None:
        """Fields, lengths, and the arguments of metrics."""
        fields = inspect.signature(LLResults).parameters
        positional = ["results", "targets", "ctx", "choices", "lls_mutual_info", "metadata"]
        kinds = {name: parameter.kind for name, parameter in fields.items()}
        by_position = [name for name, kind in kinds.items() if kind is not inspect.Parameter.KEYWORD_ONLY]
        self.assertEqual(by_position, positional)
        for name in ("lls", "is_greedy"):
            self.assertIs(kinds[name], inspect.Parameter.KEYWORD_ONLY)
            self.assertIs(fields[name].default, inspect.Parameter.empty)
        results = bundle([-1.0, -2.0], [" é", "a b"])
        self.assertEqual(list(results.char_len()), [2, 3])
        self.assertEqual(list(results.byte_len()), [3, 3])
        self.assertEqual(list(results.word_len()), [2, 2])
        inputs = results.to_metric_inputs()
        self.assertEqual(get_metric("acc").compute(**inputs), 1)
        self.assertIs(inputs["predictions"], results)
        self.assertEqual(parameters(LLResults.from_instances), ["results", "filter_name"])

    def test_likelihoods_are_arrays(self) -> None:
        """Arrays are used where numpy is installed, whoever imports it first."""
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("numpy is not installed")
        program = (
            "import sys; from lm_eval.api.metrics import LLResults; from lm_eval.api.instance import Instance\n"
            "assert 'numpy' not in sys.modules\n"
            "one = Instance('loglikelihood', {}, ('c', ' a'), 0, doc_id=0, target=0,"
            " filtered_resps={'none': [(-1.0, True)]})\n"
            "results = LLResults.from_instances([one])\n"
            "import numpy\n"
            "assert isinstance(results.lls, numpy.ndarray) and results.lls.dtype == numpy.float64\n"
            "assert isinstance(results.lls_mutual_info, numpy.ndarray)\n"
        )
        folder = os.path.dirname(os.path.dirname(os.path.abspath(importlib.import_module("lm_eval").__file__ or "")))
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)


class ScorersPage(RegistryTestCase):
    """The scorers and the records that they pass on."""

    def test_names(self) -> None:
        """The package exports exactly these names, and each module has its own."""
        package = importlib.import_module("lm_eval.scorers")
        self.assertEqual(sorted(package.__all__), SCORERS)
        base = importlib.import_module("lm_eval.scorers._base")
        extraction = importlib.import_module("lm_eval.scorers.extraction")
        types = importlib.import_module("lm_eval.scorers._types")
        for name in ("Scorer", "GenScorer", "LLScorer", "build_scorer"):
            self.assertIs(getattr(base, name), getattr(package, name))
        for name in ("ChoiceMatchScorer", "FirstTokenScorer", "RegexExtractionScorer"):
            self.assertIs(getattr(extraction, name), getattr(package, name))
            self.assertTrue(issubclass(getattr(package, name), GenScorer))
        for name in ("MetricKey", "ReducedDoc", "ScoredDoc"):
            self.assertIs(getattr(types, name), getattr(package, name))
        self.assertEqual(base._ScorerCfg.__required_keys__, {"name"})
        self.assertEqual(base._ScorerCfg.__optional_keys__, {"filter", "metric_list"})

    def test_signatures(self) -> None:
        """Constructors and methods."""
        for scorer in (Scorer, GenScorer, LLScorer):
            self.assertTrue(dataclasses.is_dataclass(scorer))
            signature = inspect.signature(scorer).parameters
            self.assertEqual(list(signature), ["name", "filter", "metrics", "context"])
            self.assertTrue(all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in signature.values()))
            self.assertIsNone(scorer.default_filter_cfg)
            self.assertIsNone(scorer.default_metric_cfg)
        for function, names in (
            (GenScorer.score, ["reference", "predictions", "metric_kwargs"]),
            (Scorer.score_doc, ["doc_id", "doc_instances"]),
            (Scorer.score_instances, ["instances"]),
            (Scorer.apply_filter, ["instances"]),
            (Scorer.reduce, ["scored_docs"]),
            (Scorer.aggregate, ["reduced_docs", "bootstrap_iters", "aggregation_overrides"]),
            (Scorer.export_reduced, []),
            (Scorer.import_reduced, ["doc_data"]),
            (build_scorer, ["cfg", "output_type", "scorer_type"]),
            (MetricKey.parse, ["key"]),
        ):
            self.assertEqual(parameters(function), names, function)
        for name in ("raw_docs", "reduced_docs", "higher_is_better"):
            self.assertIsInstance(vars(Scorer)[name], property)
        with self.assertRaises(NotImplementedError):
            Scorer(name="n", filter=FilterEnsemble("n", [])).score_doc(0, [])

    def test_pipeline(self) -> None:
        """Filter, score, reduce, aggregate, export and import."""
        cfg: Any = {
            "name": "strict",
            "filter": [{"function": "regex", "regex_pattern": r"(\d)"}, {"function": "take_first"}],
            "metric_list": [{"metric": "exact_match", "aggregation": "mean"}],
        }
        scorer = Scorer.from_dict.__func__(GenScorer, cfg, output_type="generate_until")
        instances = [
            Instance("generate_until", {}, (f"q{number}", {}), 0, doc_id=number, resps=[answer], target="4")
            for number, answer in enumerate(["it is 4", "it is 5"])
        ]
        scorer.apply_filter(instances)
        scored = scorer.score_instances({one.doc_id: [one] for one in instances})
        self.assertEqual(scored[0], ScoredDoc(doc_id=0, reference="4", scores={"exact_match": [1]}))
        with self.assertRaises(dataclasses.FrozenInstanceError):
            scored[0].doc_id = 1
        reduced = scorer.reduce(scored)
        self.assertEqual(reduced, {0: {"exact_match": 1}, 1: {"exact_match": 0}})
        self.assertEqual((scorer.raw_docs, scorer.reduced_docs), ({}, {}))
        results, count = scorer.aggregate(reduced, bootstrap_iters=0)
        self.assertEqual((results["exact_match,strict"], results["exact_match_stderr,strict"], count), (0.5, "N/A", 2))
        scorer.set_results(scored)
        self.assertEqual((scorer.raw_docs, scorer.reduced_docs), (scored, reduced))
        exported = scorer.export_reduced()
        self.assertEqual(exported, reduced)
        self.assertIsNot(exported, scorer.reduced_docs)
        scorer.import_reduced({**exported, 2: {"exact_match": 1}})
        self.assertEqual((len(scorer.raw_docs), len(scorer.reduced_docs)), (0, 3))
        self.assertEqual(scorer.higher_is_better, {"exact_match": True})
        scorer.set_results(scored, {0: {"other": 1}})
        self.assertEqual(scorer.reduced_docs, {0: {"other": 1}})
        overrides = {"new": max}
        self.assertEqual(scorer.aggregate({0: {"new": 1}, 1: {"new": 3}}, 0, overrides)[0]["new,strict"], 3)

    def test_defaults_and_arguments(self) -> None:
        """Which filters and metrics apply, and where arguments go."""

        class Upper(Filter):
            def apply(self, resps: Any, docs: Any) -> Any:
                return [[answer.upper() for answer in answers] for answers in resps]

        @dataclasses.dataclass(kw_only=True)
        class Own(GenScorer):
            default_filter_cfg = [Upper]
            default_metric_cfg = [Metric("m", lambda references, predictions: 1.0, aggregation=metrics.mean)]
            judge: str = "small"

            @classmethod
            def from_dict(cls, cfg: Mapping[str, Any], *, output_type: str | None = None, **kw: Any) -> Any:
                made = super().from_dict(cfg, output_type=output_type, **kw)
                made.judge += "!"
                return made

        self.assertEqual(Own.default_scorer().judge, "small!")
        made = Own.from_dict({"name": "n"}, judge="large")
        self.assertEqual((made.judge, [one.name for one in made.metrics or ()]), ("large!", ["m"]))
        named = Own.from_dict({"name": "n", "metric_list": [{"metric": "exact_match"}]}, output_type="generate_until")
        self.assertEqual([one.name for one in named.metrics or ()], ["exact_match"])
        from lm_eval.api.registry import register_scorer

        register_scorer("inventory_own")(Own)
        for spec in ({"type": "inventory_own", "judge": "x"}, {"type": "inventory_own", "kwargs": {"judge": "x"}}):
            built = build_scorer(None, "generate_until", spec)  # type: ignore[arg-type]
            self.assertEqual((type(built), built.judge), (Own, "x!"))  # type: ignore[attr-defined]
        self.assertIs(type(build_scorer(None, "generate_until")), GenScorer)
        for output_type in ("loglikelihood", "loglikelihood_rolling", "multiple_choice"):
            self.assertIs(type(build_scorer(None, output_type)), LLScorer)

    def test_signatures_of_own_methods(self) -> None:
        """`score` is called with the parameters it has."""
        seen: list[Any] = []

        class Two(GenScorer):
            def score(self, reference: Any, predictions: Any) -> Any:  # type: ignore[override]
                seen.append(None)
                return {"m": [1.0]}

        class Named(GenScorer):
            def score(self, reference: Any, predictions: Any, *, metric_kwargs: Any = None) -> Any:
                seen.append(metric_kwargs)
                return {"m": [1.0]}

        class Anything(GenScorer):
            def score(self, reference: Any, predictions: Any, **kwargs: Any) -> Any:  # type: ignore[override]
                seen.append(kwargs)
                return {"m": [1.0]}

        one = Instance("generate_until", {}, ("q", {}), 0, doc_id=0, target="a", filtered_resps={"n": ["a"]})
        for scorer in (Two, Named, Anything):
            made = scorer(name="n", filter=FilterEnsemble("n", []))
            self.assertEqual(made.score_doc(0, [one]).scores, {"m": [1.0]})
            self.assertEqual(made._extract_inputs([one]), ("a", ["a"], {}))
        self.assertEqual(seen, [None, {}, {"metric_kwargs": {}}])

    def test_reduction_of_repeats(self) -> None:
        """A single value stays; several are reduced; a mapping makes composite names."""
        scorer = build_scorer({"name": "n"}, "generate_until")
        scored = {0: ScoredDoc(0, "a", {"exact_match": [1, 0]}), 1: ScoredDoc(1, "a", {"exact_match": [1, 1]})}
        scorer.set_results(scored)
        self.assertEqual(scorer.reduced_docs[0], {"pass@1(exact_match)": 0.5, "pass@2(exact_match)": 1.0})
        self.assertTrue(scorer.higher_is_better["pass@1(exact_match)"])
        key = MetricKey.parse("pass@1(exact_match)_stderr,n")
        assert key is not None
        self.assertEqual(str(key), "pass@1(exact_match)_stderr,n")
        self.assertEqual((key.parent_metric, key.is_stderr), ("exact_match", True))
        self.assertIsNone(MetricKey.parse("alias"))

    def test_lists_of_metrics(self) -> None:
        """A list with one value per prediction is kept; any other list is one value."""

        def marks(references: Any, predictions: Any) -> list[int]:
            return [1, 0, 1]

        scorer = build_scorer({"name": "n", "metric_list": [{"metric": marks}]}, "generate_until")
        self.assertEqual(scorer.score("a", ["b"]), {"marks": [[1, 0, 1]]})  # type: ignore[attr-defined]
        self.assertEqual(scorer.score("a", ["b"] * 3), {"marks": [1, 0, 1]})  # type: ignore[attr-defined]

        def best(references: Any, predictions: Any) -> list[int]:
            return [max(len(answer) for answer in predictions)]

        scorer = build_scorer({"name": "n", "metric_list": [{"metric": best}]}, "generate_until")
        self.assertEqual(scorer.score("a", ["b", "cc"]), {"best": [2]})  # type: ignore[attr-defined]


class CustomPage(RegistryTestCase):
    """The decorators, with their parameters."""

    def test_decorators(self) -> None:
        """Parameters and what they register."""
        names = ["name", "metric", "higher_is_better", "aggregation", "reduction", "output_type"]
        self.assertEqual(parameters(register_metric), names)

        @register_aggregation("inventory_sum")
        def total(items: Any) -> float:
            return float(sum(items))

        @register_metric(
            metric="inventory", higher_is_better=False, output_type="generate_until", aggregation="inventory_sum"
        )
        def own(references: Any, predictions: Any, **kwargs: Any) -> float:
            return 1.0 if predictions == references else 0.0

        @register_filter("inventory_filter")
        class Lower(Filter):
            def __init__(self, strip: bool = False) -> None:
                self.strip = strip

            def apply(self, resps: Any, docs: Any) -> Any:
                return [[answer.lower() for answer in answers] for answers in resps]

        found = get_metric("inventory")
        assert found is not None
        self.assertEqual((found.higher_is_better, found.aggregate([1, 2])), (False, 3.0))
        self.assertEqual(found.compute(["a"], ["a"]), 1.0)
        made = Metric.from_dict({"metric": "inventory", "aggregation": "median", "higher_is_better": True})
        self.assertEqual((made.aggregate([1, 2, 9]), made.higher_is_better), (2, True))
        for name in ("take_first", "mean", "pass_at_k", "pass@k"):
            self.assertTrue(callable(get_reduction(name)), name)
        self.assertEqual(own(["a"], ["a"]), 1.0)


if __name__ == "__main__":
    unittest.main()
