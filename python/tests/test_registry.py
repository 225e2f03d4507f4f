"""Names, clashes and messages of the registries."""

from __future__ import annotations

from typing import Any

from lm_eval.api import registry
from lm_eval.api.filter import Filter
from lm_eval.api.registry import Registry, _dump, register_filter, register_metric
from tests.registries import RegistryTestCase


class Registries(RegistryTestCase):
    """Rules that all registries have in common."""

    def test_unknown_names(self) -> None:
        """The message has near names and known ones."""
        with self.assertRaisesRegex(KeyError, "`regexp` is not a known filter.*`regex`"):
            registry.get_filter("regexp")
        self.assertIsNone(registry.get_aggregation("unknown"))
        self.assertIsNone(registry.get_reduction("unknown"))
        self.assertIsNone(registry.get_metric("unknown"))

    def test_a_name_keeps_its_meaning(self) -> None:
        """The same thing again is nothing new; another thing is an error."""

        def one(items: Any) -> float:
            return 1.0

        def two(items: Any) -> float:
            return 2.0

        registry.register_aggregation("number")(one)
        registry.register_aggregation("number")(one)
        with self.assertRaisesRegex(ValueError, "`number` is registered already"):
            registry.register_aggregation("number")(two)

    def test_a_module_imported_twice(self) -> None:
        """A copy of a class under the same name takes its place."""
        source = "class Copy(Filter):\n    def apply(self, resps, docs):\n        return resps\n"
        copies = []
        for module in ("first", "second"):
            namespace = {"Filter": Filter, "__name__": module}
            exec(source, namespace)
            copies.append(register_filter("copied")(namespace["Copy"]))
        self.assertIs(registry.get_filter("copied"), copies[1])

    def test_a_built_in_name_can_be_taken(self) -> None:
        """The user's entry wins, with a warning."""

        class Mine(Filter):
            def apply(self, resps: Any, docs: Any) -> Any:
                return resps

        with self.assertLogs("lm_eval.api.registry", "WARNING"):
            register_filter("lowercase")(Mine)
        self.assertIs(registry.get_filter("lowercase"), Mine)
        self.assertEqual(list(_dump()["filter"]), ["lowercase"])

    def test_lazy_and_frozen_entries(self) -> None:
        """Text is imported when it is asked for; a frozen registry takes nothing."""
        table: Registry[Any] = Registry("thing")
        table.register("join", target="os.path:join")
        import os.path

        self.assertIs(table.get("join"), os.path.join)
        self.assertEqual(table.get("other", 5), 5)
        table.freeze()
        with self.assertRaises(TypeError):
            table.register("late")(str)

    def test_metric_classes(self) -> None:
        """A class with an aggregation and a reduction is made into an object."""

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

    def test_names_of_the_documentation(self) -> None:
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
