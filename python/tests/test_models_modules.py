"""`lm_eval.models`: the names of 0.4.13, models that the engine serves, and helpers."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import get_model, register_model
from lm_eval.models import MODEL_MAPPING, utils

from tests import engine
from tests.registries import RegistryTestCase

LIBRARY = os.environ.get("LM_EVAL_TEST_LIBRARY")

TOKENIZER = str(engine.REPOSITORY / "crates/lmeval-candle/tests/fixtures/llama")


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


def ask(method: Any, *requests: tuple[Any, ...]) -> list[Any]:
    """Call a method of a model with requests, and return its answers."""
    kind = method.__name__
    instances = [
        Instance(request_type=kind, doc={}, arguments=arguments, idx=0, metadata=("t", number, 1))
        for number, arguments in enumerate(requests)
    ]
    answers: list[Any] = method(instances)
    return answers


@unittest.skipIf(LIBRARY is None, "`LM_EVAL_TEST_LIBRARY` does not say where the released package is")
class Names(unittest.TestCase):
    """Every public name of 0.4.13's `lm_eval.models` exists here, or is listed as a difference."""

    def test_modules(self) -> None:
        """Functions and classes, by the modules that define them."""
        differences = (engine.REPOSITORY / "docs/differences.md").read_text()
        missing = []
        for path in sorted(Path(str(LIBRARY)).parent.joinpath("models").glob("[!_]*.py")):
            module = importlib.import_module(f"lm_eval.models.{path.stem}")
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    names = [node.name]
                elif isinstance(node, ast.Assign):
                    names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                else:
                    continue
                missing += [
                    f"{path.stem}.{name}"
                    for name in names
                    if not name.startswith("_")
                    and name not in ("logger", "eval_logger", "T")
                    and not hasattr(module, name)
                    and f"`{path.stem}.{name}`" not in differences
                ]
        self.assertEqual(missing, [])

    def test_registered(self) -> None:
        """Every model name gives a class, or an error that names an alternative."""
        code = "import lm_eval.models as m, json; print(json.dumps(m.MODEL_MAPPING))"
        environment = {**os.environ, "PYTHONPATH": str(Path(str(LIBRARY)).parents[1])}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd="/"
        )
        for name in json.loads(done.stdout):
            self.assertTrue(issubclass(get_model(name), LM), name)


