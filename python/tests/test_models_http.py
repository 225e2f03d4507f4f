"""HTTP models: the engine and Python subclasses, against a loopback server."""

from __future__ import annotations

import json
import re
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from unittest import mock

from lm_eval.models.api_models import JsonChatStr, TemplateAPI, create_image_prompt
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI, OpenAIChatCompletion

from tests import engine
from tests.test_models_modules import TOKENIZER, ask


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


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

    def test_misspelt_arguments(self) -> None:
        """An argument that nothing takes is named in a warning, with the nearest name; documented ones are not."""
        for kind in (LocalCompletionsAPI, Tagged, LocalChatCompletion):
            with self.subTest(kind.__name__), self.assertLogs("lm_eval.models.api_models", "WARNING") as logs:
                kind(model="m", base_url=self.url, tokenizer_backend=None, num_concurent=4)
            text = f"The model argument `num_concurent` is unknown to `{kind.__name__}` and has no effect"
            self.assertEqual([one.getMessage() for one in logs.records], [f"{text}; did you mean `num_concurrent`?"])
        documented = []
        for page in ("servers.md", "models.md"):
            text = (engine.REPOSITORY / "docs" / page).read_text(encoding="utf-8")
            for table in re.findall(r"\| argument \|.*\n((?:\|.*\n)+)", text)[:1]:
                cells = [line.split("|")[1] for line in table.splitlines()]
                documented += [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
        self.assertIn("retry_budget", documented)
        self.assertIn("top_logprobs", documented)
        with self.assertNoLogs("lm_eval.models.api_models", "WARNING"):
            Tagged(model="m", base_url=self.url, tokenizer_backend=None)._warn_of_unknown(documented)

    def test_images(self) -> None:
        """They come before the text of the last message."""
        image = mock.Mock(save=lambda buffer, format: buffer.write(b"png"))
        chat = [{"role": "user", "content": "what?", "type": "text"}]
        made: Any = create_image_prompt([image], chat)  # type: ignore[arg-type]
        self.assertEqual(made[0]["content"][0]["image_url"]["url"], "data:image/png;base64,cG5n")
        self.assertEqual(made[0]["content"][1], {"type": "text", "text": "what?"})


if __name__ == "__main__":
    unittest.main()
