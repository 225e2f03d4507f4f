"""Base classes of models, the cache, and the worker's side of models."""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
import unittest
from typing import Any

from lm_eval import _models
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CacheHook, CachingLM, TemplateLM, hash_args


def instance(method: str, *arguments: Any) -> Instance[Any, Any]:
    """Return a request."""
    return Instance(request_type=method, doc={}, arguments=arguments, metadata=("t", 0, 1))


class Counting(LM):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []
        self.answers: list[Any] = []

    def loglikelihood(self, requests: list[Any]) -> list[Any]:
        """Answer with the length."""
        self.asked += [request.args for request in requests]
        return [(-float(len(request.args[1])), True) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
        """Answer with the length."""
        self.asked += [request.args for request in requests]
        return [(-float(len(request.args[-1])), False) for request in requests]

    def generate_until(self, requests: list[Any]) -> Any:
        """Answer with the given generation."""
        self.asked += [request.args for request in requests]
        return self.answers or [f"answer {len(self.asked)}" for _ in requests]


class Cache(unittest.TestCase):
    """Answers in a SQLite file."""

    def test_keys_match_old_caches(self) -> None:
        """The hashes of requests are fixed."""
        self.assertEqual(
            hash_args("loglikelihood", ("Q: What is 0+0?\nA:", " zero")),
            "23ac338635f35d88981318ef1544ea2ba6e981cf7e0fd4bd0424a9e72989dfd3",
        )
        self.assertEqual(
            hash_args(
                "generate_until",
                ("Q: What is 0+0?\nA:", {"until": ["\n"], "max_gen_toks": 16}),
            ),
            "4071458b28668474900ff5c33c00e87ce3f159269307de53e535ab21eedd9924",
        )
        self.assertEqual(
            hash_args("loglikelihood_rolling", ("", "What is 0+0? some more words")),
            "2b1cff55851f676774cc57506ca82eec75e18a3c4ff9c222d56f570633969106",
        )
        self.assertEqual(
            hash_args("loglikelihood", ("café", " x")),
            "1cfb5709806ab6ae081d3f3eef0a2cbd74db66165c2385e1690beecdcd111349",
        )

    def test_cached_answers_are_not_requested_again(self) -> None:
        """A second model with the same file is called only for the remaining requests."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "deep", "cache.db")
            first = Counting()
            cached = CachingLM(first, path)
            requests = [
                instance("loglikelihood", "a", " b"),
                instance("loglikelihood", "a", " cc"),
            ]
            self.assertEqual(cached.loglikelihood(requests), [(-2.0, True), (-3.0, True)])
            self.assertEqual(cached.rank, 0)
            second = Counting()
            again = CachingLM(second, path)
            more = [*requests, instance("loglikelihood", "x", " dddd")]
            self.assertEqual(again.loglikelihood(more), [(-2.0, True), (-3.0, True), (-5.0, True)])
            self.assertEqual(second.asked, [("x", " dddd")])
            second.cache_hook.add_partial("loglikelihood_rolling", ("", "text"), (-4.0, False))
            self.assertEqual(
                again.loglikelihood_rolling([instance("loglikelihood_rolling", "", "text")]),
                [(-4.0, False)],
            )
            with sqlite3.connect(path) as connection:
                rows = dict(connection.execute('SELECT key, value FROM "unnamed"'))
            connection.close()
            self.assertEqual(len(rows), 4)
            self.assertEqual(
                pickle.loads(rows[hash_args("loglikelihood", ("a", " b"))]),
                (-2.0, True),
            )

    def test_sampled_answers_are_not_reused(self) -> None:
        """A sampled answer is requested again, and written."""
        with tempfile.TemporaryDirectory() as folder:
            lm = Counting()
            cached = CachingLM(lm, os.path.join(folder, "cache.db"))
            request = instance("generate_until", "a", {"do_sample": True})
            with self.assertLogs("lm_eval.api.model", "WARNING"):
                self.assertEqual(cached.generate_until([request]), ["answer 1"])
            with self.assertLogs("lm_eval.api.model", "WARNING"):
                self.assertEqual(cached.generate_until([request]), ["answer 2"])
            self.assertEqual(len(cached.dbdict), 1)

    def test_default_hook_drops_answers(self) -> None:
        """The default hook does nothing."""
        CacheHook(None).add_partial("loglikelihood", ("a", "b"), (0.0, True))


class Bytes(TemplateLM):
    """Tokens are bytes; 0 is the end-of-text token."""

    eot_token_id = 0

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """Return the bytes."""
        return list(string.encode())

    def _loglikelihood_tokens(self, requests: list[Any], **kwargs: Any) -> list[Any]:
        return [(strings, context, continuation) for strings, context, continuation in requests]

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
        """Return nothing."""
        return []

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Return nothing."""
        return []


class Template(unittest.TestCase):
    """Tokens of pairs."""

    def test_spaces_move_to_the_continuation(self) -> None:
        """Spaces at the boundary belong to the continuation."""
        context, continuation = Bytes()._encode_pair("Hello \n ", "x")
        self.assertEqual((bytes(context), bytes(continuation)), (b"Hello", b" \n x"))

    def test_empty_context_becomes_prefix_token(self) -> None:
        """Unless the continuation already starts with it."""
        asked = [
            instance("loglikelihood", "", "ab"),
            instance("loglikelihood", "", "\0ab"),
        ]
        made = Bytes().loglikelihood(asked)
        self.assertEqual(
            [(context, bytes(rest)) for _, context, rest in made],
            [([0], b"ab"), ([0], b"ab")],
        )
        with self.assertRaises(IndexError):
            Bytes().loglikelihood([instance("loglikelihood", "", "")])

    def test_templates_by_name(self) -> None:
        """A dictionary of templates has names and a default."""
        lm = Bytes()
        self.assertEqual(lm.chat_template(True), "")
        lm.tokenizer = type("Tokenizer", (), {"chat_template": {"default": "d", "tools": "t"}})()
        self.assertEqual((lm.chat_template(True), lm.chat_template("tools")), ("d", "t"))
        with self.assertRaises(ValueError):
            lm.chat_template("other")
        lm.tokenizer.chat_template = "one"
        self.assertEqual(lm.chat_template(True), "one")
        lm.tokenizer = object()
        self.assertIsNone(lm.chat_template(True))


class Channel:
    """Records what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def write(self, message: Any) -> None:
        """Record a message."""
        self.sent.append(message["ok"])


class Worker:
    """A fake worker with a channel."""

    def __init__(self) -> None:
        self.channel = Channel()


def ask(lm: LM, method: str, requests: list[list[Any]]) -> tuple[list[Any], list[Any]]:
    """Return the early answers, and the final message."""
    worker = Worker()
    handle = _models.serve(lm, {})
    wire = [[arguments, "t", index, 0] for index, arguments in enumerate(requests)]
    message = {"handle": handle, "method": method, "requests": wire}
    ended = list(_models.OPERATIONS["model_answer"](worker, None, message))
    return worker.channel.sent, ended


class Served(unittest.TestCase):
    """The worker's side of models."""

    def test_answers_carry_request_index(self) -> None:
        """Each answer is sent with the index of its request."""
        sent, ended = ask(Counting(), "loglikelihood", [["a", " b"], ["a", " cc"]])
        self.assertEqual((sent, ended), ([[0, -2.0, True], [1, -3.0, True]], [None]))
        sent, _ = ask(Counting(), "loglikelihood_rolling", [["", "text"]])
        self.assertEqual(sent, [[0, -4.0, False]])

    def test_equal_requests_get_separate_answers(self) -> None:
        """An early answer goes to the first equal request that has none."""

        class Drawing(Counting):
            def generate_until(self, requests: list[Any]) -> list[str]:
                """Draw a random answer for each request."""
                drawn = [f"draw {index}" for index, _ in enumerate(requests)]
                for request, answer in zip(requests, drawn, strict=True):
                    self.cache_hook.add_partial("generate_until", request.args, answer)
                return drawn

        sent, _ = ask(Drawing(), "generate_until", [["a", {"do_sample": True}]] * 3)
        self.assertEqual(sent, [[0, "draw 0"], [1, "draw 1"], [2, "draw 2"]])

    def test_ignores_answers_to_other_requests(self) -> None:
        """Windows of a rolling request, and answers of other methods, are ignored."""

        class Windows(Counting):
            def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
                """Hand over windows and entire strings."""
                self.cache_hook.add_partial("loglikelihood", ("", "text"), (-9.0, True))
                self.cache_hook.add_partial("loglikelihood_rolling", ("window",), -9.0)
                self.cache_hook.add_partial("loglikelihood_rolling", None, -9.0)
                self.cache_hook.add_partial("loglikelihood_rolling", ("text",), -1.5)
                return [-1.5 for _ in requests]

        sent, _ = ask(Windows(), "loglikelihood_rolling", [["", "text"], ["", "more"]])
        self.assertEqual(sent, [[0, -1.5, False], [1, -1.5, False]])

    def test_rejects_answers_that_differ_from_early_ones(self) -> None:
        """An answer that was handed over is final, so returning another one is an error."""

        class Stripping(Counting):
            def generate_until(self, requests: list[Any]) -> list[Any]:
                """Hand over the full generation, and return a part."""
                for request in requests:
                    self.cache_hook.add_partial("generate_until", request.args, "<think>x</think>y")
                return self.answers

        for returned, shown in (("y", "`('y',)`"), (None, "`None`")):
            lm = Stripping()
            lm.answers = ["<think>x</think>y", returned]
            with self.subTest(returned), self.assertRaises(_models.DifferingAnswers) as raised:
                ask(lm, "generate_until", [["a", {}], ["b", {}]])
            self.assertEqual(
                str(raised.exception),
                f"`{type(lm).__qualname__}.generate_until` returned {shown} for request 1 of 2, after it had given "
                "`('<think>x</think>y',)` to `cache_hook.add_partial`",
            )

    def test_equal_requests_may_be_answered_in_any_order(self) -> None:
        """It cannot be known which of the equal requests an early answer was for."""

        class Backwards(Counting):
            def generate_until(self, requests: list[Any]) -> list[str]:
                """Hand over the last answer first."""
                drawn = [f"draw {index}" for index, _ in enumerate(requests)]
                for answer in reversed(drawn):
                    self.cache_hook.add_partial("generate_until", requests[0].args, answer)
                return drawn

        sent, _ = ask(Backwards(), "generate_until", [["a", {"do_sample": True}]] * 3)
        self.assertEqual(sent, [[0, "draw 2"], [1, "draw 1"], [2, "draw 0"]])

    def test_subclass_answers_replace_those_of_base_class(self) -> None:
        """A subclass that changes the answers of its base class is scored by its own."""

        class Handing(Counting):
            def generate_until(self, requests: list[Any]) -> Any:
                """Hand over each answer."""
                for request in requests:
                    self.cache_hook.add_partial("generate_until", request.args, "raw")
                return ["raw" for _ in requests]

            def _loglikelihood_tokens(self, requests: list[Any]) -> Any:
                for request in requests:
                    self.cache_hook.add_partial("loglikelihood", request.args, (-1.0, True))
                return [(-1.0, True) for _ in requests]

            def loglikelihood(self, requests: list[Any]) -> Any:
                """Hand over each answer, in the method for tokens."""
                return self._loglikelihood_tokens(requests)

        class Changing(Handing):
            def generate_until(self, requests: list[Any]) -> Any:
                """Change each answer."""
                return [answer.upper() for answer in super().generate_until(requests)]

            def _loglikelihood_tokens(self, requests: list[Any]) -> Any:
                return [(value / 10, greedy) for value, greedy in super()._loglikelihood_tokens(requests)]

        class Deeper(Changing):
            pass

        replaced = Handing()
        raw = replaced.generate_until
        vars(replaced)["generate_until"] = lambda requests: [text.upper() for text in raw(requests)]
        for lm in (Changing(), Deeper(), replaced):
            with self.subTest(type(lm).__name__):
                sent, _ = ask(lm, "generate_until", [["a", {}], ["b", {}]])
                self.assertEqual(sent, [[0, "RAW"], [1, "RAW"]])
        sent, _ = ask(Deeper(), "loglikelihood", [["a", " b"]])
        self.assertEqual(sent, [[0, -0.1, True]])
        self.assertFalse(_models._changes_answers(Handing(), "generate_until"))

    def test_rolling_requests_of_v04_methods(self) -> None:
        """The error for a method that expects 0.4 requests says how to get them."""

        class Old(Counting):
            def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
                """Unpack requests as in 0.4."""
                return [-float(len(text)) for (text,) in [request.args for request in requests]]

        self.assertEqual(ask(Old(), "loglikelihood_rolling", [["text"]])[0], [[0, -4.0, False]])
        with self.assertRaisesRegex(ValueError, r"`.*Old.loglikelihood_rolling` .*`--compat 0.4`"):
            ask(Old(), "loglikelihood_rolling", [["", "text"]])

    def test_identity_of_objects(self) -> None:
        """Attributes identify a model; keys, batch sizes and transient values do not."""

        class Settings(Counting):
            def __init__(self, **settings: Any) -> None:
                super().__init__()
                vars(self).update(settings)

        def code(lm: LM, needs_identity: bool = True) -> str:
            return str(_models.describe(_models.serve(lm, {}), needs_identity)["code"])

        plain = code(Settings(scale=1, stop=["a"]))
        self.assertEqual(code(Settings(scale=1, stop=["a"])), plain)
        for same in ({"batch_size": 4}, {"api_key": "k"}, {"auth_token": "k"}, {"_device": "cpu"}, {"log": object()}):
            self.assertEqual(code(Settings(scale=1, stop=["a"], **same)), plain, same)
        for other in ({"scale": 2}, {"stop": ["b"]}, {"add_bos_token": True}, {"prefix_token_id": 3}):
            self.assertNotEqual(code(Settings(**{"scale": 1, "stop": ["a"], **other})), plain, other)
        self.assertNotIn("object", code(Settings(scale=2), needs_identity=False))
        made = _models.describe(_models.serve(Counting, {"args": {}}))["code"]
        self.assertNotIn("object", made)

    def test_accepts_numbers_of_other_libraries(self) -> None:
        """Values that behave like numbers are accepted; strings and booleans are not."""

        class Scalar:
            def __float__(self) -> float:
                return -0.5

        self.assertEqual(_models._checked("loglikelihood", (Scalar(), 1)), (-0.5, True))
        self.assertEqual(_models._checked("loglikelihood_rolling", Scalar()), (-0.5, False))
        for wrong in ("1", None, True, (1.0,), (1.0, True, 2), ("1", True)):
            with self.subTest(wrong), self.assertRaises(_models.BadAnswer):
                _models._checked("loglikelihood", wrong)


if __name__ == "__main__":
    unittest.main()
