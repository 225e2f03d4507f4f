"""Filters return the recorded answers."""

from __future__ import annotations

import unittest
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.filters import build_filter_ensemble
from lm_eval.filters.extraction import MultiChoiceRegexFilter, POSFilter, RegexFilter
from lm_eval.filters.selection import TakeKFilter
from lm_eval.filters.transformation import LowercaseFilter, MapFilter, SPANFilter, UppercaseFilter

from tests.golden import GoldenTestCase, cases


class RecordedFilters(GoldenTestCase):
    """Chains of registered filters."""

    def test_recorded_values(self) -> None:
        """Each case, through a chain as scorers run it."""
        for number, case in enumerate(cases("filters")):
            steps = [(step["function"], step["kwargs"]) for step in case["filters"]]
            instances: list[Instance[Any, Any]] = [
                Instance(request_type="generate_until", doc=doc, arguments=("", {}), resps=answers)
                for doc, answers in zip(case["docs"], case["resps"])
            ]
            build_filter_ensemble("chain", steps).apply(instances)
            filtered = [list(instance.filtered_resps["chain"]) for instance in instances]
            self.assert_recorded(filtered, case["out"], f"case {number} {steps}")


class DocumentedFilters(unittest.TestCase):
    """Examples of the filters' documentation."""

    def test_regex(self) -> None:
        """Groups, selection and fallbacks."""
        for pattern, select, answer, expected in (
            (None, 0, "foo #### 1,234.", "1,234."),
            (None, -1, "#### -5 #### 7", "7"),
            (r"(-?[$0-9.,]{2,})|(-?[0-9]+)", -1, "total is $1,200.50 or 7", "7"),
            (r"(a?)(b?)x", 0, "xx", "[invalid]"),
            (r"(a?)x", 0, "xx", ""),
            (r" \d+ ", 0, "  the 42 cats ", "42"),
            (r"b*", -1, "ab", ""),
            (r"(?=(female|woman|man|male))", -1, "a woman and a man", "man"),
            (None, 0, None, "[invalid]"),
        ):
            options = {} if pattern is None else {"regex_pattern": pattern}
            found = RegexFilter(group_select=select, **options).apply([[answer]], [{}])
            self.assertEqual(list(found), [[expected]], (pattern, answer))
        with self.assertRaises(IndexError):
            list(RegexFilter(group_select=1).apply([["#### -5"]], [{}]))

    def test_multi_choice_regex(self) -> None:
        """The three searches, and the characters ignored in the second."""
        loose = {"ignore_case": True, "ignore_punctuation": True}
        for answer, options, expected in (
            ("The answer is (B).", {}, "(B)"),
            ("it is New York!", {}, "(B)"),
            ("new york", {}, "[invalid]"),
            ("it is New York!", loose, "(B)"),
            ("new york", loose, "(B)"),
            ("NEW-YORK", loose, "[invalid]"),
            ("Answer: C", {}, "(C)"),
            ("Rome then Paris", {"group_select": -1}, "(A)"),
        ):
            filter_ = MultiChoiceRegexFilter(regex_pattern=r"(\([A-Z]\))", **options)
            found = filter_.apply([[answer]], [{"choices": ["Paris", "New York", "Rome"]}])
            self.assertEqual(found, [[expected]], (answer, options))
        empty_choice = MultiChoiceRegexFilter().apply([["Answer: A"]], [{"choices": ["", "x"]}])
        self.assertEqual(empty_choice, [["(A)"]])

    def test_format_span(self) -> None:
        """Labels and entities."""
        for answer, expected in (
            (
                "PERSON: John Smith, Mary $$ location: Kenya, none $$ date: none",
                "per: john smith $ per: mary $ loc: kenya",
            ),
            (" organization: UN\nplaces: Nairobi", "org: un $ loc: nairobi"),
            ("location: paris, locarno", "loc: paris $ loc: LOCarno"),
            ("per: george orgland $$ date: update", "per: geORGe ORGland $ date: upDATE"),
            ("persons: x", ""),
            ("counties: a; places: b", "loc: a; LOC: b"),
            ("per: A, , B", "per: a $ per:  $ per: b"),
            ("nothing", ""),
        ):
            self.assertEqual(SPANFilter().apply([[answer]], [{}]), [[expected]], answer)

    def test_remaining_filters(self) -> None:
        """Tags, cases, mappings and selections."""
        tags = POSFilter().apply([["[('The', 'DET'), ('cat', 'NOUN')]", "nothing", [("a", "X")]]], [{}])
        self.assertEqual(tags, [[["DET", "NOUN"], ["invalid"], ["X"]]])
        self.assertEqual(LowercaseFilter().apply([["ΑΣ"]], [{}]), [["ας"]])
        self.assertEqual(UppercaseFilter(ignored=1).apply([["ŉ"]], [{}]), [["ʼN"]])
        mapped = MapFilter({"A": 1, "B": "two"}, default_value="d").apply([["A", "B", "C"]], [{}])
        self.assertEqual(mapped, [[1, "two", "d"]])
        self.assertEqual(TakeKFilter(k=2).apply([["a", "b", "c"], ["d"]], [{}, {}]), [["a", "b"], ["d"]])
        with self.assertRaises(AssertionError):
            TakeKFilter(k=2).apply([["a"], ["d", "e"]], [{}, {}])
        with self.assertRaises(KeyError):
            TakeKFilter()


if __name__ == "__main__":
    unittest.main()
