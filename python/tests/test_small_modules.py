"""Short functions, compared with values of release 0.4.13."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import unittest
from typing import Any

from lm_eval import utils
from lm_eval.api.group import Group, GroupConfig
from lm_eval.api.model import LM, CachingLM
from lm_eval.config.task import TaskConfig
from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker


class RollingWindows(unittest.TestCase):
    """Windows over a long sequence."""

    def test_recorded_windows(self) -> None:
        """The first window predicts as much as fits; later ones repeat context to fill up."""
        for count, length, context, expected in (
            (0, 4, 1, []),
            (1, 4, 1, [([9], [0])]),
            (4, 4, 1, [([9, 0, 1, 2], [0, 1, 2, 3])]),
            (5, 4, 1, [([9, 0, 1, 2], [0, 1, 2, 3]), ([0, 1, 2, 3], [4])]),
            (6, 4, 3, [([9, 0, 1, 2], [0, 1, 2, 3]), ([1, 2, 3, 4], [4, 5])]),
            (6, 4, 4, [([9, 0, 1, 2], [0, 1, 2, 3]), ([0, 1, 2, 3], [4]), ([1, 2, 3, 4], [5])]),
        ):
            with self.subTest(count=count, length=length, context=context):
                tokens = list(range(count))
                windows = utils.get_rolling_token_windows(tokens, 9, length, context)
                self.assertEqual(list(windows), expected)

    def test_every_token_is_predicted_once(self) -> None:
        """Whatever the lengths, and no window is longer than the model's maximum."""
        for count in range(1, 30):
            for length in range(1, 9):
                for context in range(1, length + 1):
                    windows = list(utils.get_rolling_token_windows([*range(count)], -1, length, context))
                    self.assertEqual([token for _, predicted in windows for token in predicted], [*range(count)])
                    self.assertLessEqual(max(len(given) for given, _ in windows), length)


def _written(doc: dict[str, Any]) -> Any:
    return doc["a"]


class _Shown:
    def __call__(self, doc: Any) -> Any:
        return doc

    def __str__(self) -> str:
        return "as a string"

    def __repr__(self) -> str:
        return "as an expression"


class Functions(unittest.TestCase):
    """Callables in a configuration that is written to results."""

    def test_recorded_functions(self) -> None:
        """The source code where there is any, otherwise what `str` returns; nothing changes if callables are kept."""
        config = TaskConfig(task="x", doc_to_text="a", test_split="t", generation_kwargs={"until": []})
        later = eval("lambda doc: doc")
        for given, expected in (
            (_written, 'def _written(doc: dict[str, Any]) -> Any:\n    return doc["a"]\n'),
            (len, "<built-in function len>"),
            (str.upper, "<method 'upper' of 'str' objects>"),
            (functools.partial(_written, 1), f"functools.partial({_written!r}, 1)"),
            (later, repr(later)),
            (_Shown(), "as a string"),
            (3, "3"),
            ("text", "text"),
            (None, "None"),
        ):
            with self.subTest(given=given):
                self.assertEqual(config.serialize_function(given), expected)
                self.assertIs(config.serialize_function(given, keep_callable=True), given)
        self.assertTrue(config.serialize_function(_Shown).startswith("class _Shown:\n    def __call__"))


class Texts(unittest.TestCase):
    """Strings and names."""

    def test_detokenized_text(self) -> None:
        """Spaces are removed before closing and after opening punctuation."""
        for given, expected in (
            ('he did n\'t say " x " .', 'he didn\'t say"x".'),
            ("( a , b ) ' s", "(a, b)' s"),
            ("a  .", "a ."),
        ):
            with self.subTest(given=given):
                self.assertEqual(utils.general_detokenize(given), expected)

    def test_model_names_in_file_names(self) -> None:
        """A run of characters not allowed in file names becomes two underscores."""
        self.assertEqual(utils.sanitize_model_name('a/b\\c:"<d>|e?*f[g].h-i'), "a__b__c__d__e__f__g__.h-i")


class Notes(unittest.TestCase):
    """Recorded facts about a run."""

    def test_records_hashes_of_strings(self) -> None:
        """An empty string has no hash."""
        tracker = GeneralConfigTracker()
        tracker.log_experiment_args("hf", {"pretrained": "a/b", "peft": "c/d"}, "Be brief.", "", True)
        self.assertEqual((tracker.model_source, tracker.model_name), ("hf", "c/d"))
        self.assertEqual(tracker.model_name_sanitized, "c__d")
        self.assertEqual(tracker.system_instruction_sha, hashlib.sha256(b"Be brief.").hexdigest())
        self.assertEqual((tracker.chat_template, tracker.chat_template_sha), ("", None))
        self.assertIs(tracker.fewshot_as_multiturn, True)


class Groups(unittest.TestCase):
    """Groups from their configuration."""

    def test_from_a_mapping_and_from_a_configuration(self) -> None:
        """Both give the same group, and the configuration is stored."""
        fields = {"group": "g", "group_alias": "G", "metadata": {"version": 3}}
        config = GroupConfig(**fields, aggregate_metric_list={"metric": "acc"})  # type: ignore[arg-type]
        for group in (Group.from_config(config), Group.from_config({**fields, "aggregate_metric_list": {"metric": "acc"}})):
            self.assertEqual((group.name, group.alias, group.version, len(group)), ("g", "G", "3", 0))
            assert group.aggregate_metric_list is not None and group._config is not None
            self.assertEqual(group.aggregate_metric_list[0].metric, "acc")
            self.assertEqual(group._config.group, "g")
        self.assertIs(Group.from_config(config)._config, config)


class Scoring(unittest.TestCase):
    """Short forms of a task's scoring."""

    def test_expands_short_forms(self) -> None:
        """Pipelines without metrics have those of the task, each in its own list."""
        config = TaskConfig(
            task="t",
            scorer="first_token",
            metric_list=[{"metric": "acc", "weight": 2}],
            filter_list=[{"name": "a", "filter": []}, {"name": "b", "filter": [], "metric_list": [{"metric": "f1"}]}],
        )
        acc = {"metric": "acc", "kwargs": {"weight": 2}}
        self.assertEqual(config.scorer, {"type": "first_token"})
        self.assertEqual(config.metric_list, [acc])
        self.assertEqual([pipeline["name"] for pipeline in config.filter_list], ["a", "b"])
        self.assertEqual(list(config.filter_list[0]), ["name", "filter", "metric_list"])
        self.assertEqual(config.filter_list[0]["metric_list"], [acc])
        self.assertIsNot(config.filter_list[0]["metric_list"], config.metric_list)
        self.assertEqual(config.filter_list[1]["metric_list"], [{"metric": "f1", "kwargs": {}}])
        self.assertEqual(TaskConfig(task="t").filter_list, [{"name": "none", "filter": [], "metric_list": []}])


class _Silent(LM):
    def loglikelihood(self, requests: Any) -> Any:
        return []

    loglikelihood_rolling = generate_until = loglikelihood


class Caches(unittest.TestCase):
    """Caches around models."""

    def test_creates_the_cache_folder(self) -> None:
        """With all parent folders; the model gets a hook."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "deep", "er", "cache.db")
            lm = _Silent()
            cached = CachingLM(lm, path)
            self.assertTrue(os.path.exists(path))
            self.assertIs(lm.cache_hook.dbdict, cached.dbdict)
            cached.dbdict.close()


if __name__ == "__main__":
    unittest.main()
