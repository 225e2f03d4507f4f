"""Names, conflicts and messages of the registries."""

from __future__ import annotations

import importlib
import unittest
from typing import Any, ClassVar

from lm_eval import _scope
from lm_eval.api import registry
from lm_eval.api.filter import Filter
from lm_eval.api.registry import Registry, _dump, register_filter, register_metric

from tests.registries import RegistryTestCase


class Registries(RegistryTestCase):
    """Rules of all registries."""

    def test_unknown_names(self) -> None:
        """The message lists similar names and known ones."""
        with self.assertRaisesRegex(KeyError, "`regexp` is not a known filter.*`regex`"):
            registry.get_filter("regexp")
        self.assertIsNone(registry.get_aggregation("unknown"))
        self.assertIsNone(registry.get_reduction("unknown"))
        self.assertIsNone(registry.get_metric("unknown"))

    def test_rejects_conflicting_registration(self) -> None:
        """Registering the same object again is allowed; another object is an error."""

        def one(items: Any) -> float:
            return 1.0

        def two(items: Any) -> float:
            return 2.0

        registry.register_aggregation("number")(one)
        registry.register_aggregation("number")(one)
        with self.assertRaisesRegex(ValueError, "`number` is already registered"):
            registry.register_aggregation("number")(two)

    def test_reimported_module_replaces_its_classes(self) -> None:
        """A copy of a class under the same name replaces it."""
        source = "class Copy(Filter):\n    def apply(self, resps, docs):\n        return resps\n"
        copies = []
        for module in ("first", "second"):
            namespace = {"Filter": Filter, "__name__": module}
            exec(source, namespace)
            copies.append(register_filter("copied")(namespace["Copy"]))
        self.assertIs(registry.get_filter("copied"), copies[1])

    def test_user_entry_replaces_built_in_name(self) -> None:
        """The user's entry takes precedence, with a warning."""

        class Mine(Filter):
            def apply(self, resps: Any, docs: Any) -> Any:
                return resps

        with self.assertLogs("lm_eval.api.registry", "WARNING"):
            register_filter("lowercase")(Mine)
        self.assertIs(registry.get_filter("lowercase"), Mine)
        self.assertEqual(list(_dump()["filter"]), ["lowercase"])

    def test_lazy_and_frozen_entries(self) -> None:
        """A string is imported on first use; a frozen registry accepts nothing."""
        table: Registry[Any] = Registry("thing")
        table.register("join", target="os.path:join")
        import os.path

        self.assertIs(table.get("join"), os.path.join)
        self.assertEqual(table.get("other", 5), 5)
        table.freeze()
        with self.assertRaises(TypeError):
            table.register("late")(str)

    def test_metric_classes(self) -> None:
        """A class with an aggregation and a reduction is instantiated."""

        @register_metric(metric="longest", output_type="generate_until")
        class Longest:
            def __call__(self, references: Any, predictions: Any) -> int:
                return len(predictions[0])

            def aggregation(self, items: Any) -> float:
                return max(items)

            def reduce(self, references: Any, predictions: Any) -> Any:
                return predictions[0]

        metric = registry.get_metric("longest")
        assert metric is not None
        self.assertEqual(metric.aggregate([metric.compute([""], ["abc"]), 1]), 3)
        self.assertTrue(_dump()["metric"]["longest"]["corpus"])

    def test_documented_names(self) -> None:
        """The built-in names."""
        names = {kind: set(entries) for kind, entries in _dump(builtins=True).items()}
        self.assertLessEqual({"acc", "acc_norm", "exact_match", "bleu", "mcc", "bypass"}, names["metric"])
        self.assertLessEqual({"mean", "bits_per_byte", "bleu", "matthews_corrcoef"}, names["aggregation"])
        self.assertEqual(names["scorer"], {"first_token", "regex", "choice_match"})
        self.assertEqual(len(names["filter"]), 13)
        self.assertEqual(_dump()["metric"], {})

    def test_unknown_aggregation_of_a_metric(self) -> None:
        """A misspelt aggregation is an error, not a mean."""

        @register_metric(metric="misspelt", aggregation="maen")
        def misspelt(references: Any, predictions: Any) -> float:
            return 0.0

        with self.assertRaisesRegex(ValueError, "`maen` is not a known aggregation"):
            registry.get_metric("misspelt")


