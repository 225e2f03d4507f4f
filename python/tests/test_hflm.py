"""`HFLM` on torch, against what 0.4.13's `HFLM` answered (recorded) and against the engine's own models."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from tests import engine

# oneDNN takes instructions for bfloat16 that some virtual machines announce and do not have.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

CHECKPOINTS = engine.REPOSITORY / "crates/lmeval-candle/tests/fixtures"
RECORDED = engine.REPOSITORY / "crates/lmeval-candle/tests/data"
LLAMA = CHECKPOINTS / "llama"

SHARED = [("word " * 12 + "and", f" {letter}") for letter in "abcd"] + [
    ("word " * 12 + "and", " the answer is"),
    ("Question: what is", " the answer"),
    ("Question: what is", " a"),
    ("Question: what it", " the other answer"),
    ("Question: what it", " b"),
    ("", " b c"),
    ("x y z " * 50, " b c"),
]


def setUpModule() -> None:
    """Use the program that was built for tests; without torch, say where these tests run."""
    if importlib.util.find_spec("torch") is None:
        if os.environ.get("CI") == "true" and not os.environ.get("LM_EVAL_TORCH_PYTHON"):
            raise AssertionError(
                "The tests of `HFLM` need torch: `scripts/test` installs it into `.torchenv`"
            )
        raise unittest.SkipTest("torch is not installed here; `scripts/test` runs these tests in `.torchenv`")
    engine.set_up()
    import torch

    # More threads than these models have work for only wait for each other.
    torch.set_num_threads(1)


def load(folder: Path = LLAMA, **arguments: Any) -> Any:
    """Return a model of a checkpoint, in 32 bits."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(folder), **{"device": "cpu", "dtype": "float32", **arguments})


def live(folder: Path = LLAMA) -> tuple[Any, Any]:
    """Return a model object and its tokenizer."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def ask(method: Any, *requests: tuple[Any, ...]) -> list[Any]:
    """Return what a method of a model answers."""
    kind = method.__name__
    instances = [
        Instance(request_type=kind, doc={}, arguments=arguments, idx=0, metadata=("t", number, 1))
        for number, arguments in enumerate(requests)
    ]
    answers: list[Any] = method(instances, disable_tqdm=True)
    return answers


def recorded(name: str) -> Any:
    """Return what the reference answered."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def choices(count: int = 6) -> dict[str, Any]:
    """Return the definition of a task with options."""
    documents = [{"q": "word " * n + "what is", "a": n % 3} for n in range(count)]
    return {
        "task": "choices",
        "custom_dataset": lambda **_: {"test": documents},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": ["the answer", "b", "Question answer the"],
        "doc_to_target": "a",
    }


class HFLMTestCase(unittest.TestCase):
    """Comparisons of answers."""

    def assert_scores(self, found: list[Any], expected: list[Any], within: float) -> None:
        """Check log-likelihoods, and that the same ones are greedy."""
        for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            self.assertAlmostEqual(
                mine[0], theirs[0], delta=within * max(1.0, abs(theirs[0]) / 20), msg=number
            )
            self.assertEqual(mine[1], theirs[1], number)


