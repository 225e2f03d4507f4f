"""`HFLM` on torch: recorded answers of 0.4.13's `HFLM`, the engine's own models, and changed model objects."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from lm_eval import simple_evaluate

from tests import engine, hflm
from tests.hflm import CHECKPOINTS, LLAMA, SHARED, HFLMTestCase, ask, choices, live, load, recorded


def setUpModule() -> None:
    """Skip these tests without torch."""
    hflm.set_up()


class Recorded(HFLMTestCase):
    """Recorded answers of 0.4.13 on the checkpoint `llama`."""

    def test_scores_and_generations_by_arguments(self) -> None:
        """Pairs, entire strings and generations, with every argument that changes them."""
        answers = recorded("answers")
        for case in answers["cases"]:
            with self.subTest(case["name"]):
                given = dict(case["arguments"])
                if "tokenizer" in given:
                    given["tokenizer"] = str(CHECKPOINTS / given["tokenizer"])
                lm = load(**given)
                # In 16 bits, the order of additions matters.
                within = 0.3 if given.get("dtype") == "bfloat16" else 1e-5
                pairs = list(zip(answers["pairs"], case.get("pairs", []), strict=False))
                # The reference fails when a context becomes empty; here a prefix token replaces it.
                pairs = [(pair, score) for pair, score in pairs if not isinstance(score, dict)]
                found = ask(lm.loglikelihood, *[tuple(pair) for pair, _ in pairs])
                self.assert_scores(found, [score for _, score in pairs], within)
                strings = answers["rolling"] if "rolling" in case else []
                found = ask(lm.loglikelihood_rolling, *[(text,) for text in strings])
                for mine, theirs in zip(found, case.get("rolling", []), strict=True):
                    self.assertAlmostEqual(mine, theirs, delta=within * max(1.0, abs(theirs) / 20))
                for settings, expected in zip(answers["settings"], case.get("texts", []), strict=False):
                    requests = [(prompt, settings) for prompt in answers["prompts"]]
                    # One at a time, as recorded: with a think marker, a batch continues after a stop.
                    self.assertEqual([ask(lm.generate_until, request)[0] for request in requests], expected)

    def test_generation_settings(self) -> None:
        """Settings of requests and of the model's files change generations as in the reference."""
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
        """Prompts depend on template variables set by arguments; rejected system messages are omitted."""
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
    """The engine computes the same answers."""

    def test_scores_and_generations_equal_the_engines(self) -> None:
        """With shared contexts, with one row per request, and in batches."""
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
                request = ("Question: this is", {"until": ["\n\n"], "max_gen_toks": 8})
                self.assertEqual(ask(native.generate_until, request), ask(lm.generate_until, request))
                for text in (("word " * 60,), ("", "abc")):
                    found, wanted = (
                        ask(lm.loglikelihood_rolling, text),
                        ask(native.loglikelihood_rolling, text),
                    )
                    self.assertEqual(type(found[0]), type(wanted[0]))
                    if len(text) == 1:
                        self.assertAlmostEqual(found[0], wanted[0], delta=1e-3)

    def test_logprobs_equal_transformers(self) -> None:
        """Log-probabilities equal those that `transformers` computes for entire sequences, as for the engine."""
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

    def test_distributions_equal_those_of_the_logits(self) -> None:
        """Whole distributions, and the likely tokens alone, of continuations and entire strings."""
        import torch

        lm = load()
        requests: list[tuple[str, ...]] = [*SHARED[:6], ("", " b c"), ("a whole text",)]
        parts = list(lm._distributions(requests, 1.0, 1 << 30))
        tokens = {
            index: (whole, scored) for index, whole, scored in (part for part in parts if len(part) == 3)
        }
        rows = [part for part in parts if len(part) == 6]
        self.assertEqual(len(rows), sum(scored for _, scored in tokens.values()))
        for index, position, logprob, ids, logprobs, rest in rows:
            whole, scored = tokens[index]
            at = len(whole) - scored + position
            with torch.no_grad():
                logits = lm.model(torch.tensor([whole[:at]])).logits[0, -1]
            expected = torch.log_softmax(logits.double(), dim=-1)
            found = torch.frombuffer(bytearray(logprobs), dtype=torch.float32).double()
            self.assertEqual((ids, rest), (b"", 0.0))
            self.assertLess(float((expected - found).abs().max()), 1e-4)
            self.assertAlmostEqual(logprob, float(expected[whole[at]]), delta=1e-4)
        for _, _, _, ids, logprobs, rest in (
            part for part in lm._distributions(requests, 0.9, 64) if len(part) == 6
        ):
            found = torch.frombuffer(bytearray(logprobs), dtype=torch.float32).double()
            listed = torch.frombuffer(bytearray(ids), dtype=torch.int32)
            self.assertEqual(listed.shape, found.shape)
            self.assertTrue(bool((listed[1:] > listed[:-1]).all()) and len(listed) <= 64)
            self.assertAlmostEqual(float(found.exp().sum()) + rest, 1.0, delta=1e-5)

    def test_the_same_checkpoint_is_the_same_model_on_both_engines(self) -> None:
        """`lm-eval fidelity` between the native engine and torch: divergences below 1e-6, and no flips."""
        with tempfile.TemporaryDirectory() as folder:
            base = f"pretrained={LLAMA},dtype=float32"
            command = [
                "fidelity",
                "--model",
                "hf",
                "--model_args",
                base,
                "--against_args",
                f"{base},engine=torch",
            ]
            command += ["--tasks", "demo_capitals", "--limit", "6"]
            command += ["--device", "cpu", "--output_path", folder, "--python", sys.executable, "--json"]
            report = json.loads(engine.run(*command).stdout)
            self.assertLess(report["tokens"]["demo_capitals"]["kl"]["largest"], 1e-6)
            self.assertEqual([(score["up"], score["down"]) for score in report["scores"]], [(0, 0)] * 2)

    def test_length_dependent_rope_disables_sharing(self) -> None:
        """A context then depends on what follows, so it is never computed separately."""
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

    def test_native_backend_takes_names_only(self) -> None:
        """Overrides and objects that the engine would ignore are rejected."""
        from lm_eval.models.huggingface import HFLM

        class Other(HFLM):
            def _model_call(self, inps: Any) -> Any:
                return super()._model_call(inps)

        model, tokenizer = live()
        with self.assertRaisesRegex(ValueError, "not an object"):
            HFLM(pretrained=model, tokenizer=tokenizer, backend="native")
        with self.assertRaisesRegex(ValueError, "never calls `_model_call`"):
            Other(pretrained=str(LLAMA), backend="native")
        with self.assertRaisesRegex(NotImplementedError, "delta"):
            load(backend="native", delta="somewhere")
        # Adapters are native, so this one is looked for.
        with self.assertRaisesRegex(OSError, "The adapter `somewhere`"):
            load(backend="native", peft="somewhere")


