"""Every name that public code imports from `lm_eval` exists and works as documented, or names its replacement."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import lm_eval
from lm_eval import utils

from tests import engine


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Package(unittest.TestCase):
    """The package and its parts."""

    def test_attributes(self) -> None:
        """Submodules are attributes after `import lm_eval`, and are not imported before use."""
        program = (
            "import sys, lm_eval; before = set(sys.modules)\n"
            "assert not {'lm_eval.evaluator', 'lm_eval.utils', 'lm_eval.tasks'} & before\n"
            "lm_eval.tasks.TaskManager, lm_eval.utils.make_table, lm_eval.evaluator.simple_evaluate\n"
            "lm_eval.api, lm_eval.loggers.EvaluationTracker, lm_eval.filters, lm_eval.config\n"
            "assert {'tasks', 'utils', 'evaluator', 'simple_evaluate'} <= set(dir(lm_eval))\n"
        )
        python = str(engine.REPOSITORY / "python")
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": python}, check=True)
        with self.assertRaises(AttributeError):
            _ = lm_eval.no_such_part

    def test_command_line(self) -> None:
        """The functions of `lm_eval.__main__` exist."""
        from lm_eval.__main__ import cli_evaluate, parse_eval_args, setup_parser

        args = setup_parser().parse_args(
            ["--model", "hf", "-t", "a", "b", "--limit", "-1", "--apply-chat-template"]
        )
        self.assertEqual(
            (args.model, args.tasks, args.limit, args.apply_chat_template), ("hf", ["a", "b"], -1, True)
        )
        from lm_eval._command import words_of

        words = ["run", "--tasks=a,b", "--model=hf", "--limit=-1", "--apply_chat_template"]
        self.assertEqual(words_of(args), words)
        self.assertTrue(callable(cli_evaluate) and callable(parse_eval_args))


class Utils(unittest.TestCase):
    """`lm_eval.utils`."""

    def test_escaped_split(self) -> None:
        """A backslash escapes a separator."""
        self.assertEqual(utils.escaped_split("a,b\\,c,d", ","), ["a", "b\\,c", "d"])
        self.assertEqual(utils.escaped_split("a,b,c,d", ",", 2), ["a", "b", "c,d"])
        self.assertEqual(utils.escaped_split("a,b", ",", 0), "a,b")
        with self.assertRaises(AssertionError):
            utils.escaped_split("a", "ab")

    def test_parses_argument_strings(self) -> None:
        """Values are parsed as 0.4.13 parses them."""
        vectors = {
            "-1": -1,
            " 2": 2,
            "none": None,
            "tRuE": True,
            "1e5": 1e5,
            "007": 7,
            "1_000": 1000.0,
            "²": "²",
            "0x10": "0x10",
            "'5'": "5",
            '"none"': "none",
            "' x '": " x ",
            "'": "'",
            "'a": "'a",
        }
        for text, value in vectors.items():
            with self.subTest(text):
                read = utils.handle_arg_string(text)
                self.assertEqual((read, type(read)), (value, type(value)))
        self.assertEqual(utils.simple_parse_args_string("a=-1,b=x=y"), {"a": -1, "b": "x=y"})

    def test_parses_file_names(self) -> None:
        """Tasks and dates are parsed from file names."""
        name = "samples_arc_easy_2024-07-01T12-34-56.789.jsonl"
        self.assertEqual(utils.get_file_task_name(name), "arc_easy")
        self.assertEqual(utils.get_file_datetime(name), "2024-07-01T12-34-56.789")
        files = [f"out/results_{year}-07-01T12-34-56.789.json" for year in (2024, 2026, 2025)]
        self.assertEqual(utils.get_latest_filename(files), files[1])
        both = [*files, "out/samples_a_2024.jsonl", "out/other.json"]
        self.assertEqual(utils.get_results_filenames(both), files)
        self.assertEqual(utils.get_sample_results_filenames(both), ["out/samples_a_2024.jsonl"])

    def test_small_helpers(self) -> None:
        """The remaining functions."""

        @dataclasses.dataclass
        class Point:
            x: int = 1

        self.assertEqual(json.dumps({"a": Point()}, cls=utils.EnhancedJSONEncoder), '{"a": {"x": 1}}')
        with self.assertRaises(TypeError):
            json.dumps({1}, cls=utils.EnhancedJSONEncoder)
        self.assertEqual(utils.wrap_text("a\n\nb   c", width=3), "a\n        b\n        c")
        hashed = "a5525591b56dd3716b7bfcaca8e1bf0800efd81b6d8abb807624aad9ebd8c4ea"
        self.assertEqual(utils.convert_bytes_to_hash(b"abc"), hashed)
        nested = {"a": b"abc", "b": [{"c": 1}], "d": (2,)}
        self.assertEqual(utils.hash_dict_images(nested), nested)
        self.assertRegex(utils.random_name_id(), "^[a-z0-9]{8}$")
        self.assertIsNone(utils.ignore_constructor(None, None))
        self.assertEqual((utils.HIGHER_IS_BETTER_SYMBOLS[True], len(utils.SPACING)), ("↑", 47))
        self.assertIsInstance(utils.is_torch_available() or utils.is_transformers_available(), bool)
        self.assertEqual(utils.sanitize_list([1, (2.0, None)]), ["1", ("2.0", "None")])
        self.assertEqual(utils.handle_non_serializable({3}), [3])
        utils.set_torch_seed(0)

    def test_environment_of_templates(self) -> None:
        """`env` renders as prompts are rendered."""
        try:
            template = utils.env.from_string("{{ text | regex_replace('a', 'b') }}\n")
        except ImportError:
            self.skipTest("the package `jinja2` is not installed")
        self.assertEqual(template.render(text="aa"), "bb\n")

    def test_positional_deprecated(self) -> None:
        """Positional arguments warn, except `self`."""

        class Thing:
            @utils.positional_deprecated
            def method(self, value: int) -> int:
                return value

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(Thing().method(value=3), 3)
        with self.assertWarns(DeprecationWarning):
            self.assertEqual(Thing().method(4), 4)

    def test_logging(self) -> None:
        """Messages that are logged once, and conditional warnings."""
        logger = logging.getLogger("lm_eval.tests")
        with self.assertLogs("lm_eval", "INFO") as logs:
            for _ in range(2):
                utils.warning_once(logger, "careful %d", 1)
                utils.info_once(logger, "by the way")
            utils.maybe_warn("shown")
            utils.maybe_warn("not shown", verbose=False)
        self.assertEqual(
            [record.getMessage() for record in logs.records], ["careful 1", "by the way", "shown"]
        )
        with self.assertRaises(ValueError):
            utils.setup_logging("LOUD")

    def test_import_function(self) -> None:
        """`!function` of a YAML file read by PyYAML."""

        class Loader:
            def construct_scalar(self, node: Any) -> Any:
                return node

        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "helpers.py").write_text("def twice(x):\n    return 2 * x\n", encoding="utf-8")
            function = utils.import_function(Loader(), "helpers.twice", Path(folder, "task.yaml"))
            self.assertEqual(function(4), 8)

    def test_remote_tokenizer(self) -> None:
        """A server tokenizes; its URL may be that of the completions."""

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                asked.append((self.path, self.headers["Authorization"]))
                answer = {"eos_token": "</s>", "bos_token": "<s>", "bos_token_id": 1, "chat_template": TEMPLATE}
                self._answer(answer if self.path == "/tokenizer_info" else None)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append((self.path, body))
                answer = {"/tokenize": {"tokens": [7, 8]}, "/detokenize": {"prompt": "text"}}
                self._answer(answer.get(self.path))

            def _answer(self, answer: Any) -> None:
                body = json.dumps(answer).encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        asked: list[Any] = []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        self.assertTrue(utils.check_remote_tokenizer_support(f"{address}/v1/completions"))
        asked.clear()
        tokenizer = utils.RemoteTokenizer(f"{address}/v1/chat/completions", auth_token="secret")
        self.assertEqual(asked, [("/tokenizer_info", "Bearer secret")])
        self.assertEqual((tokenizer.encode("ab"), tokenizer.decode([7])), ([7, 8], "text"))
        self.assertEqual(
            asked[1:],
            [("/tokenize", {"prompt": "ab", "add_special_tokens": False}), ("/detokenize", {"tokens": [7]})],
        )
        self.assertEqual(
            (tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.bos_token_id), ("</s>", 7, 1)
        )
        self.assertEqual(tokenizer.batch_decode([[1], [2]]), ["text", "text"])
        self.assertEqual(tokenizer("ab"), {"input_ids": [7, 8]})
        with contextlib.suppress(ImportError):
            self.assertEqual(tokenizer.apply_chat_template([{"role": "user", "content": "x"}]), "[user]x")
        self.assertFalse(utils.check_remote_tokenizer_support(f"{address}/nowhere"))


class Others(unittest.TestCase):
    """The smaller modules."""

    def test_cache(self) -> None:
        """Objects are stored in files, and deleted by name prefix."""
        from lm_eval.caching import cache

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(cache, "PATH", folder):
            cache.save_to_cache("requests-arc/easy", [1, {"a": 2}])
            cache.save_to_cache("requests-boolq", [3])
            self.assertEqual(cache.load_from_cache("requests-arc/easy", cache=True), [1, {"a": 2}])
            self.assertIsNone(cache.load_from_cache("requests-arc/easy"))
            self.assertIsNone(cache.load_from_cache("requests-arc_easy", cache=True))
            cache.delete_cache("requests-arc")
            self.assertIsNone(cache.load_from_cache("requests-arc/easy", cache=True))
            self.assertEqual(cache.load_from_cache("requests-boolq", cache=True), [3])

    def test_janitor(self) -> None:
        """Passages shared with contaminating documents are removed; vectors of the reference."""
        from lm_eval.decontamination import janitor

        self.assertEqual(list(janitor.form_ngrams(iter([1, 2, 3]), 2)), [(1, 2), (2, 3)])
        self.assertEqual(list(janitor.word_ngrams("a b c d", 3)), ["a b c", "b c d"])
        self.assertEqual(
            list(janitor.split_indices("ab  cd e")), [("ab", (0, 1)), ("cd", (4, 5)), ("e", (7, 7))]
        )
        self.assertEqual(
            list(janitor.word_ngrams_indices("ab  cd e", 2)), [("ab cd", (0, 5)), ("cd e", (4, 7))]
        )
        cleaner = janitor.Janitor(ngram_n=3, window_to_remove=5, minimum_slice_length=2, too_dirty_cutoff=3)
        cleaner.register_contaminant("the quick brown fox jumps")
        text = "He said The quick, brown fox! and then more text follows here."
        self.assertEqual(cleaner.clean(text), ["He ", "then more text follows here."])
        self.assertEqual(cleaner.clean_python(text + " the quick brown fox again"), [])
        self.assertEqual(cleaner.normalize_string("He, SAID!"), "he said")
        with tempfile.TemporaryDirectory() as folder:
            cleaner.save_contamination_ngrams(f"{folder}/ngrams")
            other = janitor.Janitor()
            other.load_contamination_ngrams(f"{folder}/ngrams")
            self.assertEqual(other.dirt_ngrams, {"the quick brown", "quick brown fox", "brown fox jumps"})

    def test_prompts(self) -> None:
        """Prompts by name."""
        from lm_eval.prompts import PROMPT_REGISTRY, get_prompt

        self.assertEqual(get_prompt("qa-basic:q-newline-a"), PROMPT_REGISTRY["qa-basic"]["q-newline-a"])
        for wrong in ("qa-basic", "qa-basic:x", "zz:a"):
            with self.assertRaises(ValueError):
                get_prompt(wrong)
        with self.assertRaisesRegex(ModuleNotFoundError, "promptsource"):
            get_prompt("promptsource:x", "squad")

    def test_loggers_utils(self) -> None:
        """Names of scores, and facts about the machine."""
        from lm_eval.loggers import utils as of_loggers

        self.assertEqual(of_loggers.remove_none_pattern("acc,none"), ("acc", True))
        self.assertEqual(of_loggers.remove_none_pattern("acc, none"), ("acc, none", False))
        self.assertEqual(of_loggers.remove_none_pattern("acc,flexible"), ("acc,flexible", False))
        facts: dict[str, Any] = {}
        of_loggers.add_env_info(facts)
        self.assertEqual(
            list(facts), ["pretty_env_info", "transformers_version", "lm_eval_version", "upper_git_hash"]
        )

        class Tokenizer:
            pad_token, pad_token_id, eos_token, eos_token_id, bos_token, bos_token_id = (
                "<p>",
                0,
                "</s>",
                2,
                "<s>",
                1,
            )

        class Model:
            tokenizer, max_length, eot_token_id = Tokenizer(), 12, 5

        facts = {}
        of_loggers.add_tokenizer_info(facts, Model())
        self.assertEqual(facts["tokenizer_eos_token"], ["</s>", "2"])
        self.assertEqual((facts["eot_token_id"], facts["max_length"]), (5, 12))
        of_loggers.add_tokenizer_info(facts, object())
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(of_loggers.get_commit_from_path(folder))
        self.assertIsInstance(of_loggers.get_git_commit_hash(), (str, type(None)))

    def test_evaluator_utils(self) -> None:
        """Helpers around an evaluation."""
        from lm_eval.evaluator_utils import get_sample_size, print_writeout

        class Task:
            eval_docs = tuple(range(10))
            task_name = "ten"

            def doc_to_text(self, doc: int) -> str:
                return f"{doc}?"

            def doc_to_target(self, doc: int) -> str:
                return str(doc)

        self.assertEqual([get_sample_size(Task(), limit) for limit in (0.25, 3, None)], [3, 3, None])
        with self.assertLogs("lm_eval", "INFO") as logs:
            print_writeout(Task())
        self.assertIn("0?", logs.output[0])

    def test_older_metrics(self) -> None:
        """Functions of the 0.4 line; vectors of the reference."""
        from lm_eval.api import metrics

        pairs = [("the cat sat", "the cat sat down"), ("a dog ran", "a dog ran")]
        self.assertEqual(metrics.chrf([(["x"], "x")]), 100.0)
        self.assertEqual((metrics.chrfpp([(["x"], "x")]), metrics.ter([(["x"], "x")])), (100.0, 0.0))
        self.assertGreater(metrics.bleu([([left], right) for left, right in pairs]), 0.0)
        self.assertEqual(metrics.acc_fn((3, 4)), (3, 4))
        self.assertEqual(metrics.exact_match_hf_evaluate(["a", "B!"], ["a", "b"]), {"exact_match": 0.5})
        kwargs = {"ignore_case": True, "ignore_punctuation": True, "ignore_numbers": True}
        self.assertEqual(
            metrics.exact_match_hf_evaluate(["a", "B!1"], ["a", "b"], **kwargs), {"exact_match": 1.0}
        )
        self.assertAlmostEqual(
            metrics.combined_sample_stderr([0.3, 0.2, 0.5], [3, 4, 5], [0.1, 0.9, 0.4]) ** 2,
            0.16766901323667222,
        )
        self.assertAlmostEqual(metrics.pop_stddev([1.0, 2.0, 4.0]), 1.247219128924647)
        self.assertAlmostEqual(metrics.unweighted_mean_stderr([3.0, 4.0]), 2.5)
        docs = [
            {"idx": {"paragraph": 0, "question": q}, "label": label} for q, label in ((0, 1), (0, 0), (1, 1))
        ]
        self.assertEqual(metrics.acc_all(list(zip([1, 1, 1], docs, strict=True))), 0.5)
        self.assertEqual(metrics.acc_all_stderr(list(zip([1, 1, 1], docs, strict=True))), 0.5)
        self.assertTrue(metrics.is_non_str_iterable([]) and not metrics.is_non_str_iterable("a"))

    def test_registries_of_metrics(self) -> None:
        """Aggregations and directions by metric name."""
        from lm_eval.api.metrics import mean
        from lm_eval.api.registry import HIGHER_IS_BETTER_REGISTRY, METRIC_AGGREGATION_REGISTRY

        self.assertIs(METRIC_AGGREGATION_REGISTRY["acc"], mean)
        self.assertIs(HIGHER_IS_BETTER_REGISTRY["acc"], True)
        self.assertFalse(HIGHER_IS_BETTER_REGISTRY["ter"])
        self.assertIn("acc", HIGHER_IS_BETTER_REGISTRY)
        with self.assertRaises(KeyError):
            _ = HIGHER_IS_BETTER_REGISTRY["no_such_metric"]

    def test_task_files(self) -> None:
        """Task files as dictionaries, and the names that they define."""
        from lm_eval.tasks import get_task_name_from_config, get_task_name_from_object
        from lm_eval.tasks._index import Entry, Kind, TaskIndex
        from lm_eval.tasks._yaml_loader import load_yaml

        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "base.yaml").write_text("dataset_path: x\nnum_fewshot: 1\n", encoding="utf-8")
            text = "include: base.yaml\ntask: mine\ntag: [t]\nnum_fewshot: 2\ndoc_to_text: !function helpers.text\n"
            Path(folder, "mine.yaml").write_text(text, encoding="utf-8")
            Path(folder, "helpers.py").write_text("def text(doc):\n    return doc['q']\n", encoding="utf-8")
            Path(folder, "all.yaml").write_text("group: all\ntask: [mine]\n", encoding="utf-8")
            loaded = load_yaml(Path(folder, "mine.yaml"))
            self.assertEqual(loaded.pop("doc_to_text")({"q": "?"}), "?")
            self.assertEqual(loaded, {"dataset_path": "x", "num_fewshot": 2, "task": "mine", "tag": ["t"]})
            alone = load_yaml(f"{folder}/mine.yaml", resolve_func=False, recursive=False)
            self.assertEqual((alone["include"], alone["doc_to_text"]), ("base.yaml", "helpers.text"))
            self.assertEqual(utils.load_yaml_config(f"{folder}/mine.yaml", mode="simple")["num_fewshot"], 2)
            index = TaskIndex().build([folder])
            kinds = {name: entry.kind for name, entry in index.items()}
            self.assertEqual(kinds, {"mine": Kind.TASK, "all": Kind.GROUP, "t": Kind.TAG})
            self.assertIsInstance(index["mine"], Entry)
            self.assertEqual(index["mine"].tags, {"t"})
            with self.assertRaises(OSError):
                load_yaml(f"{folder}/none.yaml")
        self.assertEqual(get_task_name_from_config({"dataset_path": "c", "dataset_name": "b"}), "c_b")
        for attributes, name in (
            ({"EVAL_HARNESS_NAME": "old", "config": {"task": "t"}}, "old"),
            ({"config": {"task": "t"}}, "t"),
            ({}, "Old"),
        ):
            self.assertEqual(get_task_name_from_object(type("Old", (), attributes)()), name)

    def test_trivial_functions(self) -> None:
        """Functions of two lines."""
        from lm_eval import defaults
        from lm_eval.api.utils import ends_with_whitespace, format_turn, random_task_id
        from lm_eval.result_schema import EvalResults, SampleResult

        self.assertTrue(ends_with_whitespace("a\n") and not ends_with_whitespace(""))
        self.assertEqual(format_turn("x", "user", "t"), {"type": "t", "role": "user", "content": "x"})
        self.assertRegex(random_task_id(), "^[a-z0-9]{8}$")
        self.assertIsInstance(defaults.LOGGING_LEVEL, str)
        self.assertIn("n-shot", EvalResults.__annotations__)
        self.assertIn("doc_hash", SampleResult.__annotations__)

    def test_removed_names_suggest_replacements(self) -> None:
        """Removed names say what to use instead."""
        for module, name, instead in (
            ("lm_eval.evaluator_utils", "run_task_tests", "lm-eval validate"),
            ("lm_eval.prompts", "load_prompt_list", "doc_to_text"),
            ("lm_eval.decontamination.archiver", "ZStdTextReader", "Janitor"),
            ("lm_eval.decontamination.decontaminate", "get_train_overlap", "Janitor"),
            ("lm_eval.tasks._factory", "TaskFactory", "TaskManager.load"),
        ):
            with self.subTest(name), self.assertRaisesRegex(ImportError, instead):
                getattr(importlib.import_module(module), name)
            with self.subTest(module), self.assertRaises(AttributeError):
                _ = importlib.import_module(module).no_such_name


if __name__ == "__main__":
    unittest.main()