class Recorded(HFLMTestCase):
    """What 0.4.13 answers on the checkpoint `llama`."""

    def test_scores_and_texts_by_arguments(self) -> None:
        """Pairs, whole texts and generations, with every argument that changes them."""
        answers = recorded("answers")
        for case in answers["cases"]:
            with self.subTest(case["name"]):
                given = dict(case["arguments"])
                if "tokenizer" in given:
                    given["tokenizer"] = str(CHECKPOINTS / given["tokenizer"])
                lm = load(**given)
                # In 16 bits, another order of additions shows.
                within = 0.3 if given.get("dtype") == "bfloat16" else 1e-5
                pairs = list(zip(answers["pairs"], case.get("pairs", []), strict=False))
                # The reference fails where nothing is left of a context; here a prefix token stands for it.
                pairs = [(pair, score) for pair, score in pairs if not isinstance(score, dict)]
                found = ask(lm.loglikelihood, *[tuple(pair) for pair, _ in pairs])
                self.assert_scores(found, [score for _, score in pairs], within)
                texts = answers["rolling"] if "rolling" in case else []
                found = ask(lm.loglikelihood_rolling, *[(text,) for text in texts])
                for mine, theirs in zip(found, case.get("rolling", []), strict=True):
                    self.assertAlmostEqual(mine, theirs, delta=within * max(1.0, abs(theirs) / 20))
                for settings, expected in zip(answers["settings"], case.get("texts", []), strict=False):
                    requests = [(prompt, settings) for prompt in answers["prompts"]]
                    # One at a time, as recorded: with a think marker, a batch goes on after a stop.
                    self.assertEqual([ask(lm.generate_until, request)[0] for request in requests], expected)

    def test_generation_settings(self) -> None:
        """Settings of requests and of the model's files change texts as they do in the reference."""
        generation = recorded("generation")
        plain = load()
        for case in generation["cases"]:
            with self.subTest(case["request"], file=case["file"]), tempfile.TemporaryDirectory() as folder:
                lm = plain
                if case["file"]:
                    copy = Path(folder, "model")
                    shutil.copytree(LLAMA, copy)
                    path = copy / case["file"]
                    known = json.loads(path.read_text()) if path.exists() else {}
                    path.write_text(json.dumps({**known, **case["fields"]}))
                    lm = load(copy)
                found = ask(
                    lm.generate_until, *[(prompt, case["request"]) for prompt in generation["prompts"]]
                )
                self.assertEqual(found, case["texts"])

    def test_chat_templates(self) -> None:
        """Prompts by the variables that arguments set; system messages that a template refuses are left out."""
        chats = recorded("answers")["chats"]
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "model")
            shutil.copytree(LLAMA, copy)
            path = copy / "tokenizer_config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": chats["template"]}))
            for case in chats["cases"]:
                lm = load(copy, **case["arguments"])
                conversation = chats["conversation"]
                prompts = [
                    lm.apply_chat_template(conversation[:2]),
                    lm.apply_chat_template(conversation, False),
                ]
                self.assertEqual(prompts, case["prompts"])
            self.assertEqual(lm.chat_template(True), chats["template"])