class Imports(unittest.TestCase):
    """Missing packages are reported when they are needed."""

    def test_nothing_heavy_is_imported(self) -> None:
        """Importing all modules and classes imports neither torch nor transformers."""
        code = (
            "import sys, lm_eval.models as m\n"
            "from lm_eval.api.registry import get_model\n"
            "for name in m.MODEL_MAPPING: get_model(name)\n"
            "print([p for p in ('torch', 'transformers', 'numpy', 'tiktoken') if p in sys.modules])\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(engine.REPOSITORY / "python")}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        self.assertEqual(done.stdout.strip(), "[]")

    def test_modules_are_attributes(self) -> None:
        """A module need not be imported by its own name."""
        import lm_eval.models

        self.assertTrue(hasattr(lm_eval.models.winml, "WindowsML"))
        self.assertFalse(hasattr(lm_eval.models, "no_such_module"))

    def test_modules_of_the_table(self) -> None:
        """A module without a file is imported once, and its classes are found again by their names."""
        module = importlib.import_module("lm_eval.models.anthropic_llms")
        self.assertIs(sys.modules[module.__name__], module)
        self.assertEqual(module.__all__, ["AnthropicChat", "AnthropicLM"])
        self.assertIs(pickle.loads(pickle.dumps(module.AnthropicLM)), module.AnthropicLM)
        self.assertIsNotNone(importlib.util.find_spec("lm_eval.models.sglang_generate_API"))
        self.assertIsNone(importlib.util.find_spec("lm_eval.models.no_such_module"))

    def test_hflm_without_torch(self) -> None:
        """The error names the package and how to install it."""
        from lm_eval.models.huggingface import HFLM

        with (
            mock.patch.dict(sys.modules, {"torch": None}),
            self.assertRaisesRegex(ModuleNotFoundError, "`HFLM` needs the package `torch`; install it with"),
        ):
            HFLM(pretrained="x")

    def test_unsupported_models(self) -> None:
        """They can be subclassed, and name the server to start instead."""
        from lm_eval.models.litellm_llms import LiteLLMChatCompletion
        from lm_eval.models.trtllm_causallms import TRTLLM

        class Mine(TRTLLM):
            pass

        with self.assertRaisesRegex(NotImplementedError, "`Mine` .*OpenAI-compatible server.* `local-completions`"):
            Mine(pretrained="x")
        with self.assertRaisesRegex(NotImplementedError, "LiteLLM's proxy"):
            LiteLLMChatCompletion.create_from_arg_string("model=x")
        with self.assertRaisesRegex(NotImplementedError, "lm_eval:nemo_lm"):
            get_model("nemo_lm")()


class Served(RegistryTestCase):
    """The engine's own models as objects."""

    def test_dummy_and_ngram(self) -> None:
        """They answer every kind of request."""
        dummy = get_model("dummy").create_from_arg_string("")
        self.assertEqual(ask(dummy.generate_until, ("a", {"until": []})), ["lol"])
        self.assertEqual([type(answer) for answer in ask(dummy.loglikelihood, ("a", "b"))], [tuple])
        self.assertEqual(
            [type(answer) for answer in ask(dummy.loglikelihood_rolling, ("a",), ("", "a"))], [float, tuple]
        )
        ngram = get_model("ngram").create_from_arg_obj({"order": 3}, {"batch_size": 2, "device": None})
        (likely, _), (unlikely, _) = ask(ngram.loglikelihood, ("the answ", "er"), ("the answ", "\x01\x02"))
        self.assertGreater(likely, unlikely)

    def test_object_scores_equal_those_by_name(self) -> None:
        """An object gives the same scores as its name."""
        options: dict[str, Any] = {
            "tasks": ["demo_capitals"],
            "limit": 5,
            "bootstrap_iters": 0,
            "verbosity": "ERROR",
        }
        by_name = simple_evaluate(model="ngram", **options)["results"]
        by_object = simple_evaluate(model=get_model("ngram").create_from_arg_string(""), **options)["results"]
        self.assertEqual(by_object, by_name)

    def test_model_survives_failed_requests(self) -> None:
        """An invalid argument fails at once; a failed request leaves the model usable."""
        with self.assertRaisesRegex(ValueError, "base_url"):
            get_model("local-completions").create_from_arg_string("model=m")
        lm = get_model("ngram")()
        with self.assertRaisesRegex(ValueError, "A context must be a string or a list of messages"):
            ask(lm.loglikelihood, (3, "b"))
        self.assertEqual(len(ask(lm.loglikelihood, ("a", "b"))), 1)

    def test_engine_stops_with_its_object(self) -> None:
        """No process is left running."""
        lm: Any = get_model("dummy")()
        process = lm._served._session._conversation._process
        self.assertIsNone(process.poll())
        del lm
        self.assertIsNotNone(process.poll())

    def test_registered_name_takes_precedence(self) -> None:
        """A user's class replaces a built-in one, with a warning."""
        with self.assertLogs("lm_eval", "WARNING") as logs:
            register_model("dummy")(engine.Lengths)
        self.assertIn("replaces the built-in one", logs.output[0])
        self.assertIs(get_model("dummy"), engine.Lengths)


class Helpers(unittest.TestCase):
    """`lm_eval.models.utils`, compared with the return values of 0.4.13."""

    def test_chunks(self) -> None:
        """By size, all at once, and by a function."""
        for given, size, expected in (
            (range(5), 2, [[0, 1], [2, 3], [4]]),
            (range(4), 2, [[0, 1], [2, 3]]),
            (range(3), 10, [[0, 1, 2]]),
            (range(3), 0, [[0, 1, 2]]),
            (range(3), -1, [[0, 1, 2]]),
            ([], 2, []),
            ([], 0, []),
            ("abc", 2, [["a", "b"], ["c"]]),
            ({"a": 1, "b": 2}, 1, [["a"], ["b"]]),
        ):
            self.assertEqual(list(utils.chunks(given, size)), expected, (given, size))
        for sizes, expected in (
            ([3] * 7, [[0, 1, 2], [3, 4, 5], [6]]),
            ([3] * 6, [[0, 1, 2], [3, 4, 5]]),
            ([1, 1, 2, 2, 3, 3], [[0], [1], [2, 3], [4, 5]]),
            # The list has two elements already when one would be enough.
            ([3, 3, 1, 1], [[0, 1, 2, 3]]),
            ([0] * 3, [[0, 1, 2]]),
            ([], []),
        ):
            found = utils.chunks(range(len(sizes)), 2, lambda index, elements, sizes=sizes: sizes[index])
            self.assertEqual(list(found), expected, sizes)
        source, indices = iter([1, 2, 3, 4, 5]), []
        self.assertEqual(next(utils.chunks(source, 2)), [1, 2])
        self.assertEqual(list(source), [3, 4, 5])
        next(utils.chunks("abcd", 0, lambda index, elements: indices.append((index, len(elements))) or 2))
        self.assertEqual(indices, [(0, 4), (1, 4)])
        self.assertEqual(utils.undistribute([[1, 4, 7], [2, 5], [3, 6]]), [1, 2, 3, 4, 5, 6, 7])
        grouper = utils.Grouper([1, 2, 3, 4, 5], lambda number: number % 2)
        self.assertEqual(grouper.get_grouped(), {1: [1, 3, 5], 0: [2, 4]})
        self.assertEqual(grouper.get_original({1: ["a", "c", "e"], 0: ["b", "d"]}), ["a", "b", "c", "d", "e"])

    def test_collator(self) -> None:
        """Settings are kept apart, equal inputs are merged, and answers come back in order."""
        requests: list[Any] = [("a", {"until": ["x"]}), ("bbb", {"until": ["x"]}), ("cc", {"until": ["y"]})]
        collator = utils.Collator(
            requests, sort_fn=lambda r: -len(r[0]), group_fn=lambda r: r[1], group_by="gen_kwargs"
        )
        self.assertEqual(list(collator.get_batched(n=2)), [[requests[1], requests[0]], [requests[2]]])
        self.assertEqual(collator.get_original(["r1", "r2", "r3"]), ["r2", "r1", "r3"])
        requests = [(("c", "A"), [1, 2, 3], [4]), (("c", "B"), [1, 2, 3], [5]), (("d", "B"), [1, 2], [5, 6])]
        collator = utils.Collator(
            requests,
            sort_fn=lambda r: (-len(r[1] + r[2]), r[1] + r[2]),
            group_fn=lambda r: r[-2] + r[-1][:-1],
            group_by="contexts",
        )
        batches = list(collator.get_batched(n=2))
        self.assertEqual(batches, [[requests[0], requests[2]]])
        answers = [
            entry[0]
            for strings, context, rest in batches[0]
            for entry in collator.get_cache(strings, context, rest, None)
        ]
        self.assertEqual(collator.get_original(answers), [request[0] for request in requests])
        self.assertEqual(len(collator), 3)

    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "numpy is not installed")
    def test_collator_with_continuations_of_different_lengths(self) -> None:
        """Each continuation of a row gets the last positions, which predict it."""
        import numpy

        requests: list[Any] = [((), [5, 6], [7, 9]), ((), [5, 6, 7], [9]), ((), [5, 6, 7], [8])]
        for order in (requests, requests[::-1]):
            collator = utils.Collator(
                order, sort_fn=len, group_fn=lambda r: r[-2] + r[-1][:-1], group_by="contexts"
            )
            ((asked,),) = collator.get_batched(n=4)
            logits = numpy.arange(20).reshape(1, 2, 10)
            read = [
                [int(row[token]) for row, token in zip(own[0], tokens, strict=True)]
                for _, tokens, own in collator.get_cache(*asked, logits)
            ]
            expected = {(7, 9): [7, 19], (9,): [19], (8,): [18]}
            self.assertEqual(collator.get_original(read), [expected[tuple(rest)] for _, _, rest in order])

    def test_generation_settings(self) -> None:
        """One limit, a list of stop sequences, and whether to sample."""
        for given, expected in (
            ({}, {"do_sample": False, "until": [], "max_gen_toks": 256}),
            ({"temperature": 0.7}, {"temperature": 0.7, "do_sample": True, "until": [], "max_gen_toks": 256}),
            (
                {"do_sample": False, "temperature": 0.7},
                {"do_sample": False, "temperature": 0.0, "until": [], "max_gen_toks": 256},
            ),
            ({"max_new_tokens": 2, "max_tokens": 3}, {"do_sample": False, "until": [], "max_gen_toks": 2}),
            ({"until": "x", "max_gen_toks": "7"}, {"until": ["x"], "do_sample": False, "max_gen_toks": 7}),
        ):
            self.assertEqual(utils.normalize_gen_kwargs(given), expected)
        self.assertEqual(utils.handle_stop_sequences("a", "e"), ["a", "e"])
        self.assertEqual(utils.handle_stop_sequences(["a", "e"], "e"), ["a", "e"])
        self.assertEqual(utils.handle_stop_sequences(None, None), [])
        with self.assertRaises(ValueError):
            utils.handle_stop_sequences(3, "e")  # type: ignore[arg-type]
        self.assertEqual(utils.postprocess_generated_text("think</t> ans\n\nx", ["\n\n"], "</t>"), "ans")
        self.assertEqual(utils.postprocess_generated_text("a\n\nb</t>  c", ["\n\n"], "</t>"), "c")
        self.assertEqual(utils.postprocess_generated_text("abc", ["", "c"], None), "ab")

    def test_lengths(self) -> None:
        """Tokens are dropped on the requested side."""
        tokens = list(range(10))
        self.assertEqual(utils.truncate_tokens(tokens, 5), [5, 6, 7, 8, 9])
        self.assertEqual(utils.truncate_tokens(tokens, 5, "right"), [0, 1, 2, 3, 4])
        self.assertEqual(utils.truncate_tokens(tokens, 5, "middle"), [0, 1, 7, 8, 9])
        self.assertEqual(utils.truncate_tokens([0, 1, 2], 5, "middle"), [0, 1, 2])
        self.assertEqual(utils.maybe_truncate(tokens, 4, 8, verbose=False), ([6, 7, 8, 9], 4))
        self.assertEqual(
            utils.maybe_truncate(tokens, 4, 8, shrink_gen_toks=True, verbose=False),
            ([3, 4, 5, 6, 7, 8, 9], 1),
        )
        with self.assertRaisesRegex(ValueError, "no room"):
            utils.maybe_truncate(tokens, 8, 8)
        config = mock.Mock(spec=["n_positions", "max_position_embeddings"])
        config.n_positions, config.max_position_embeddings = None, 512
        self.assertEqual(utils.resolve_max_length(config), 512)
        tokenizer = mock.Mock(model_max_length=utils.TOKENIZER_INFINITY)
        self.assertEqual(utils.resolve_max_length(None, tokenizer), 2048)

    def test_retries(self) -> None:
        """The last exception is raised."""
        pauses: list[float] = []
        decorate = utils.retry_on_specific_exceptions(
            [ValueError], 3, 0.0, 1.5, lambda _, pause: pauses.append(pause)
        )
        with self.assertRaises(ValueError):
            decorate(lambda: int("x"))()
        self.assertEqual(len(pauses), 3)


class Mapping(unittest.TestCase):
    """The table of names."""

    def test_every_model_name_resolves_to_a_class(self) -> None:
        """Modules and classes exist, and the served ones have the engine's names."""
        for name, reference in MODEL_MAPPING.items():
            module, _, attribute = reference.partition(":")
            cls = getattr(importlib.import_module(module), attribute)
            served = getattr(cls, "NAME", None) or getattr(cls, "ENGINE_NAME", None)
            self.assertIn(
                served,
                (None, *(other for other, target in MODEL_MAPPING.items() if target == reference)),
                name,
            )


if __name__ == "__main__":
    unittest.main()
