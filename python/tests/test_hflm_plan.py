"""How `HFLM` shares contexts, sizes batches and calls overridden methods."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from lm_eval.api.model import LM

from tests import engine, hflm
from tests.hflm import CHECKPOINTS, LLAMA, SHARED, HFLMTestCase, ask, live, load


def setUpModule() -> None:
    """Skip these tests without torch."""
    hflm.set_up()


class Plan(HFLMTestCase):
    """How much is computed."""

    def test_options_of_one_token_share_a_row(self) -> None:
        """Four letters after one question need one row, and a second question needs another."""
        lm = load()
        shapes = []
        call = lm._model_call
        lm._model_call = lambda inps: shapes.append(tuple(inps.shape)) or call(inps)
        letters = [(question, letter) for question in ("Question:", "what") for letter in "abcd"]
        ask(lm.loglikelihood, *letters)
        self.assertEqual([rows for rows, _ in shapes], [1, 1])

    def test_context_is_computed_once(self) -> None:
        """Long options of a question continue from its context."""
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

    def test_module_of_the_caller_gets_complete_sequences(self) -> None:
        """A live module sees each sequence from its start, also in an evaluation: it may be calibrated by it."""
        import lm_eval
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        seen: list[Any] = []
        model.register_forward_pre_hook(
            lambda _, args, kwargs: seen.extend((args or (kwargs["input_ids"],))[0].tolist()), with_kwargs=True
        )
        lm = HFLM(pretrained=model, tokenizer=tokenizer)
        context = "word " * 20 + "is"
        endings = [" the answer", " a b c", " Question: answer"]
        rows = [{"question": context, "options": endings}] * 2
        task = {
            "task": "calibration",
            "custom_dataset": lambda **_: {"test": rows},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "{{question}}",
            "doc_to_choice": "{{options}}",
            "doc_to_target": 0,
            "target_delimiter": "",
        }
        lengths = sorted(len(tokenizer.encode(context + ending)) - 1 for ending in endings)
        for _ in range(2):
            seen.clear()
            results = lm_eval.simple_evaluate(lm, tasks=[task], bootstrap_iters=0)
            # Equal rows of one call share a pass, as in the reference.
            self.assertEqual(sorted(map(len, seen)), lengths)
        before = results["samples"]["calibration"][0]["resps"]
        model.lm_head.weight.data.mul_(0.5)
        after = lm_eval.simple_evaluate(lm, tasks=[task], bootstrap_iters=0)["samples"]["calibration"][0]["resps"]
        self.assertNotEqual(before, after)

    def test_sequence_split_at_two_positions(self) -> None:
        """A row that also answers a longer continuation needs logits before the context of its first request."""
        lm = load()
        context = [7 * number % 90 + 5 for number in range(100)]
        strings = [
            (None, context, [9]),
            (None, context, [11, 12]),
            (None, context, [13, 14, 15]),
            (None, context[:-1], [context[-1], 9]),
            (None, context[:-3], [*context[-3:], 10]),
        ]
        for requests in (strings, strings[::-1]):
            lm.logits_cache = True
            found = lm._loglikelihood_tokens(requests, disable_tqdm=True)
            self.assertTrue(lm._shares_contexts)
            lm.logits_cache = False
            self.assert_scores(found, lm._loglikelihood_tokens(requests, disable_tqdm=True), 1e-5)

    def test_disagreeing_cached_context_disables_sharing(self) -> None:
        """A single comparison with the full sequence decides, and wrong numbers never appear."""
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
        """They do not change scores, and report the chosen size."""
        expected = ask(load().loglikelihood, *SHARED)
        for size, count in (("auto", 1), ("auto:3", 3)):
            lm = load(batch_size=size, max_batch_size=2, logits_cache=False)
            self.assert_scores(ask(lm.loglikelihood, *SHARED), expected, 1e-5)
            self.assertEqual(list(lm.batch_sizes.values()), [2] * count)
        with self.assertRaisesRegex(ValueError, "batch_size"):
            load(batch_size="many")

    def test_batch_sizes_of_a_script(self) -> None:
        """Sizes that a script writes are used until it changes them; detected ones are detected again."""
        lm = load(batch_size="auto", max_batch_size=8, logits_cache=False)
        rows: list[int] = []
        call = lm._model_call
        lm._model_call = lambda inps: rows.append(inps.shape[0]) or call(inps)
        expected = ask(lm.loglikelihood, *SHARED)
        self.assertEqual((lm.batch_sizes, max(rows)), ({0: 8}, 8))
        for slot, size in lm.batch_sizes.items():
            lm.batch_sizes[slot] = max(size // 4, 1)
        for _ in range(2):
            rows.clear()
            self.assert_scores(ask(lm.loglikelihood, *SHARED), expected, 1e-5)
            self.assertEqual((lm.batch_sizes, max(rows)), ({0: 2}, 2))
        lm.batch_sizes = {0: 1}
        rows.clear()
        ask(lm.loglikelihood, *SHARED)
        self.assertEqual(max(rows), 1)

    def test_out_of_memory_halves_batches(self) -> None:
        """A batch that does not fit is halved, repeatedly."""
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

    def test_unscorable_continuations_are_an_error(self) -> None:
        """Errors name the problem."""
        lm = load(max_length=8)
        with self.assertRaisesRegex(ValueError, "12 tokens, but the model's maximum length is 8"):
            ask(lm.loglikelihood, ("a", "b" * 12))
        with self.assertRaisesRegex(ValueError, "no room for a prompt"):
            ask(lm.generate_until, ("a", {"until": [], "max_gen_toks": 8}))
        with self.assertRaisesRegex(ValueError, "no tokens"):
            ask(lm.loglikelihood, ("a", ""))


class Subclasses(HFLMTestCase):
    """Subclasses of `HFLM` as found in public repositories."""

    requests: ClassVar[list[tuple[str, str]]] = [("Question: this is", " the answer"), ("abc", " d")]

    def test_custom_logits(self) -> None:
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

    def test_custom_constructor(self) -> None:
        """Mamba scripts call `LM.__init__` and set only the attributes they know."""
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

    def test_custom_loading_and_generation(self) -> None:
        """`_get_config` and `_create_model` load; `_model_generate` receives tokens, a mask and settings by name."""
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
        strings = ask(
            lm.generate_until,
            ("abc", {"until": "x", "max_gen_toks": 5}),
            ("a", {"until": "x", "max_gen_toks": 5}),
        )
        self.assertEqual(strings, [lm.tok_decode([70, 70])] * 2)
        self.assertEqual((seen["shape"], seen["max_length"], seen["stop"]), ((2, 3), 8, ["x", "</s>"]))
        self.assertEqual(seen["attention_mask"].tolist(), [[1, 1, 1], [0, 0, 1]])

    def test_custom_batch_sizes(self) -> None:
        """The batch scheduler and size detection receive requests of strings, context and continuation."""
        from lm_eval.models.huggingface import HFLM

        seen: list[Any] = []

        class Wrapper(HFLM):
            def _detect_batch_size(self, requests: Any = None, pos: int = 0) -> int:
                strings, context, continuation = requests[pos]
                seen.append((strings, len(context), len(continuation)))
                return 2

        lm = Wrapper(pretrained=str(LLAMA), device="cpu", dtype="float32", batch_size="auto")
        self.assert_scores(ask(lm.loglikelihood, *SHARED), ask(load().loglikelihood, *SHARED), 1e-5)
        strings = ("x y z " * 50, " b c")
        context, continuation = lm._encode_pair(*strings)
        self.assertEqual(seen, [(strings, len(context), len(continuation))])

    def test_batch_size_depends_on_longest_request(self) -> None:
        """The length is that of context and continuation without the last token, up to the model's maximum."""
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


if __name__ == "__main__":
    unittest.main()
