"""`lm_eval.models`: the names of 0.4.13, models that the engine serves, and HTTP models."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import get_model, register_model
from lm_eval.models import MODEL_MAPPING, utils
from lm_eval.models.api_models import JsonChatStr, TemplateAPI, create_image_prompt
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI, OpenAIChatCompletion

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
        from lm_eval.models.sglang_causallms import SGLangLM
        from lm_eval.models.vllm_causallms import VLLM

        class Mine(VLLM):
            pass

        with self.assertRaisesRegex(NotImplementedError, "`Mine` .*vllm serve <model>.* `local-completions`"):
            Mine(pretrained="x")
        with self.assertRaisesRegex(NotImplementedError, "sglang.launch_server"):
            SGLangLM.create_from_arg_string("pretrained=x")
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
        with self.assertRaisesRegex(ValueError, "A context is text or a conversation"):
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


class Server(BaseHTTPRequestHandler):
    """An OpenAI-compatible server; every token has the log-probability -0.5."""

    bodies: ClassVar[list[dict[str, Any]]] = []
    failures: ClassVar[list[int]] = []

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer 404: there is no remote tokenizer."""
        self.send_error(404)

    def do_POST(self) -> None:
        """Answer a completion request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.startswith("/v1/"):
            self.send_error(404)
            return
        if self.failures:
            self.send_error(self.failures.pop())
            return
        self.bodies.append(body)
        if "messages" in body:
            choices = [
                {"index": 0, "message": {"content": f"thoughts</t> {body['messages'][-1]['content']}"}}
            ]
        else:
            prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
            choices = [
                {
                    "index": index,
                    "text": f"{len(prompt)} tokens",
                    "logprobs": {
                        "token_logprobs": [None] + [-0.5] * len(prompt),
                        "top_logprobs": [None] + [{"a": -0.5}] * len(prompt),
                    },
                }
                for index, prompt in enumerate(prompts)
            ]
        reply = json.dumps({"choices": choices[::-1]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)


class Tagged(LocalCompletionsAPI):
    """A wrapper that adds a field to the request body."""

    def _create_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**super()._create_payload(*args, **kwargs), "tag": 1}


class Http(unittest.TestCase):
    """Servers, queried by the engine and by subclasses."""

    def setUp(self) -> None:
        """Start a server."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}/v1/completions"
        Server.bodies.clear()
        Server.failures.clear()

    def test_the_engine_and_a_subclass_send_the_same(self) -> None:
        """Scores, generations and windows are the same; a subclass only adds its field."""
        pairs = [("abc", "def"), ("", "d"), ("abc" * 40, "xyz")]
        arguments = {"model": "m", "base_url": self.url, "tokenizer": TOKENIZER, "max_length": 32}
        answers, sent = [], []
        for cls in (LocalCompletionsAPI, Tagged):
            lm = cls(**arguments)
            self.assertEqual(lm._engine is None, cls is Tagged)
            settings = {"until": ["x"], "max_gen_toks": 4, "do_sample": False, "top_p": 0.5}
            answers.append(
                [
                    ask(lm.loglikelihood, *pairs),
                    ask(lm.generate_until, ("abc", settings), ("abcd" * 20, settings)),
                    ask(lm.loglikelihood_rolling, ("abcd" * 20,)),
                ]
            )
            sent.append(list(Server.bodies))
            Server.bodies.clear()
        self.assertEqual(answers[0], answers[1])
        self.assertTrue(all(body.pop("tag") == 1 for body in sent[1]))
        order = json.dumps
        self.assertEqual(sorted(map(order, sent[0])), sorted(map(order, sent[1])))

    def test_subclass_in_any_module(self) -> None:
        """Overridden methods are called, whatever the module is named."""
        for module in ("abcmodels", "builtins_of_mine", "lm_eval.models.mine"):

            class Mine(LocalCompletionsAPI):
                __module__ = module

                def _create_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
                    return {**super()._create_payload(*args, **kwargs), "tag": 1}

            class Plain(LocalCompletionsAPI):
                __module__ = module

            with self.subTest(module):
                Server.bodies.clear()
                lm = Mine(model="m", base_url=self.url, tokenizer_backend="none")
                ask(lm.generate_until, ("abc", {"until": []}))
                self.assertEqual([body.get("tag") for body in Server.bodies], [1])
                self.assertEqual(Plain._overridden(), [])

    def test_batches_and_concurrency(self) -> None:
        """Answers are in the order of the requests, however they were sent."""
        pairs = [("a" * count, "bc") for count in (3, 9, 1, 7, 5)]
        expected = [(-1.0, True)] * len(pairs)
        for options in ({"batch_size": 2}, {"num_concurrent": 3}, {"batch_size": 2, "num_concurrent": 2}):
            lm = Tagged(model="m", base_url=self.url, tokenizer=TOKENIZER, **options)
            self.assertEqual(ask(lm.loglikelihood, *pairs), expected)
            strings = ask(lm.generate_until, *[("a" * count, {"until": []}) for count in (3, 1, 2)])
            self.assertEqual(strings, ["3 tokens", "1 tokens", "2 tokens"])

    def test_no_tokenizer(self) -> None:
        """`None` differs from the default: no tokenizer is loaded."""
        for cls in (LocalCompletionsAPI, Tagged):
            for backend in (None, "none", "None"):
                with self.subTest(cls.__name__, backend=backend):
                    lm = cls(
                        model="no/such-model",
                        base_url=self.url,
                        tokenizer_backend=backend,
                        tokenized_requests=False,
                    )
                    self.assertEqual(ask(lm.generate_until, ("abc", {"until": []})), ["3 tokens"])

    def test_failures(self) -> None:
        """A busy server is retried; a rejection is final and shows the server's message."""
        lm = Tagged(model="m", base_url=self.url, tokenizer=TOKENIZER, max_retries=2)
        Server.failures[:] = [503]
        with self.assertLogs("lm_eval", "WARNING"):
            self.assertEqual(ask(lm.loglikelihood, ("a", "b")), [(-0.5, True)])
        Server.failures[:] = [400]
        with self.assertRaisesRegex(RuntimeError, "status 400"):
            ask(lm.loglikelihood, ("a", "b"))
        with self.assertRaisesRegex(ValueError, "base_url"):
            ask(Tagged(model="m", base_url="file:///x", tokenizer=TOKENIZER).loglikelihood, ("a", "b"))

    def test_chats(self) -> None:
        """The engine and a subclass send conversations unchanged."""

        class Loud(LocalChatCompletion):
            def parse_generations(self, outputs: Any, **kwargs: Any) -> list[str]:
                return [text.upper() for text in super().parse_generations(outputs, **kwargs)]

        url = self.url.replace("completions", "chat/completions")
        strings = []
        for cls in (LocalChatCompletion, Loud):
            lm = cls(model="m", base_url=url, think_end_token="</t>")
            prompt = lm.apply_chat_template([{"role": "user", "content": "hi"}])
            self.assertIsInstance(prompt, JsonChatStr)
            strings += ask(lm.generate_until, (prompt, {"until": ["a", "b", "c", "d", "e"]}))
            with self.assertRaises(NotImplementedError):
                ask(lm.loglikelihood, ("a", "b"))
        self.assertEqual(strings, ["hi", "HI"])
        self.assertEqual(Server.bodies[0], Server.bodies[1])
        self.assertEqual(Server.bodies[0]["stop"], ["a", "b", "c", "d"])

    def test_custom_server_protocol(self) -> None:
        """`TemplateAPI` itself: payload, parsers and headers of the subclass."""

        class Other(TemplateAPI):
            def _create_payload(
                self, messages: Any, *, generate: bool = True, **kwargs: Any
            ) -> dict[str, Any]:
                return {"prompt": messages, "generate": generate, "seed": kwargs["seed"]}

            @staticmethod
            def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
                return [choice["text"] for choice in outputs["choices"]]

        lm = Other(model="m", base_url=self.url, tokenizer_backend=None, seed=7, header={"X-Key": "k"})
        self.assertEqual(ask(lm.generate_until, ("abc", {})), ["3 tokens"])
        self.assertEqual(Server.bodies, [{"prompt": "abc", "generate": True, "seed": 7}])
        with self.assertRaisesRegex(ValueError, "need a tokenizer"):
            lm._loglikelihood_tokens([(("a", "b"), [1], [2])])
        with self.assertRaises(NotImplementedError):
            TemplateAPI(model="m", base_url=self.url, tokenizer_backend=None).model_call(["a"])

    def test_reasoning_models(self) -> None:
        """Reasoning models choose their temperature and take no stop sequences; others keep theirs."""

        class Mine(OpenAIChatCompletion):
            api_key = "k"

        bodies = [
            Mine(model=name)._create_payload(
                [{"role": "user", "content": "x"}], True, {"temperature": 0.5}, eos=None
            )
            for name in ("gpt-4o", "o3-mini")
        ]
        self.assertEqual((bodies[0]["temperature"], bodies[0]["stop"]), (0.5, ["<|endoftext|>"]))
        self.assertEqual((bodies[1]["temperature"], "stop" in bodies[1]), (1, False))
        self.assertEqual(bodies[0]["max_completion_tokens"], 256)

    def test_images(self) -> None:
        """They come before the text of the last message."""
        image = mock.Mock(save=lambda buffer, format: buffer.write(b"png"))
        chat = [{"role": "user", "content": "what?", "type": "text"}]
        made: Any = create_image_prompt([image], chat)  # type: ignore[arg-type]
        self.assertEqual(made[0]["content"][0]["image_url"]["url"], "data:image/png;base64,cG5n")
        self.assertEqual(made[0]["content"][1], {"type": "text", "text": "what?"})


class Helpers(unittest.TestCase):
    """`lm_eval.models.utils`, compared with the return values of 0.4.13."""

    def test_chunks(self) -> None:
        """By size, all at once, and by a function."""
        self.assertEqual(list(utils.chunks(range(5), 2)), [[0, 1], [2, 3], [4]])
        self.assertEqual(list(utils.chunks(range(5))), [[0, 1, 2, 3, 4]])
        self.assertEqual(list(utils.chunks(range(7), 0, lambda *_: 3)), [[0, 1, 2], [3, 4, 5], [6]])
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
