"""Calls of public projects under 0.4.13 and under this package: servers, and classes that need no torch."""

from __future__ import annotations

import unittest

from tests import engine
from tests.wild_reference import CHECKPOINT, Calls, Server

VLLM = "launched_calls.rs runs its arguments, and test_launched the class, with a stand-in for vLLM"

TABLE = {
    **dict.fromkeys((1, 2, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26), VLLM),
    **dict.fromkeys((4, 5, 7, 8), "Classes.test_scripts"),
    28: "Classes.test_028_shuffled_documents",
    29: "Fallback.test_arguments_of_torch",
    **dict.fromkeys((31, 32, 43, 44, 58, 65), "Objects.test_objects"),
    **dict.fromkeys((34, 50), "Objects.test_command_lines"),
    **dict.fromkeys((35, 55), "Objects.test_by_name"),
    **dict.fromkeys((37, 38, 40, 41, 52, 59), "Objects.test_subclasses"),
    46: "Objects.test_046_registered_wrapper",
    47: "needs the package `mamba_ssm` and CUDA",
    49: "Fallback.test_launchers",
    53: "needs the package `optimum` with OpenVINO",
    56: "Fallback.test_launchers",
    **dict.fromkeys((61, 62, 64, 67, 70, 71), "Classes.test_scripts"),
    68: "Classes.test_068_functions_of_tasks",
    **dict.fromkeys((73, 74, 76, 80, 86, 91, 92), "Servers.test_scripts"),
    77: "Servers.test_077_command_line",
    79: "Servers.test_079_log_samples",
    82: "Servers.test_082_chat",
    83: "Servers.test_083_json_arguments",
    85: "Servers.test_085_scores_of_text_prompts",
    88: "Servers.test_088_every_word_is_a_string",
    89: "Servers.test_089_payload_without_seed",
}
"""The test of each call of the collection, or the reason why there is none. Checkpoints and tasks are tiny."""


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Servers(Calls):
    """Section D: models behind a server."""

    def setUp(self) -> None:
        """Start a server."""
        super().setUp()
        self.url = self.start_server()
        self.completions = f"model={CHECKPOINT},base_url={self.url}/completions"

    def test_scripts(self) -> None:
        """Calls 73, 74, 76, 80, 86, 91 and 92, one after the other in one process."""
        self.both(f"""
            import lm_eval, lm_eval.tasks
            manager = lm_eval.tasks.TaskManager(include_path="tasks")
            completions = "{self.completions}"

            def evaluate(number, model_args, model="local-completions", **given):
                results = lm_eval.simple_evaluate(
                    model=model, model_args=model_args, task_manager=manager, bootstrap_iters=0, **given)
                show(results, number=number)

            # vllm: `tasks` is a string, and many requests are concurrent.
            evaluate(73, completions + ",num_concurrent=500,tokenized_requests=False", tasks="wild_gsm")
            # vllm: the model's name is given as `pretrained`.
            evaluate(74, completions.replace("model=", "pretrained=") + ",num_concurrent=512,max_retries=3",
                     tasks=["wild_gsm"], num_fewshot=1, limit=4)
            # vllm: text prompts with examples.
            evaluate(76, completions + ",tokenized_requests=False", tasks=["wild_gsm"], num_fewshot=3)
            # sglang: arguments as a mapping, and `fewshot_as_multiturn` with and without a chat template.
            for multiturn in (False, True):
                evaluate(80, dict(model=CHECKPOINT, base_url="{self.url}/completions", num_concurrent=8),
                         tasks=["wild_gsm"], num_fewshot=2, limit=3, apply_chat_template=False,
                         fewshot_as_multiturn=multiturn, gen_kwargs=None, batch_size="auto")
            # ModelOpt: the batch size and the string `None` are model arguments.
            evaluate(86, completions + ",num_concurrent=1,max_retries=3,tokenized_requests=False,batch_size=128,"
                     "tokenizer_backend=None", tasks=["wild_gsm"])
            # instructlab: log-likelihoods with the tokenizer of the checkpoint.
            evaluate(91, "base_url={self.url}/completions,model=" + CHECKPOINT + ",tokenizer_backend=huggingface",
                     tasks=["wild_mmlu_one", "wild_wiki"], num_fewshot=1)
            # instructlab: a name that no release has.
            try:
                evaluate(92, "model=m", model="openai", tasks=["wild_gsm"])
            except (KeyError, ValueError):
                print("RESULT 92")
        """)

    def test_077_command_line(self) -> None:
        """vllm: `python3 -m lm_eval`, and the results file."""
        arguments = f"{self.completions},num_concurrent=4,max_retries=3,tokenized_requests=False,trust_remote_code=True,timeout=3600"
        self.both_commands(
            "--model", "local-completions", "--tasks", "wild_gsm", "--model_args", arguments, "--output_path", "OUT",
            "--include_path", "tasks",
        )

    def test_079_log_samples(self) -> None:
        """perf-eval: samples files, and the list of tasks."""
        arguments = f"{self.completions},tokenized_requests=false,timeout=6000,num_concurrent=1024,max_length=40960"
        self.both_commands(
            "--model", "local-completions", "--model_args", arguments, "--tasks", "wild_gsm", "--num_fewshot", "2",
            "--log_samples", "--output_path", "OUT/gsm8k", "--include_path", "tasks",
        )
        self.both("""
            from lm_eval.tasks import TaskManager
            names = TaskManager(include_path="tasks").all_tasks
            print("RESULT", json.dumps([name in names for name in ("wild_gsm", "wild_mmlu", "no_such_task")]))
        """)

    def test_080_mapping(self) -> None:
        """sglang: arguments as a mapping, and `fewshot_as_multiturn` without a chat template."""
        for multiturn in (True, False):
            self.both(f"""
                import lm_eval
                show(lm_eval.simple_evaluate(
                    model="local-completions",
                    model_args=dict(model={str(CHECKPOINT)!r}, base_url="{self.url}/completions", num_concurrent=8),
                    tasks=["wild_gsm"], num_fewshot=2, limit=3, apply_chat_template=False,
                    fewshot_as_multiturn={multiturn}, gen_kwargs=None, batch_size="auto", bootstrap_iters=0,
                    task_manager=lm_eval.tasks.TaskManager(include_path="tasks")))
            """)

    def test_082_chat(self) -> None:
        """sglang: a chat server, a batch size that it cannot use, and a very long timeout."""
        arguments = f"model=m,base_url={self.url}/chat/completions,num_concurrent=128,timeout=999999,max_gen_toks=2048"
        self.both_commands(
            "--model", "local-chat-completions", "--model_args", arguments, "--tasks", "wild_gsm", "--batch_size", "128",
            "--apply_chat_template", "--num_fewshot", "0", "--output_path", "OUT", "--include_path", "tasks", "--log_samples",
        )

    def test_083_json_arguments(self) -> None:
        """sglang: arguments as JSON."""
        arguments = (
            f'{{"base_url": "{self.url}/chat/completions", "model": "m", "num_concurrent": 256, "max_retries": 10, '
            '"max_gen_toks": 2048}'
        )
        self.both_commands(
            "--model", "local-chat-completions", "--model_args", arguments, "--tasks", "wild_gsm", "--batch_size", "1",
            "--apply_chat_template", "--num_fewshot", "2", "--output_path", "OUT", "--include_path", "tasks",
            "--trust_remote_code",
        )

    def test_085_scores_of_text_prompts(self) -> None:
        """ModelOpt: log-likelihoods of a group, with text prompts."""
        self.both_commands(
            "--model", "local-completions", "--model_args", f"{self.completions},tokenized_requests=False", "--batch_size",
            "auto", "--tasks", "wild_mmlu", "--output_path", "OUT", "--include_path", "tasks", "--log_samples",
        )

    def test_088_every_word_is_a_string(self) -> None:
        """tt-inference-server: a long command line."""
        arguments = f"{self.completions},tokenizer_backend=huggingface,max_length=2048,num_concurrent=2,max_retries=2"
        self._long_command(arguments, "42", "--num_fewshot", "1", "--limit", "3")

    def test_088_unset_seed(self) -> None:
        """The same with a seed that is the word None, so without drawn examples, with chosen documents and metadata."""
        arguments = f"{self.completions},tokenizer_backend=huggingface,max_length=2048,num_concurrent=2,max_retries=2"
        documents = ("--samples", '{"wild_gsm": [0, 2]}', "--metadata", '{"max_seq_lengths": [4096]}')
        self._long_command(arguments, "None", "--num_fewshot", "0", *documents)

    def _long_command(self, arguments: str, seed: str, *more: str) -> None:
        self.both_commands(
            "--tasks", "wild_gsm", "--model", "local-completions", "--model_args", arguments, "--gen_kwargs",
            "max_gen_toks=16,temperature=0.0,seed=42", "--output_path", "OUT", "--seed", seed,
            "--batch_size", "1", "--log_samples", "--show_config", "--include_path", "tasks", "--trust_remote_code",
            "--confirm_run_unsafe_code", *more,
        )

    def test_089_payload_without_seed(self) -> None:
        """tt-inference-server: `_create_payload` is replaced in place, then the command line runs."""
        script = self.write("no_seed.py", """
from lm_eval.models import openai_completions
before = openai_completions.LocalCompletionsAPI._create_payload
def without_seed(self, *args, **kwargs):
    payload = before(self, *args, **kwargs)
    payload.pop("seed", None)
    return payload
openai_completions.LocalCompletionsAPI._create_payload = without_seed
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
""")
        self.both_commands(
            "--model", "local-completions", "--model_args", f"{self.completions},tokenized_requests=False", "--tasks",
            "wild_gsm", "--output_path", "OUT", "--include_path", "tasks", program=(str(script),),
        )
        self.assertEqual({"seed" in body for body in Server.bodies}, {False})


