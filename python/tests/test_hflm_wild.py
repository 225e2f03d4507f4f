"""Calls of public projects with `HFLM` under 0.4.13 and under this package, on a tiny checkpoint."""

from __future__ import annotations

import shutil
import unittest

from tests import hflm
from tests.wild_reference import CHECKPOINT, Calls

MODEL = """
    import torch, transformers
    torch.set_num_threads(1)
    import lm_eval
    from lm_eval import evaluator
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager, get_task_dict
    from lm_eval.utils import make_table
    manager = TaskManager(include_path="tasks")

    def live():
        model = transformers.AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
        return model, transformers.AutoTokenizer.from_pretrained(CHECKPOINT)
"""


def setUpModule() -> None:
    """Skip these tests without torch."""
    hflm.set_up()


class Objects(Calls):
    """Section B: `HFLM`, its subclasses, and `hf` by name."""

    tolerance = 1e-4

    def test_objects(self) -> None:
        """Calls 31, 32, 43, 44, 58 and 65: live modules."""
        self.both(MODEL + """
    # torchao: the model is positional; a perplexity.
    model, tokenizer = live()
    results = evaluator.simple_evaluate(HFLM(pretrained=model, tokenizer=tokenizer), tasks=["wild_wiki"], batch_size=1,
                                        task_manager=manager, bootstrap_iters=0)
    show(results, number=31, value=results["results"]["wild_wiki"]["word_perplexity,none"])

    # torchao: an evaluation as a calibration, which counts the tokens that the module gets.
    seen = []
    def observe(module, args, kwargs):
        inputs = args[0] if args else kwargs["input_ids"]
        seen.append(sorted(map(len, inputs.tolist())))
    handle = model.register_forward_pre_hook(observe, with_kwargs=True)
    show(evaluator.simple_evaluate(HFLM(pretrained=model, tokenizer=tokenizer), tasks=["wild_mmlu_one"], limit=3,
                                   batch_size=1, task_manager=manager, bootstrap_iters=0), number=32, seen=sorted(seen))
    handle.remove()

    # neural-compressor: a chat template, with examples as turns.
    tokenizer.chat_template = ("{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"
                               "{% if add_generation_prompt %}assistant:{% endif %}")
    lm = HFLM(pretrained=model, tokenizer=tokenizer, add_bos_token=True, batch_size=2)
    show(lm_eval.simple_evaluate(lm, tasks=["wild_gsm"], apply_chat_template=True, fewshot_as_multiturn=True, limit=2,
                                 num_fewshot=1, gen_kwargs="max_gen_toks=4", task_manager=manager), number=43)

    # auto-round: after an error, the batch sizes are halved in place.
    tokenizer.chat_template = None
    hflm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=4, max_batch_size=64, dtype="auto", add_bos_token=False)
    attempts = []
    def evaluate():
        return lm_eval.simple_evaluate(model=hflm, model_args=None, batch_size=4, max_batch_size=64, limit=3,
                                       tasks=["wild_mmlu_two"], device="cpu", task_manager=manager, bootstrap_iters=0)
    call = hflm._model_call
    def failing(*args, **kwargs):
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("out of memory")
        return call(*args, **kwargs)
    hflm._model_call = failing
    try:
        results = evaluate()
    except RuntimeError:
        for slot, size in hflm.batch_sizes.items():
            hflm.batch_sizes[slot] = max(size // 2, 1)
        results = evaluate()
    show(results, number=44, sizes=dict(hflm.batch_sizes))

    # A training or ablation script: one object, other weights.
    model, tokenizer = live()
    lm = HFLM(pretrained=model, tokenizer=tokenizer)
    for factor in (1.0, 0.25, 4.0):
        model.lm_head.weight.data.mul_(factor)
        show(evaluator.simple_evaluate(model=lm, tasks=["wild_mmlu_one"], batch_size=8, task_manager=manager,
                                       bootstrap_iters=0), number=58)

    # optimum-habana: an adapter, chosen documents, settings by keyword.
    class HabanaModelAdapter(HFLM):
        def __init__(self, tokenizer, model):
            super().__init__(pretrained=model, tokenizer=tokenizer, backend="causal", batch_size=2)
        @property
        def max_length(self):
            return 96
        def get_model_info(self):
            return {"model_num_parameters": 1}
    results = evaluator.simple_evaluate(
        HabanaModelAdapter(tokenizer, model), tasks=["wild_mmlu_one"], limit=None, samples={"wild_mmlu_one": [0, 2]},
        log_samples=True, num_fewshot=1, fewshot_as_multiturn=False, gen_kwargs=None, system_instruction="Add.",
        apply_chat_template=False, metadata={"a": 1}, confirm_run_unsafe_code=True, task_manager=manager, bootstrap_iters=0)
    json.dumps(results, default=lm_eval.utils.handle_non_serializable)
    results["samples"] = {}
    show(results, number=65)
        """)

    def test_subclasses(self) -> None:
        """Calls 37, 38, 40, 41, 52 and 59: wrappers around other models."""
        self.both(MODEL + """
    # torchtune and torchchat: a wrapper with its own tokenization and logits.
    class EvalWrapper(HFLM):
        def __init__(self, model, tokenizer, max_seq_length=128):
            self._inner, self._tokens, self._max_seq_length = model, tokenizer, max_seq_length
            super().__init__(pretrained=model, tokenizer=tokenizer, device="cpu", batch_size=2)
        @property
        def model(self): return self._inner
        @property
        def max_length(self): return self._max_seq_length
        @property
        def max_gen_toks(self): return 4
        @property
        def batch_size(self): return 2
        def tok_encode(self, text, **kwargs):
            return self._tokens.encode(text, add_special_tokens=False)
        def tok_decode(self, tokens, **kwargs):
            return self._tokens.decode(tokens if isinstance(tokens, (list, int)) else tokens.tolist())
        @torch.inference_mode()
        def _model_call(self, inps, **kwargs):
            return self._inner(inps).logits

    model, tokenizer = live()
    tasks = get_task_dict(["wild_mmlu_one", "wild_wiki"], TaskManager(include_path="tasks"))
    output = evaluator.evaluate(EvalWrapper(model, tokenizer), tasks, apply_chat_template=False, limit=3)
    show(output, number=37, table=len(make_table(output).splitlines()))
    tasks = get_task_dict(["wild_mmlu_two"], manager)
    results = evaluator.evaluate(EvalWrapper(model, tokenizer), tasks, limit=2)
    results["mine"] = True
    show(results, number=38)

    # executorch: a wrapper that records its inputs.
    inputs = []
    class EagerEvalWrapper(HFLM):
        def __init__(self, model, tokenizer, max_seq_length=None):
            self._max_seq_length = 100 if max_seq_length is None else max_seq_length
            super().__init__(device="cpu", pretrained=model, tokenizer=tokenizer)
        @property
        def eot_token_id(self): return self.tokenizer.eos_token_id
        @property
        def max_length(self): return self._max_seq_length
        @property
        def device(self): return "cpu"
        def tok_encode(self, string, **kwargs):
            return self.tokenizer.encode(string, add_special_tokens=True)
        def _model_call(self, inps):
            inputs.append(inps.shape[1])
            return self._model(inps).logits
    for number, tasks, limit in ((40, ["wild_wiki"], 3), (41, ["wild_mmlu_one"], 1)):
        inputs.clear()
        show(lm_eval.simple_evaluate(model=EagerEvalWrapper(model, tokenizer), tasks=tasks, num_fewshot=0, limit=limit,
                                     task_manager=manager), number=number, inputs=sorted(inputs))

    # Olive: a registered model with the helpers of `lm_eval.models`.
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import get_model, register_model
    from lm_eval.models.utils import Collator
    from lm_eval.models.utils_hf import pad_and_concat

    @register_model("ort-of-this-test")
    class Ort(TemplateLM):
        def __init__(self, **kwargs):
            super().__init__()
            self.model, self.tokenizer = live()
        eot_token_id = property(lambda self: self.tokenizer.eos_token_id)
        def tok_encode(self, string, **kwargs):
            return self.tokenizer.encode(string, add_special_tokens=False)
        def _loglikelihood_tokens(self, requests, **kwargs):
            ordered = Collator(requests, sort_fn=lambda r: (-len(r[1] + r[2]), tuple(r[1] + r[2])))
            answers = []
            for chunk in ordered.get_batched(n=2):
                rows = [torch.tensor((context + rest)[:-1]) for _, context, rest in chunk]
                logits = self.model(pad_and_concat(max(map(len, rows)), rows)).logits.log_softmax(-1)
                for (_, context, rest), row in zip(chunk, logits):
                    chosen = row[len(context) - 1 : len(context) - 1 + len(rest)].gather(1, torch.tensor(rest)[:, None])
                    answers.append((float(chosen.sum()), False))
            return ordered.get_original(answers)
        def loglikelihood_rolling(self, requests, disable_tqdm=False): raise NotImplementedError
        def generate_until(self, requests, disable_tqdm=False): raise NotImplementedError
    show(lm_eval.simple_evaluate(model="ort-of-this-test", model_args={"folder": "x"}, tasks=["wild_mmlu_one"], limit=2,
                                 task_manager=manager), number=52)

    # An ablation script: the module returns a dictionary.
    class Wrapper(HFLM):
        def _model_call(self, inps, **kwargs):
            return {"logits": self.model(inps).logits}["logits"]
    show(lm_eval.simple_evaluate(model=Wrapper(pretrained=model, tokenizer=tokenizer, max_batch_size=16),
                                 tasks=["wild_mmlu_one"], limit=2, task_manager=manager), number=59)
        """)

    def test_046_registered_wrapper(self) -> None:
        """mamba: a registered subclass that calls only `LM.__init__`, and the command line."""
        script = self.write("lm_harness_eval.py", """
import torch, transformers
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM

@register_model("mamba")
class MambaEvalWrapper(HFLM):
    AUTO_MODEL_CLASS = transformers.AutoModelForCausalLM

    def __init__(self, pretrained, max_length=128, batch_size=None, device="cpu", dtype=torch.float32):
        LM.__init__(self)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(pretrained, dtype=torch.float32)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(pretrained)
        self.tokenizer.pad_token_id = self.tokenizer.eos_token_id
        self.vocab_size = self.tokenizer.vocab_size
        self._batch_size = int(batch_size) if batch_size is not None else 64
        self.batch_size_per_gpu = self._batch_size
        self._max_length = max_length
        self._device = torch.device(device)
        self.backend, self.truncation, self.logits_cache, self.add_bos_token = "causal", False, True, False
        self.softmax_dtype = self.mixed_precision_dtype = self.custom_prefix_token_id = None
        self.pretrained, self.delta, self.peft, self.revision = pretrained, None, None, "main"
        self._config = self._model.config
        self._rank, self._world_size = 0, 1
        self.batch_schedule, self.batch_sizes, self.max_batch_size = 1, {}, 64
        self.think_end_token = self.enable_thinking = None
        self.chat_template_args = {}

    @property
    def batch_size(self):
        return self._batch_size

if __name__ == "__main__":
    cli_evaluate()
""")
        self.both_commands(
            "--model", "mamba", "--model_args", f"pretrained={CHECKPOINT}", "--tasks", "wild_mmlu,wild_wiki", "--device",
            "cpu", "--batch_size", "4", "--output_path", "OUT", "--include_path", "tasks", program=(str(script),),
        )

    def test_by_name(self) -> None:
        """Calls 35 and 55: `HFLM` of a folder, and the model `hf`, with the errors that callers expect."""
        self.both(MODEL + """
    # litgpt: seeds, tables and JSON.
    model = HFLM(pretrained=CHECKPOINT, device="cpu", batch_size=2, dtype=torch.float32)
    results = evaluator.simple_evaluate(
        model=model, tasks=["wild_mmlu"], num_fewshot=1, batch_size="auto:4", device="cpu", limit=3, random_seed=5,
        numpy_random_seed=5, torch_random_seed=5, task_manager=manager, bootstrap_iters=0)
    show(results, number=35, tables=[len(make_table(results).splitlines()), len(make_table(results, "groups").splitlines())])
    json.dumps(results, default=str)
    print("RESULT", json.dumps("wild_gsm" in TaskManager(include_path="tasks").task_index.keys()))

    # instructlab: `hf` by name; an unknown task is a `KeyError`, an unknown model an `OSError`.
    def evaluate(pretrained, tasks):
        return lm_eval.simple_evaluate(
            model="hf", model_args="pretrained=" + pretrained + ",dtype=float32", tasks=tasks, num_fewshot=1, batch_size=2,
            device="cpu", task_manager=manager, system_instruction="Add.", apply_chat_template=False, bootstrap_iters=0)
    show(evaluate(CHECKPOINT, ["wild_mmlu_one"]), number=55)
    for pretrained, tasks in ((CHECKPOINT, ["no_such_task"]), ("no/such-model", ["wild_mmlu_one"])):
        try:
            evaluate(pretrained, tasks)
        except KeyError:
            print('RESULT "KeyError"')
        except OSError:
            print('RESULT "OSError"')
        """)

    def test_command_lines(self) -> None:
        """Calls 34 and 50: the model `hf` on the command line."""
        self.both_commands(
            "--model", "hf", "--model_args", f"pretrained={CHECKPOINT},attn_implementation=eager,dtype=float32", "--tasks",
            "wild_mmlu_one,wild_wiki", "--batch_size", "8", "--output_path", "OUT", "--num_fewshot", "0", "--include_path",
            "tasks", "--device", "cpu",
        )
        shutil.rmtree(self.folder / "ours")
        shutil.rmtree(self.folder / "reference")
        self.both_commands(
            "--model", "hf", "--model_args", f"pretrained={CHECKPOINT},trust_remote_code=True,dtype=float32", "--tasks",
            "wild_mmlu_two", "--num_fewshot", "1", "--output_path", "OUT/1a2b3c.json", "--trust_remote_code",
            "--include_path", "tasks", "--batch_size", "auto", "--limit", "3", "--device", "cpu",
        )


if __name__ == "__main__":
    unittest.main()
