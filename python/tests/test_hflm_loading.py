"""How `HFLM` loads checkpoints, adapters and sequence-to-sequence models."""

from __future__ import annotations

import os
import unittest
from typing import Any
from unittest import mock

from lm_eval.api.instance import Instance

from tests import hflm
from tests.hflm import LLAMA, SHARED, HFLMTestCase, ask, live, load


def setUpModule() -> None:
    """Skip these tests without torch."""
    hflm.set_up()


class Loading(HFLMTestCase):
    """Effects of the constructor's arguments."""

    def test_properties(self) -> None:
        """Properties that scripts read."""
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
        """`get_model` makes a model from an argument string of the command line."""
        from lm_eval.api.registry import get_model

        options = {"batch_size": 2, "max_batch_size": None, "device": "cpu"}
        lm = get_model("hf").create_from_arg_string(f"pretrained={LLAMA},dtype=float32", options)
        self.assert_scores(ask(lm.loglikelihood, *SHARED), ask(load().loglikelihood, *SHARED), 1e-5)

    def test_keeps_untied_weights_of_objects(self) -> None:
        """Weights that were untied on purpose are not tied again."""
        import torch
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        model.config.tie_word_embeddings = True
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach() * 2)
        lm = HFLM(pretrained=model, tokenizer=tokenizer)
        self.assertIsNot(lm.model.lm_head.weight, lm.model.get_input_embeddings().weight)

    def test_adapters_with_embeddings(self) -> None:
        """The model gets the adapter's number of embedding rows, whatever the tokenizer has."""
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
            # Prompt adapters, and versions of `transformers` that nest layers differently.
            ({"base_model.model.embed_tokens.weight": torch.zeros(298, 32)}, 298),
            (rows("language_model.model.embed_tokens.weight", count=299), 299),
            (rows("model.embed_tokens_per_layer.weight", count=299), 300),
            (rows(*embeddings, count=300), 300),
            (rows("model.embed_tokens.token_adapter.trainable_tokens_delta", count=2), 300),
            (rows("model.layers.0.self_attn.q_proj.lora_A.weight", count=4), 300),
        ):
            adapted = mock.Mock(side_effect=lambda model, name: model)
            model_class = mock.Mock(spec_set=["from_pretrained"])
            model_class.from_pretrained = adapted
            load_weights = mock.Mock(return_value=weights)
            with (
                self.subTest(list(weights), rows=expected),
                mock.patch.multiple("peft", PeftModel=model_class, load_peft_weights=load_weights),
            ):
                lm = load(peft="adapter")
                sizes = {
                    layer.weight.shape[0]
                    for layer in (lm.model.get_input_embeddings(), lm.model.get_output_embeddings())
                }
                self.assertEqual((sizes, lm.model.config.vocab_size), ({expected}, expected))
                adapted.assert_called_once_with(mock.ANY, "adapter")

    def test_adds_delta_weights(self) -> None:
        """Weights added to themselves are twice as large."""
        import torch
        from lm_eval.models.huggingface import HFLM

        model, tokenizer = live()
        with torch.no_grad():
            for weights in model.parameters():
                weights *= 2
        expected = ask(HFLM(pretrained=model, tokenizer=tokenizer).loglikelihood, *SHARED)
        self.assert_scores(ask(load(delta=str(LLAMA)).loglikelihood, *SHARED), expected, 1e-4)

    def test_rejects_reasoning_in_scored_answers(self) -> None:
        """Reasoning needs an end marker, and does not fit between a context and its continuation."""
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
            # Entire strings and generations have no such boundary.
            ask(lm.loglikelihood_rolling, ("a b",))
            ask(lm.generate_until, ("a", {"until": [], "max_gen_toks": 2}))
        self.assertEqual(len(ask(load(enable_thinking=False).loglikelihood, ("a", " b"))), 1)

    def test_unsupported_arguments(self) -> None:
        """Errors say what to do instead."""
        for arguments, kind, text in (
            ({"autogptq": True}, NotImplementedError, "omit the argument"),
            ({"gptqmodel": True}, NotImplementedError, "omit the argument"),
            ({"peft": "x", "delta": "y"}, ValueError, "cannot be combined"),
            ({"backend": "other"}, ValueError, "causal, seq2seq or native"),
            ({"dtype": "float17"}, AttributeError, "float17"),
            ({"device": "cuda:9"}, ValueError, "cuda:9"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(kind, text):
                load(**arguments)
        with (
            mock.patch.dict(os.environ, {"WORLD_SIZE": "2"}),
            self.assertRaisesRegex(NotImplementedError, "has started 2 processes"),
        ):
            load(parallelize=True)


class Seq2seq(HFLMTestCase):
    """Encoder-decoder models."""

    def test_scores_and_generations(self) -> None:
        """Scores are those of the labels, whatever the batch; limits apply to generated tokens."""
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
        requests = [("Question: this is", " the answer"), ("abc", " d"), ("a b", " the other one")]
        expected = []
        for context, continuation in requests:
            labels = torch.tensor([tokenizer.encode(continuation, add_special_tokens=False)])
            with torch.no_grad():
                logits = model(torch.tensor([lm.tok_encode(context)]), labels=labels).logits[0]
            chosen = logits.log_softmax(-1).gather(1, labels[0].unsqueeze(1))
            expected.append((float(chosen.sum()), bool((logits.argmax(-1) == labels[0]).all())))
        self.assert_scores(ask(lm.loglikelihood, *requests), expected, 1e-5)
        strings = ask(
            lm.generate_until, *[(context, {"until": [], "max_gen_toks": 3}) for context, _ in requests]
        )
        with torch.no_grad():
            written = model.generate(torch.tensor([lm.tok_encode("abc")]), max_new_tokens=3, do_sample=False)
        self.assertEqual(strings[1], tokenizer.decode(written[0], skip_special_tokens=True))


if __name__ == "__main__":
    unittest.main()