class Folders(RegistryTestCase):
    """Names that task folders register."""

    def test_folders_are_independent(self) -> None:
        """A name has in each folder the meaning its code registered, and none outside."""
        for folder in ("one", "two"):
            with _scope.within(f"/{folder}"):
                registry.register_aggregation("own")(_constant(folder))
        self.addCleanup(registry.aggregation_registry._of_folders.clear)
        for folder, expected in (("one", "one"), ("two", "two")):
            with _scope.within(f"/{folder}"):
                own = registry.get_aggregation("own")
                assert own is not None
                self.assertEqual(own([]), expected)
                self.assertIn("own", registry.aggregation_registry)
        self.assertNotIn("own", registry.aggregation_registry)
        with _scope.within("/one"), self.assertRaisesRegex(ValueError, "`own` is already registered"):
            registry.register_aggregation("own")(max)

    def test_plug_ins_come_first(self) -> None:
        """A folder cannot redefine the name of a plug-in."""
        registry.register_aggregation("taken")(_constant("plug-in"))
        with _scope.within("/folder"):
            found = registry.get_aggregation("taken")
            assert found is not None
            self.assertEqual(found([]), "plug-in")
            with self.assertRaisesRegex(ValueError, "`taken` is already registered"):
                registry.register_aggregation("taken")(max)


def _constant(value: Any) -> Any:
    def constant(items: Any) -> Any:
        return value

    constant.__qualname__ = f"constant_{value}"
    return constant


class Documented(unittest.TestCase):
    """The names of the documentation."""

    NAMES: ClassVar[dict[str, str]] = {
        "lm_eval.api.metrics": "Metric CorpusMetric LLResults acc acc_norm acc_bytes acc_mutual_info_fn exact_match_mc "
        "bpb logprob_fn brier_score exact_match_fn mean median nanmean weighted_mean perplexity weighted_perplexity "
        "bits_per_byte Perplexity WordPerplexity BytePerplexity BitsPerByte Bleu Chrf Ter F1 MCC stderr_for_metric "
        "bootstrap_stderr mean_stderr register_metric register_aggregation",
        "lm_eval.scorers": "Scorer GenScorer LLScorer ChoiceMatchScorer FirstTokenScorer RegexExtractionScorer MetricKey "
        "ScoredDoc ReducedDoc build_scorer",
        "lm_eval.api.instance": "Instance LLInstance GenInstance",
        "lm_eval.api.group": "Group ConfigurableGroup",
        "lm_eval.api._types": "Doc DataSplit Dataset Context LLArgs LLOutput GenArgs Completion Reference",
        "lm_eval.config.task": "TaskConfig MetricConfig FilterStep ScorerConfig FilterPipeline",
        "lm_eval.tasks": "TaskManager get_task_dict",
        "lm_eval.api.registry": "register_model register_filter register_metric register_aggregation register_reduction "
        "register_scorer register_sampler get_model get_filter get_metric get_aggregation get_reduction get_scorer",
        "lm_eval.api.filter": "Filter FilterEnsemble",
        "lm_eval.api.model": "LM TemplateLM",
        "lm_eval.api.task": "Task ConfigurableTask",
        "lm_eval.filters": "build_filter_ensemble",
    }

    def test_names(self) -> None:
        """All of them can be imported."""
        for module, names in self.NAMES.items():
            for name in names.split():
                self.assertTrue(hasattr(importlib.import_module(module), name), f"{module}.{name}")