class Engine(HFLMTestCase):
    """The engine computes the same."""

    def test_scores_and_texts_equal_the_engines(self) -> None:
        """With contexts computed once, with one row per request, and in batches."""
        from lm_eval.models import _scoring

        for name in ("llama", "gpt2"):
            with self.subTest(name), mock.patch.object(_scoring, "SHARED_FROM", 1):
                folder = CHECKPOINTS / name
                native = load(folder, backend="native")
                expected = ask(native.loglikelihood, *SHARED)
                for arguments in ({}, {"logits_cache": False}, {"batch_size": 4}):
                    lm = load(folder, **arguments)
                    self.assert_scores(ask(lm.loglikelihood, *SHARED), expected, 1e-4)
                self.assertTrue(lm._shares_contexts)
                self.assertEqual(native.max_length, lm.max_length)
                request = ("Question: what is", {"until": ["\n\n"], "max_gen_toks": 8})
                self.assertEqual(ask(native.generate_until, request), ask(lm.generate_until, request))
                for text in (("word " * 60,), ("", "abc")):
                    found, wanted = (
                        ask(lm.loglikelihood_rolling, text),
                        ask(native.loglikelihood_rolling, text),
                    )
                    self.assertEqual(type(found[0]), type(wanted[0]))
                    if len(text) == 1:
                        self.assertAlmostEqual(found[0], wanted[0], delta=1e-3)

    def test_families_of_models(self) -> None:
        """Log-probabilities that `transformers` gives whole sequences, which the engine is held to as well."""
        import transformers
        from lm_eval.models import _scoring

        tokenizer = transformers.AutoTokenizer.from_pretrained(LLAMA)
        names = (
            "bloom cohere2 falcon_alibi gemma2 gemma3 gpt_bigcode gpt_neo gpt_neox gptj mistral mpt opt qwen2_sliding "
            "qwen3_moe smollm3_sliding stablelm"
        )
        for name in names.split():
            with self.subTest(name), mock.patch.object(_scoring, "SHARED_FROM", 1):
                folder = CHECKPOINTS / name
                requests, expected = [], []
                for sequence in json.loads((folder / "expected.json").read_text())["sequences"]:
                    tokens, logprobs = sequence["tokens"], sequence["next_log_probabilities"]
                    for start in {1, len(tokens) // 2}:
                        for end in sorted({start + 1, start + 2, len(tokens)}):
                            requests.append((None, tokens[:start], tokens[start:end]))
                            expected.append(sum(logprobs[start - 1 : end - 1]))
                lm = load(folder, tokenizer=tokenizer, batch_size=8, max_length=2048)
                found = [value for value, _ in lm._loglikelihood_tokens(requests, disable_tqdm=True)]
                for mine, theirs in zip(found, expected, strict=True):
                    self.assertAlmostEqual(mine, theirs, delta=1e-4 * max(1.0, abs(theirs) / 20))
                self.assertTrue(lm._shares_contexts)

    def test_rotations_that_depend_on_the_length_of_a_text(self) -> None:
        """What a context is then depends on what follows, so that it is never computed by itself."""
        import transformers
        from lm_eval.models import _scoring

        tokenizer = transformers.AutoTokenizer.from_pretrained(LLAMA)
        for name in ("phi3_longrope", "llama_rope_dynamic"):
            with self.subTest(name), mock.patch.object(_scoring, "SHARED_FROM", 1):
                lm = load(CHECKPOINTS / name, tokenizer=tokenizer)
                third = lm.max_length // 3
                requests = [(None, [5] * third, [7] * count) for count in (1, third // 2, third)]
                found = lm._loglikelihood_tokens(requests, disable_tqdm=True)
                self.assertIsNone(lm._shares_contexts)
                lm.logits_cache = False
                self.assert_scores(found, lm._loglikelihood_tokens(requests, disable_tqdm=True), 1e-6)

    def test_native_takes_names_alone(self) -> None:
        """What the engine would never call or see is refused."""
        from lm_eval.models.huggingface import HFLM

        class Other(HFLM):
            def _model_call(self, inps: Any) -> Any:
                return super()._model_call(inps)

        model, tokenizer = live()
        with self.assertRaisesRegex(ValueError, "not an object"):
            HFLM(pretrained=model, tokenizer=tokenizer, backend="native")
        with self.assertRaisesRegex(ValueError, "never calls `_model_call`"):
            Other(pretrained=str(LLAMA), backend="native")
        with self.assertRaisesRegex(ValueError, "peft"):
            load(backend="native", peft="somewhere")


class Live(HFLMTestCase):
    """Model objects that a program has."""

    def test_a_changed_model_is_what_is_evaluated(self) -> None:
        """A layer that is zeroed in Python changes the scores, to those of the changed checkpoint."""
        import torch
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        with torch.no_grad():
            model.model.layers[0].mlp.down_proj.weight.zero_()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            options = {"tasks": [choices()], "bootstrap_iters": 0, "verbosity": "ERROR"}
            found = simple_evaluate(model=HFLM(pretrained=model, tokenizer=tokenizer), **options)
            saved = simple_evaluate(model="hf", model_args={"pretrained": folder}, device="cpu", **options)
            plain = simple_evaluate(
                model="hf", model_args={"pretrained": str(LLAMA)}, device="cpu", **options
            )

        def scores(results: dict[str, Any]) -> list[float]:
            return [
                response[0][0] for sample in results["samples"]["choices"] for response in sample["resps"]
            ]

        for mine, theirs, before in zip(scores(found), scores(saved), scores(plain), strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-4)
            self.assertNotAlmostEqual(mine, before, delta=1e-3)
        self.assertEqual(found["config"]["model_num_parameters"], 34720)

    def test_answers_of_one_model_are_not_those_of_another(self) -> None:
        """Models share a cache only if every weight is the same."""
        import torch
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        asked: list[int] = []

        class Watched(HFLM):
            def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
                asked.append(len(requests))
                return super().loglikelihood(requests, disable_tqdm)

        with tempfile.TemporaryDirectory() as folder:

            def scores(lm: Any) -> tuple[int, list[Any]]:
                asked.clear()
                found = simple_evaluate(
                    model=lm, tasks=[choices()], bootstrap_iters=0, verbosity="ERROR", use_cache=folder + "/cache"
                )
                return sum(asked), [sample["resps"] for sample in found["samples"]["choices"]]

            count, first = scores(Watched(pretrained=model, tokenizer=tokenizer))
            self.assertEqual(count, 18)
            self.assertEqual(scores(Watched(pretrained=model, tokenizer=tokenizer, batch_size=3)), (0, first))
            count, named = scores(Watched(pretrained=str(LLAMA), device="cpu", dtype="float32"))
            self.assertEqual((count, named), (18, first))
            again = scores(Watched(pretrained=str(LLAMA), device="cpu", dtype="float32"))
            self.assertEqual(again, (0, first))
            self.assertEqual(scores(Watched(pretrained=model, tokenizer=tokenizer, max_length=8))[0], 18)
            with torch.no_grad():
                model.model.layers[0].mlp.down_proj.weight[0, 0] += 1
            count, changed = scores(Watched(pretrained=model, tokenizer=tokenizer))
            self.assertEqual(count, 18)
            self.assertNotEqual(changed, first)
            other, _ = live(LLAMA)
            with torch.no_grad():
                other.model.layers[0].mlp.down_proj.weight.zero_()
            other.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            self.assertNotEqual(scores(Watched(pretrained=folder, device="cpu", dtype="float32"))[1], first)

    def test_changed_answers_of_the_base_class(self) -> None:
        """A subclass that changes what `super()` answers is scored by what it returns, on every run."""
        from lm_eval.models.huggingface import HFLM

        class Scaled(HFLM):
            def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
                return [(x / 10, greedy) for x, greedy in super().loglikelihood(requests, disable_tqdm)]

        model, tokenizer = live()
        with tempfile.TemporaryDirectory() as folder:
            runs = [
                simple_evaluate(
                    model=lm(pretrained=model, tokenizer=tokenizer),
                    tasks=[choices()],
                    bootstrap_iters=0,
                    verbosity="ERROR",
                    use_cache=folder + "/cache",
                )["samples"]["choices"][0]["resps"][0][0]
                for lm in (HFLM, Scaled, Scaled)
            ]
        self.assertEqual(runs[1:], [(runs[0][0] / 10, runs[0][1])] * 2)

    def test_arguments_of_loading_are_refused(self) -> None:
        """They would have no effect on an object."""
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        for argument in ({"peft": "x"}, {"parallelize": True}, {"attn_implementation": "eager"}):
            with self.assertRaisesRegex(ValueError, next(iter(argument))):
                HFLM(pretrained=model, tokenizer=tokenizer, **argument)

    def test_answers_are_handed_over(self) -> None:
        """The hook gets each answer with the request that it belongs to."""
        lm = load()
        taken = []
        lm.cache_hook = mock.Mock(add_partial=lambda *arguments: taken.append(arguments))
        requests = [("abc", " a"), ("abc", " b c"), ("abc", " a")]
        answers = ask(lm.loglikelihood, *requests)
        self.assertCountEqual(
            taken, [("loglikelihood", *pair) for pair in zip(requests, answers, strict=True)]
        )


class Plan(HFLMTestCase):
    """How much is computed."""

    def test_options_of_one_token_share_a_row(self) -> None:
        """Four letters after one question need one row, and one question more another."""
        lm = load()
        shapes = []
        call = lm._model_call
        lm._model_call = lambda inps: shapes.append(tuple(inps.shape)) or call(inps)
        letters = [(question, letter) for question in ("Question:", "what") for letter in "abcd"]
        ask(lm.loglikelihood, *letters)
        self.assertEqual([rows for rows, _ in shapes], [1, 1])

    def test_a_context_is_computed_once(self) -> None:
        """Long options of a question go on from its context."""
        lm = load()
        computed = []
        lm.model.register_forward_pre_hook(
            lambda _, args, kwargs: computed.append((args or (kwargs["input_ids"],))[0].numel()),
            with_kwargs=True,
        )
        context = "word " * 20 + "is"
        requests = [(context, ending) for ending in (" the answer", " a b c", " Question: answer")]
        lm._shares_contexts = True
        shared = ask(lm.loglikelihood, *requests)
        length = len(lm.tok_encode(context))
        self.assertEqual(computed[0], length)
        self.assertLess(sum(computed[1:]), length)
        lm.logits_cache = False
        self.assert_scores(shared, ask(lm.loglikelihood, *requests), 1e-5)

    def test_a_text_cut_at_two_places(self) -> None:
        """A row that also answers a longer continuation needs positions before the context of its first request."""
        lm = load()
        context = [7 * number % 90 + 5 for number in range(100)]
        texts = [
            (None, context, [9]),
            (None, context, [11, 12]),
            (None, context, [13, 14, 15]),
            (None, context[:-1], [context[-1], 9]),
            (None, context[:-3], [*context[-3:], 10]),
        ]
        for requests in (texts, texts[::-1]):
            lm.logits_cache = True
            found = lm._loglikelihood_tokens(requests, disable_tqdm=True)
            self.assertTrue(lm._shares_contexts)
            lm.logits_cache = False
            self.assert_scores(found, lm._loglikelihood_tokens(requests, disable_tqdm=True), 1e-5)

    def test_a_model_that_goes_on_differently_shares_nothing(self) -> None:
        """One comparison with the whole text decides, and wrong numbers never come out."""
        from lm_eval.models import _scoring

        lm = load()
        expected = ask(lm.loglikelihood, *SHARED)
        lm._shares_contexts = None
        forward = type(lm.model).forward

        def wrong(model: Any, *args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
            return forward(model, *args, **kwargs)

        with (
            mock.patch.object(_scoring, "SHARED_FROM", 1),
            mock.patch.object(type(lm.model), "forward", wrong),
            self.assertLogs("lm_eval", "WARNING") as logs,
        ):
            found = ask(lm.loglikelihood, *SHARED)
        self.assertIn("Contexts are not shared", "".join(logs.output))
        self.assert_scores(found, expected, 1e-5)

    def test_automatic_batch_sizes(self) -> None:
        """They change no score, and say what was chosen."""
        expected = ask(load().loglikelihood, *SHARED)
        for size, count in (("auto", 1), ("auto:3", 3)):
            lm = load(batch_size=size, max_batch_size=2, logits_cache=False)
            self.assert_scores(ask(lm.loglikelihood, *SHARED), expected, 1e-5)
            self.assertEqual(list(lm.batch_sizes.values()), [2] * count)
        with self.assertRaisesRegex(ValueError, "batch_size"):
            load(batch_size="many")

    def test_memory_that_runs_out_halves_batches(self) -> None:
        """Half the rows are tried, then half of those."""
        import torch

        lm = load(batch_size=8)
        expected = ask(lm.loglikelihood, *SHARED)
        call = lm._model_call

        def small(inps: Any) -> Any:
            if inps.shape[0] > 2:
                raise torch.OutOfMemoryError
            return call(inps)

        lm._model_call = small
        self.assert_scores(ask(lm.loglikelihood, *SHARED), expected, 1e-5)

    def test_continuations_that_cannot_be_scored(self) -> None:
        """Errors name what is wrong."""
        lm = load(max_length=8)
        with self.assertRaisesRegex(ValueError, "12 tokens, but the model's maximum length is 8"):
            ask(lm.loglikelihood, ("a", "b" * 12))
        with self.assertRaisesRegex(ValueError, "no room for a prompt"):
            ask(lm.generate_until, ("a", {"until": [], "max_gen_toks": 8}))
        with self.assertRaisesRegex(ValueError, "no tokens"):
            ask(lm.loglikelihood, ("a", ""))


class Subclasses(HFLMTestCase):
    """What repositories derive from `HFLM`."""

    requests: ClassVar[list[tuple[str, str]]] = [("Question: what is", " the answer"), ("abc", " d")]

    def test_logits_of_its_own(self) -> None:
        """A wrapper with its own tokens and logits, and a constructor that loads something else first."""
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()

        class Wrapper(HFLM):
            def __init__(self) -> None:
                super().__init__(pretrained=str(CHECKPOINTS / "gpt2"), device="cpu")
                self._model = model
                self._tokens = tokenizer

            @property
            def eot_token_id(self) -> int:
                return 2

            @property
            def max_length(self) -> int:
                return 64

            @property
            def batch_size(self) -> int:
                return 1

            def tok_encode(self, string: str, **kwargs: Any) -> list[int]:
                return self._tokens.encode(string, add_special_tokens=False)

            def tok_decode(self, tokens: Any) -> str:
                return self._tokens.decode(tokens)

            def _model_call(self, inps: Any) -> Any:
                return model(inps).logits * 2

        lm = Wrapper()
        found = ask(lm.loglikelihood, *self.requests)
        plain = load(max_length=64)
        call = plain._model_call
        plain._model_call = lambda inps: call(inps) * 2
        self.assert_scores(found, ask(plain.loglikelihood, *self.requests), 1e-5)

    def test_a_constructor_of_its_own(self) -> None:
        """Scripts for Mamba call `LM.__init__` and set the few attributes they know of."""
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()

        class Wrapper(HFLM):
            def __init__(self) -> None:
                LM.__init__(self)
                self._model = model
                self.tokenizer = tokenizer
                self._batch_size = 4
                self._max_length = 128
                self._device = model.device

            @property
            def batch_size(self) -> int:
                return self._batch_size

        self.assert_scores(ask(Wrapper().loglikelihood, *SHARED), ask(load().loglikelihood, *SHARED), 1e-5)

    def test_loading_and_generation_of_its_own(self) -> None:
        """`_get_config` and `_create_model` load; `_model_generate` gets tokens, a mask and the settings by name."""
        import torch
        from lm_eval.models.huggingface import HFLM

        model, _ = live()
        seen = {}

        class Wrapper(HFLM):
            def _get_config(self, pretrained: str, **kwargs: Any) -> None:
                self._config = model.config

            def _create_model(self, pretrained: str, dtype: Any = None, **kwargs: Any) -> None:
                self._model = model

            def _model_generate(self, context: Any, max_length: int, stop: list[str], **kwargs: Any) -> Any:
                seen.update(shape=tuple(context.shape), max_length=max_length, stop=stop, **kwargs)
                return torch.cat([context, torch.full((len(context), 2), 70)], dim=1)

        lm = Wrapper(
            pretrained="no/such-model", tokenizer=str(LLAMA), backend="causal", device="cpu", batch_size=2
        )
        texts = ask(
            lm.generate_until,
            ("abc", {"until": "x", "max_gen_toks": 5}),
            ("a", {"until": "x", "max_gen_toks": 5}),
        )
        self.assertEqual(texts, [lm.tok_decode([70, 70])] * 2)
        self.assertEqual((seen["shape"], seen["max_length"], seen["stop"]), ((2, 3), 8, ["x", "</s>"]))
        self.assertEqual(seen["attention_mask"].tolist(), [[1, 1, 1], [0, 0, 1]])

    def test_batch_sizes_of_its_own(self) -> None:
        """The scheduler and the search for a size get requests: texts, context and continuation."""
        from lm_eval.models.huggingface import HFLM

        seen: list[Any] = []

        class Wrapper(HFLM):
            def _detect_batch_size(self, requests: Any = None, pos: int = 0) -> int:
                texts, context, continuation = requests[pos]
                seen.append((texts, len(context), len(continuation)))
                return 2

        lm = Wrapper(pretrained=str(LLAMA), device="cpu", dtype="float32", batch_size="auto")
        self.assert_scores(ask(lm.loglikelihood, *SHARED), ask(load().loglikelihood, *SHARED), 1e-5)
        texts = ("x y z " * 50, " b c")
        context, continuation = lm._encode_pair(*texts)
        self.assertEqual(seen, [(texts, len(context), len(continuation))])

    def test_the_size_of_a_batch_depends_on_the_longest_request(self) -> None:
        """Context and continuation count, without the token that is only predicted, up to what the model takes."""
        lm = load(batch_size="auto", max_batch_size=4096)
        for context, continuation, length in ((10, 7, 16), (1, 1, 1), (300, 4, 128)):
            requests = [(None, [5] * context, [6] * continuation)]
            self.assertEqual(lm._detect_batch_size(requests, 0), min(4096, 16384 // length))
            lm.batch_sizes.clear()
            self.assertEqual(lm._batch_scheduler(0, requests), min(4096, 16384 // length))

    def test_on_the_command_line(self) -> None:
        """A plug-in derives from `HFLM`; the worker runs it."""
        with tempfile.TemporaryDirectory() as folder:
            plugin = Path(folder, "plugin.py")
            plugin.write_text(
                "from lm_eval.api.registry import register_model\n"
                "from lm_eval.models.huggingface import HFLM\n"
                "@register_model('my-hf')\n"
                "class Mine(HFLM):\n"
                "    pass\n"
            )
            arguments = f"pretrained={LLAMA},dtype=float32"
            common = [
                "--tasks",
                "demo_capitals",
                "--limit",
                "3",
                "--device",
                "cpu",
                "--quiet",
                "--log_samples",
            ]
            written = []
            for number, model in enumerate((["my-hf", "--plugins", str(plugin)], ["hf"])):
                output = Path(folder, str(number))
                engine.run(
                    *("run", "--model", *model, "--model_args", arguments, *common),
                    *("--python", sys.executable, "--output_path", str(output)),
                )
                file = next(output.rglob("samples_*.jsonl"))
                samples = [json.loads(line) for line in file.read_text().splitlines()]
                written.append([response for sample in samples for response in sample["resps"]])
            flat = [[float(one[0][0]) for one in responses] for responses in written]
            for mine, theirs in zip(*flat, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-4)


class Loading(HFLMTestCase):
    """What the constructor makes of its arguments."""

    def test_properties(self) -> None:
        """What scripts read."""
        lm = load(batch_size=3)
        found = (
            lm.max_length,
            lm.max_gen_toks,
            lm.eot_token_id,
            lm.prefix_token_id,
            lm.batch_size,
            lm.rank,
            lm.world_size,
        )
        self.assertEqual(found, (128, 256, 2, 1, 3, 0, 1))
        self.assertEqual(
            (lm.device.type, lm.config.model_type, lm.backend, lm.vocab_size), ("cpu", "llama", "causal", 295)
        )
        self.assertEqual(lm.tokenizer_name, str(LLAMA).replace("/", "__"))
        info = lm.get_model_info()
        self.assertEqual((info["model_num_parameters"], str(info["model_dtype"])), (34720, "torch.float32"))
        self.assertEqual(lm.tok_encode("hi there", left_truncate_len=2), lm.tok_encode("hi there")[-2:])
        tokens, mask = lm.tok_batch_encode(["hi there", "x"])
        self.assertEqual((tokens.shape, mask.tolist()), ((2, 5), [[1] * 5, [0, 0, 0, 0, 1]]))

    def test_by_name(self) -> None:
        """`get_model` makes one of the text that the command line takes."""
        from lm_eval.api.registry import get_model

        options = {"batch_size": 2, "max_batch_size": None, "device": "cpu"}
        lm = get_model("hf").create_from_arg_string(f"pretrained={LLAMA},dtype=float32", options)
        self.assert_scores(ask(lm.loglikelihood, *SHARED), ask(load().loglikelihood, *SHARED), 1e-5)

    def test_an_object_stays_as_it_is(self) -> None:
        """Weights that were separated on purpose are not tied again."""
        import torch
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        model.config.tie_word_embeddings = True
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach() * 2)
        lm = HFLM(pretrained=model, tokenizer=tokenizer)
        self.assertIsNot(lm.model.lm_head.weight, lm.model.get_input_embeddings().weight)

    def test_adapters_with_embeddings(self) -> None:
        """The model gets as many rows as the adapter brings, whatever the tokenizer has."""
        import torch

        def rows(*names: str, count: int) -> dict[str, Any]:
            return {f"base_model.model.{name}": torch.zeros(count, 32) for name in names}

        embeddings = ("model.embed_tokens.weight", "lm_head.weight")
        lora = {"base_model.model.model.embed_tokens.lora_embedding_A": torch.zeros(4, 297)}
        for weights, expected in (
            (rows(*embeddings, count=297), 297),
            (rows(*embeddings, count=320), 320),
            (rows("model.embed_tokens.modules_to_save.weight", count=290), 290),
            (rows("model.embed_tokens.base_layer.weight", count=310) | lora, 310),
            (rows("lm_head.weight", count=303), 303),
            (rows("model.embed_tokens.token_adapter.base_layer.weight", count=297), 297),
            # Adapters of prompts, and of versions of `transformers` that nest the layers differently.
            ({"base_model.model.embed_tokens.weight": torch.zeros(298, 32)}, 298),
            (rows("language_model.model.embed_tokens.weight", count=299), 299),
            (rows("model.embed_tokens_per_layer.weight", count=299), 300),
            (rows(*embeddings, count=300), 300),
            (rows("model.embed_tokens.token_adapter.trainable_tokens_delta", count=2), 300),
            (rows("model.layers.0.self_attn.q_proj.lora_A.weight", count=4), 300),
        ):
            adapted = mock.Mock(side_effect=lambda model, name: model)
            stand_in = mock.Mock(spec_set=["PeftModel", "load_peft_weights"])
            stand_in.PeftModel.from_pretrained = adapted
            stand_in.load_peft_weights.return_value = weights
            with self.subTest(list(weights), rows=expected), mock.patch.dict(sys.modules, peft=stand_in):
                lm = load(peft="adapter")
                sizes = {
                    layer.weight.shape[0]
                    for layer in (lm.model.get_input_embeddings(), lm.model.get_output_embeddings())
                }
                self.assertEqual((sizes, lm.model.config.vocab_size), ({expected}, expected))
                adapted.assert_called_once_with(mock.ANY, "adapter")

    def test_a_delta_is_added(self) -> None:
        """Weights that are added to themselves are twice as large."""
        import torch
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        with torch.no_grad():
            for weights in model.parameters():
                weights *= 2
        expected = ask(HFLM(pretrained=model, tokenizer=tokenizer).loglikelihood, *SHARED)
        self.assert_scores(ask(load(delta=str(LLAMA)).loglikelihood, *SHARED), expected, 1e-4)

    def test_reasoning_that_would_be_scored(self) -> None:
        """Reasoning needs a marker that ends it, and there is none between a context and its continuation."""
        for arguments in ({}, {"think_end_token": ""}, {"backend": "native"}):
            with self.subTest(arguments), self.assertRaisesRegex(ValueError, "`think_end_token`"):
                load(enable_thinking=True, **arguments)
        for backend in ("default", "native"):
            lm = load(enable_thinking=True, think_end_token=0, backend=backend)
            with self.assertRaisesRegex(ValueError, "log-likelihoods.*`choices`"):
                lm.loglikelihood(
                    [
                        Instance(
                            request_type="loglikelihood",
                            doc={},
                            arguments=("a", " b"),
                            idx=0,
                            metadata=("choices", 0, 1),
                        )
                    ]
                )
            # Whole texts and generations have no such boundary.
            ask(lm.loglikelihood_rolling, ("a b",))
            ask(lm.generate_until, ("a", {"until": [], "max_gen_toks": 2}))
        self.assertEqual(len(ask(load(enable_thinking=False).loglikelihood, ("a", " b"))), 1)

    def test_refusals(self) -> None:
        """Errors say what to do instead."""
        for arguments, kind, text in (
            ({"autogptq": True}, NotImplementedError, "omit the argument"),
            ({"gptqmodel": True}, NotImplementedError, "omit the argument"),
            ({"peft": "x", "delta": "y"}, ValueError, "mutually exclusive"),
            ({"backend": "other"}, ValueError, "causal, seq2seq or native"),
            ({"dtype": "float17"}, AttributeError, "float17"),
            ({"device": "cuda:9"}, ValueError, "cuda:9"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(kind, text):
                load(**arguments)
        with (
            mock.patch.dict(os.environ, {"WORLD_SIZE": "2"}),
            self.assertRaisesRegex(NotImplementedError, "has started 2"),
        ):
            load()


class Seq2seq(HFLMTestCase):
    """Encoders with decoders."""

    def test_scores_and_texts(self) -> None:
        """Scores are those of the labels, whatever the batch; a limit counts what is generated."""
        import torch
        import transformers
        from lm_eval.models.huggingface import HFLM

        torch.manual_seed(1)
        _, tokenizer = live()
        config = transformers.T5Config(
            vocab_size=300, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
        )
        model = transformers.T5ForConditionalGeneration(config).eval()
        lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=2)
        self.assertEqual(lm.backend, "seq2seq")
        requests = [("Question: what is", " the answer"), ("abc", " d"), ("a b", " the other one")]
        expected = []
        for context, continuation in requests:
            labels = torch.tensor([tokenizer.encode(continuation, add_special_tokens=False)])
            with torch.no_grad():
                logits = model(torch.tensor([lm.tok_encode(context)]), labels=labels).logits[0]
            chosen = logits.log_softmax(-1).gather(1, labels[0].unsqueeze(1))
            expected.append((float(chosen.sum()), bool((logits.argmax(-1) == labels[0]).all())))
        self.assert_scores(ask(lm.loglikelihood, *requests), expected, 1e-5)
        texts = ask(
            lm.generate_until, *[(context, {"until": [], "max_gen_toks": 3}) for context, _ in requests]
        )
        with torch.no_grad():
            written = model.generate(torch.tensor([lm.tok_encode("abc")]), max_new_tokens=3, do_sample=False)
        self.assertEqual(texts[1], tokenizer.decode(written[0], skip_special_tokens=True))


if __name__ == "__main__":
    unittest.main()