class Live(HFLMTestCase):
    """Model objects that a script holds."""

    def test_evaluates_changed_weights(self) -> None:
        """Zeroing a layer in Python gives the scores of the changed checkpoint."""
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

    def test_different_weights_do_not_share_cached_answers(self) -> None:
        """Models share a cache only if all weights are equal."""
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
                    model=lm,
                    tasks=[choices()],
                    bootstrap_iters=0,
                    verbosity="ERROR",
                    use_cache=folder + "/cache",
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

    def test_subclass_answers_are_scored(self) -> None:
        """A subclass that changes the answers of `super()` is scored by its own answers, on every run."""
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

    def test_rejects_loading_arguments_for_objects(self) -> None:
        """They would have no effect on an object."""
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        for argument in ({"peft": "x"}, {"parallelize": True}, {"attn_implementation": "eager"}):
            with self.assertRaisesRegex(ValueError, next(iter(argument))):
                HFLM(pretrained=model, tokenizer=tokenizer, **argument)

    def test_answers_are_handed_over(self) -> None:
        """The hook receives each answer with its request."""
        lm = load()
        taken = []
        lm.cache_hook = mock.Mock(add_partial=lambda *arguments: taken.append(arguments))
        requests = [("abc", " a"), ("abc", " b c"), ("abc", " a")]
        answers = ask(lm.loglikelihood, *requests)
        self.assertCountEqual(
            taken, [("loglikelihood", *pair) for pair in zip(requests, answers, strict=True)]
        )


if __name__ == "__main__":
    unittest.main()