class Classes(Calls):
    """Section C: classes of the projects' own, and tasks driven by hand."""

    MODEL = """
        from lm_eval.api.instance import Instance
        from lm_eval.api.model import LM, TemplateLM

        class Own(LM):
            def loglikelihood(self, requests):
                return [(-0.25 * len(r.args[1]) - len(r.args[0]) % 3, False) for r in requests]
            def loglikelihood_rolling(self, requests):
                return [-1.5 * len(r.args[0]) for r in requests]
            def generate_until(self, requests):
                return [" The sum is %d." % (len(r.args[0]) % 9) for r in requests]
            tokenizer_name = "own"
            def apply_chat_template(self, chat_history, add_generation_prompt=True):
                return "".join("[%s] %s " % (m["role"], m["content"]) for m in chat_history)
            def chat_template(self, chat_template=False):
                return "own"
    """

    def test_scripts(self) -> None:
        """Calls 4, 5, 7, 8, 61, 62, 64, 67, 70 and 71, one after the other in one process."""
        self.both(self.MODEL + """
        import lm_eval
        from lm_eval import evaluator, tasks
        from lm_eval.tasks import TaskManager, get_task_dict
        manager = TaskManager(include_path="tasks")

        # vllm and others: the forms of arguments, with a class of this script instead of vLLM.
        from lm_eval.api.registry import register_model
        @register_model("wild-own")
        class Made(Own):
            given = []
            def __init__(self, **kwargs):
                super().__init__()
                self.given.append(kwargs)
        for number, model_args, names in (
            (4, "pretrained=x,tensor_parallel_size=1,enforce_eager=true,add_bos_token=True,trust_remote_code=False,", ["wild_gsm"]),
            (5, "pretrained=x,max_model_len=4096", "wild_mmlu_one"),
            (7, {"pretrained": "x", "cudagraph_capture_sizes": [16]}, "wild_wiki"),
            (8, "pretrained=x,gpu_memory_utilization=0.8", ["wild_wiki", "wild_mmlu"]),
        ):
            results = lm_eval.simple_evaluate(model="wild-own", model_args=model_args, tasks=names, batch_size=8, limit=2,
                                              task_manager=manager, bootstrap_iters=0)
            given = {k: str(v) for k, v in Made.given[-1].items() if k not in ("device", "max_batch_size")}
            show(results, number=number, given=given)

        import yaml
        def inline(name, **fields):
            with open("tasks/wild_mmlu_one.yaml") as file:
                return {**yaml.safe_load(file), "task": name, **fields}

        # lingua: all settings by keyword, tasks as strings and as mappings.
        from dataclasses import asdict, dataclass, field
        from typing import Any

        @dataclass
        class LMHarnessArgs:
            tasks: list = field(default_factory=lambda: ["wild_gsm", inline("inline", num_fewshot=2)])
            num_fewshot: Any = None
            device: Any = None
            use_cache: Any = None
            cache_requests: bool = False
            rewrite_requests_cache: bool = False
            delete_requests_cache: bool = False
            limit: Any = 3
            bootstrap_iters: int = 0
            check_integrity: bool = False
            write_out: bool = False
            log_samples: bool = True
            system_instruction: Any = None
            apply_chat_template: Any = False
            fewshot_as_multiturn: bool = False
            gen_kwargs: Any = None
            verbosity: str = "INFO"
            predict_only: bool = False
            random_seed: int = 0
            numpy_random_seed: int = 1234
            torch_random_seed: int = 1234
            fewshot_random_seed: int = 1234

        show(evaluator.simple_evaluate(Own(), task_manager=manager, **asdict(LMHarnessArgs())), number=61)

        # marin/levanter: one task twice with other shots, renamed, in a group of its own.
        first = tasks.get_task_dict([inline("one", num_fewshot=0, task_alias="zero")], manager)
        second = tasks.get_task_dict([inline("one", num_fewshot=2, task_alias="two")], manager)
        loaded = {}
        for name, found in (("mmlu_0", first), ("mmlu_2", second)):
            (task,) = found.values()
            task.config.task = name
            # Without a seed, the reference draws different examples in each process.
            task.set_fewshot_seed(1234)
            loaded[name] = task
        results = evaluator.evaluate(Own(), loaded, limit=4, log_samples=True, bootstrap_iters=0,
                                     apply_chat_template=True, fewshot_as_multiturn=True, confirm_run_unsafe_code=True)
        show(results, number=62)

        # TensorRT-LLM: generations only, its own data path, shuffled documents.
        class LmEvalWrapper(TemplateLM):
            @property
            def eot_token_id(self): return 0
            def apply_chat_template(self, chat_history, add_generation_prompt=True):
                return "".join(m["content"] for m in chat_history)
            @property
            def tokenizer_name(self): return "wrapper"
            def chat_template(self, chat_template=False): return ""
            def tok_encode(self, string, **kwargs): raise NotImplementedError
            def loglikelihood(self, requests, disable_tqdm=False): raise NotImplementedError
            def _loglikelihood_tokens(self, requests, **kwargs): raise NotImplementedError
            def loglikelihood_rolling(self, requests, disable_tqdm=False): raise NotImplementedError
            def generate_until(self, requests, disable_tqdm=False):
                return [" The sum is %d." % (len(r.args[0]) % 9) for r in requests]

        before = lm_eval.api.task.TaskConfig.__post_init__
        def patched(task_config, *args, **kwargs):
            task_config.dataset_kwargs = {"data_files": {"train": "test.jsonl", "test": "train.jsonl"}}
            before(task_config, *args, **kwargs)
        lm_eval.api.task.TaskConfig.__post_init__ = patched
        task_dict = lm_eval.tasks.get_task_dict("wild_gsm", task_manager=manager)
        lm_eval.api.task.TaskConfig.__post_init__ = before
        for task in task_dict.values():
            task.set_fewshot_seed(seed=7)
            task.dataset["test"] = task.dataset["test"].shuffle(5)
        show(lm_eval.evaluate(lm=LmEvalWrapper(), task_dict=task_dict, limit=3, apply_chat_template=False,
                              fewshot_as_multiturn=False, system_instruction=None), number=64)

        # evalchemy: requests by hand, to a model that is called outside a run.
        requests = [Instance("generate_until", {"q": n}, ("%d + 1 =" % n, {"do_sample": False, "max_new_tokens": 4}), n)
                    for n in range(3)]
        # 0.4.13 has no `setup_parser`, which the script extends.
        lm_eval.api.registry.register_model("own-of-67")(Own)
        made = lm_eval.api.registry.get_model("own-of-67").create_from_arg_string("")
        print("RESULT", json.dumps([67, made.generate_until(requests), [r.args[0] for r in requests]]))

        # marin: the documents of tasks by name.
        found = {}
        for name in ("wild_gsm", "wild_mmlu_two"):
            for task in get_task_dict([name], manager).values():
                docs = task.test_docs() if task.has_test_docs() else task.validation_docs()
                found[name] = [dict(doc) for doc in docs]
        print("RESULT", json.dumps([70, found], sort_keys=True))

        # NeMo Evaluator: a task step by step. `download()` without arguments needs a dataset of the hub.
        for name in ("wild_gsm", "wild_mmlu_one"):
            (task,) = get_task_dict([name], manager).values()
            task.config.num_fewshot = 1
            task.set_fewshot_seed(1234)
            made = []
            for doc_id, doc in task.doc_iterator(rank=0, limit=2, world_size=1):
                ctx = task.fewshot_context(doc, num_fewshot=1)
                requests = task.construct_requests(doc=doc, ctx=ctx, metadata=(name, doc_id, 1))
                requests = requests if isinstance(requests, list) else [requests]
                answers = ["5"] if task.OUTPUT_TYPE == "generate_until" else [(-float(n), False) for n in range(len(requests))]
                scores = task.process_results(doc, answers)
                scores = {key: float(value) for key, value in scores.items() if not isinstance(value, (tuple, list))}
                made.append([doc_id, task.OUTPUT_TYPE, [r.args[0] for r in requests], scores])
            print("RESULT", json.dumps([71, made]))
        """)

    def test_068_functions_of_tasks(self) -> None:
        """smollm and evalchemy: task modules as a library."""
        self.library = True
        self.both("""
            from lm_eval.tasks.hendrycks_math.utils import is_equiv, last_boxed_only_string, remove_boxed
            print("RESULT", json.dumps([is_equiv("1/2", "\\\\frac{1}{2}"), remove_boxed(last_boxed_only_string("x \\\\boxed{4}"))]))
        """)

    def test_028_shuffled_documents(self) -> None:
        """mergekit: `download` shuffles the documents of every task."""
        self.both(self.MODEL + """
        import lm_eval, lm_eval.api.task
        from lm_eval.tasks import TaskManager

        def monkeypatch_lmeval_shuffle():
            for cls in (lm_eval.api.task.Task, lm_eval.api.task.ConfigurableTask):
                before = cls.download
                def shuffled(self, *args, before=before, **kwargs):
                    before(self, *args, **kwargs)
                    self.dataset = self.dataset.shuffle()
                cls.download = shuffled
            lm_eval.api.task.Task._monkey_patched = True

        monkeypatch_lmeval_shuffle()
        results = lm_eval.simple_evaluate(model=Own(), model_args={}, tasks=list({"wild_wiki"}), log_samples=True,
                                          verbosity="WARNING", task_manager=TaskManager(include_path="tasks"), bootstrap_iters=0)
        show(results)
        """)


class Table(unittest.TestCase):
    """The list of calls."""

    def test_names(self) -> None:
        """Each call has a test or a reason; the tests exist."""
        from tests import test_hflm_engine, test_hflm_wild

        owners = {
            "Classes": Classes,
            "Fallback": test_hflm_engine.Fallback,
            "Objects": test_hflm_wild.Objects,
            "Servers": Servers,
        }
        self.assertEqual(len(TABLE), 62)
        for number, text in TABLE.items():
            owner, dot, name = text.partition(".test_")
            if dot and owner in owners:
                self.assertTrue(hasattr(owners[owner], f"test_{name}"), number)
            else:
                self.assertGreater(len(text.split()), 4, number)


if __name__ == "__main__":
    unittest.main()
