"""Scripts that replace code of the package: the change acts, or the evaluation is refused before any work."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from http.server import ThreadingHTTPServer

from tests import engine
from tests.test_models_http import Server
from tests.wild import PLAIN, Script

MANAGER = 'manager = lm_eval.TaskManager(include_path="tasks")\n'

EVALUATE = """
results = lm_eval.simple_evaluate(model=Base(), tasks=["wild_sums"], task_manager=manager, bootstrap_iters=0)
print("RESULT", json.dumps([results["results"]["wild_sums"].get("exact_match,none"),
      [s["doc"]["q"] for s in results["samples"]["wild_sums"]],
      [s["filtered_resps"][0] for s in results["samples"]["wild_sums"]],
      results["samples"]["wild_sums"][0]["arguments"][0][0]]))
"""


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Patched(Script):
    """A folder with a task, and scripts that change the package before they evaluate."""

    def evaluated(self, change: str, evaluate: str = EVALUATE) -> list:
        """Run a script that changes something and evaluates; return what it prints."""
        program = "import json, lm_eval\n" + textwrap.dedent(change) + MANAGER + evaluate
        lines = [line for line in self.run_script(program).splitlines() if line.startswith("RESULT ")]
        return json.loads(lines[-1].removeprefix("RESULT "))

    def refused(self, change: str, *parts: str, evaluate: str = EVALUATE) -> None:
        """Run a script whose evaluation must be refused, before the model is asked."""
        ask = "Base.generate_until = lambda self, requests: print('ASKED') or ['4'] * len(requests)\n"
        done = self.start("import json, lm_eval\n" + textwrap.dedent(change) + ask + MANAGER + evaluate)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertNotIn("ASKED", done.stdout)
        self.assertIn("NotImplementedError", done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr.splitlines()[-1])


class Tasks(Patched):
    """Methods of task classes."""

    ORDER = ("2+2", "3+3", "1+3", "9+9")

    def test_download(self) -> None:
        """Documents that a replaced `download` has reordered are evaluated in that order."""
        for cls in ("ConfigurableTask", "Task"):
            change = f"""
                from lm_eval.api.task import {cls}
                before = {cls}.download
                def download(self, *args, **kwargs):
                    before(self, *args, **kwargs)
                    self.dataset["test"] = self.dataset["test"].select([3, 1, 0])
                {cls}.download = download
            """
            with self.subTest(cls):
                if cls == "Task":
                    self.write("tasks/own.py", "from lm_eval.api.task import Task\nclass Own(Task):\n    pass\n")
                    self.assertEqual(self.evaluated(change)[1], [*self.ORDER])
                    continue
                self.assertEqual(self.evaluated(change)[1], ["9+9", "3+3", "2+2"])

    def test_download_undone_before_the_evaluation(self) -> None:
        """A change acts on the tasks that are loaded while it lasts."""
        change = """
            from lm_eval.api.task import ConfigurableTask
            before = ConfigurableTask.download
            def download(self, *args, **kwargs):
                before(self, *args, **kwargs)
                self.dataset["test"] = self.dataset["test"].select([3])
        """
        evaluate = """
            ConfigurableTask.download = download
            tasks = manager.load(["wild_sums"])
            ConfigurableTask.download = before
            results = lm_eval.evaluate(Base(), tasks)
            print("RESULT", json.dumps([s["doc"]["q"] for s in results["samples"]["wild_sums"]]))
        """
        self.assertEqual(self.evaluated(change, textwrap.dedent(evaluate)), ["9+9"])

    def test_prompts_and_scores(self) -> None:
        """Replaced methods of a task are called for every document, of the class and of one object."""
        change = """
            from lm_eval.api.task import ConfigurableTask
            ConfigurableTask.doc_to_text = lambda self, doc, doc_to_text=None: "Sum of " + doc["q"]
            ConfigurableTask.process_results = lambda self, doc, results: {"exact_match": 7.0}
        """
        value, questions, _, prompt = self.evaluated(change)
        self.assertEqual((value, questions, prompt), (7.0, [*self.ORDER], "Sum of 2+2"))
        evaluate = """
            tasks = manager.load(["wild_sums"])
            tasks["tasks"]["wild_sums"].doc_to_text = lambda doc: "One " + doc["q"]
            results = lm_eval.evaluate(Base(), tasks)
            print("RESULT", json.dumps(results["samples"]["wild_sums"][0]["arguments"][0][0]))
        """
        self.assertEqual(self.evaluated("", textwrap.dedent(evaluate)), "One 2+2")

    def test_requests_and_aggregations(self) -> None:
        """The methods of other steps, also for metrics that the task names."""
        head = "from lm_eval.api.task import ConfigurableTask, Task\n"
        make = """
            before = ConfigurableTask.construct_requests
            ConfigurableTask.construct_requests = lambda self, doc, ctx, **given: before(self, doc, "X" + ctx, **given)
            ConfigurableTask.test_docs = lambda self: [{"q": "7+7", "a": "4"}]
        """
        self.assertEqual(self.evaluated(head + textwrap.dedent(make)), [1.0, ["7+7"], [["4"]], "X7+7 ="])
        aggregate = "ConfigurableTask.aggregation = lambda self: {'exact_match': lambda values: 11.0 + sum(values)}\n"
        self.assertEqual(self.evaluated(head + aggregate)[0], 13.0)
        make = """
            before = Task.__init__
            def init(self, *args, **kwargs):
                before(self, *args, **kwargs)
                self.config.doc_to_text = "I {{q}}"
            Task.__init__ = init
        """
        self.assertEqual(self.evaluated(head + textwrap.dedent(make))[3], "I 2+2")

    def test_configuration(self) -> None:
        """Fields that a replaced `TaskConfig.__post_init__(self)` sets are used, also if it is restored afterwards."""
        self.write("other.jsonl", '{"q": "5+5", "a": "4"}\n')
        change = """
            from lm_eval.api.task import TaskConfig
            before = TaskConfig.__post_init__
            def own(self):
                self.dataset_kwargs = {"data_files": {"test": "other.jsonl"}}
                before(self)
            TaskConfig.__post_init__ = own
        """
        self.assertEqual(self.evaluated(change)[:2], [1.0, ["5+5"]])
        evaluate = """
            from lm_eval.tasks import get_task_dict
            tasks = get_task_dict("wild_sums", task_manager=manager)
            TaskConfig.__post_init__ = before
            results = lm_eval.evaluate(lm=Base(), task_dict=tasks)
            print("RESULT", json.dumps([s["doc"]["q"] for s in results["samples"]["wild_sums"]]))
        """
        self.assertEqual(self.evaluated(change, textwrap.dedent(evaluate)), ["5+5"])

    def test_assigned_documents(self) -> None:
        """A split that a script has assigned is evaluated."""
        evaluate = """
            from lm_eval.tasks import get_task_dict
            tasks = get_task_dict("wild_sums", task_manager=manager)
            task = tasks["wild_sums"]
            task.dataset["test"] = task.dataset["test"].shuffle(seed=3)
            results = lm_eval.evaluate(lm=Base(), task_dict=tasks)
            asked = [s["doc"]["q"] for s in results["samples"]["wild_sums"]]
            print("RESULT", json.dumps([asked, list(task.dataset["test"]["q"])]))
        """
        asked, wanted = self.evaluated("", textwrap.dedent(evaluate))
        self.assertEqual(asked, wanted)
        self.assertNotEqual(asked, [*self.ORDER])

    def test_manager(self) -> None:
        """A manager with its own `load` loads the tasks."""
        change = """
            class Manager(lm_eval.TaskManager):
                def load(self, task_list, overrides=None):
                    loaded = super().load(task_list, overrides)
                    for task in loaded["tasks"].values():
                        task.config.doc_to_text = "Own {{q}}"
                    return loaded
            lm_eval.TaskManager = Manager
        """
        self.assertEqual(self.evaluated(change)[3], "Own 2+2")
        change = """
            class Manager(lm_eval.TaskManager):
                def __init__(self, *args, **kwargs):
                    super().__init__(*args, **kwargs)
                    self.load = lambda names: super(Manager, self).load(["other"])
            lm_eval.TaskManager = Manager
        """
        self.write("tasks/other.yaml", PLAIN.replace("wild_sums", "other"))
        evaluate = EVALUATE.replace('["wild_sums"].get', '["other"].get').replace('["samples"]["wild_sums"]', '["samples"]["other"]')
        self.assertEqual(self.evaluated(change, evaluate)[0], 0.5)
        evaluate = """
            from lm_eval.tasks import get_task_dict
            load = lm_eval.TaskManager.load_task_or_group
            lm_eval.TaskManager.load_task_or_group = lambda self, names: {"mine": load(self, names)["wild_sums"]}
            print("RESULT", json.dumps(list(get_task_dict(["wild_sums"], manager))))
        """
        self.assertEqual(self.evaluated("", textwrap.dedent(evaluate)), ["mine"])

    def test_refused(self) -> None:
        """Private methods, methods of 0.4.13 that do not exist here, and steps that a run does itself."""
        self.refused("from lm_eval.api.task import Task\nTask._resolve = lambda *_: 'x'\n", "`Task._resolve`", "subclass")
        self.refused("lm_eval.TaskManager._load_spec = lambda *_: None\n", "`TaskManager._load_spec`", "load")
        self.refused(
            "from lm_eval.api.task import ConfigurableTask\nConfigurableTask.apply_filters = lambda self: None\n",
            "apply_filters",
        )
        filters = """
            tasks = manager.load(["wild_sums"])
            tasks["tasks"]["wild_sums"]._filters = []
            lm_eval.evaluate(Base(), tasks)
        """
        self.refused("", "`_filters`", "filter_list", evaluate=textwrap.dedent(filters))
        for change in ("Group.aggregate = None", "group.aggregate = lambda results: {}", "group.__class__ = Mine"):
            self.write("tasks/all.yaml", "group: all\ntask: [wild_sums]\n")
            evaluate = f"""
                from lm_eval.api.group import Group
                class Mine(Group):
                    def aggregate(self, *args, **kwargs):
                        return {{}}
                tasks = manager.load(["all"])
                group = tasks["groups"]["all"]
                {change}
                lm_eval.evaluate(Base(), tasks)
            """
            self.refused("", "aggregate", "results", evaluate=textwrap.dedent(evaluate))

    def test_command_line(self) -> None:
        """A command line loads tasks in the engine, so it refuses a script with its own task methods."""
        program = """
            from lm_eval.__main__ import cli_evaluate
            from lm_eval.api.task import ConfigurableTask
            ConfigurableTask.download = lambda self, *_, **__: None
            cli_evaluate()
        """
        done = self.start(program, "--model", "dummy", "--tasks", "wild_sums", "--include_path", "tasks")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("`ConfigurableTask.download`", done.stderr)
        self.assertIn("simple_evaluate", done.stderr)


class Scoring(Patched):
    """Filters, metrics, aggregations and other parts of scoring."""

    TWICE = """
        metric_list:
          - {metric: exact_match}
        filter_list:
          - name: none
            filter: [{function: regex, regex_pattern: "(\\\\d)"}, {function: take_first}]
    """

    def test_filter_class(self) -> None:
        """A replaced method of a built-in filter class is called."""
        self.write("tasks/wild_sums.yaml", PLAIN.partition("metric_list")[0] + textwrap.dedent(self.TWICE))
        self.assertEqual(self.evaluated("")[2], [["4"]] * 4)
        for change in (
            "from lm_eval.filters.extraction import RegexFilter\nRegexFilter.apply = ",
            "from lm_eval.filters.selection import TakeFirstFilter\nTakeFirstFilter.apply = ",
        ):
            value, _, filtered, _ = self.evaluated(change + "lambda self, resps, docs: [['6'] for _ in resps]\n")
            self.assertEqual((value, filtered[0]), (0.25, ["6"]))

    def test_registry_entries(self) -> None:
        """Assigned entries of registries are used."""
        change = """
            from lm_eval.api.registry import METRIC_REGISTRY, AGGREGATION_REGISTRY
            METRIC_REGISTRY["exact_match"] = lambda references, predictions, **_: 3.0
        """
        self.assertEqual(self.evaluated(change)[0], 3.0)
        self.write("tasks/wild_sums.yaml", PLAIN.replace("exact_match}", "exact_match, aggregation: mean}"))
        change = """
            from lm_eval.api.registry import AGGREGATION_REGISTRY
            AGGREGATION_REGISTRY["mean"] = lambda values: 5.0
        """
        self.assertEqual(self.evaluated(change)[0], 5.0)

    def test_default_filter_and_metrics(self) -> None:
        """Entries that a task without filters and metrics uses implicitly are replaced, too."""
        self.write("tasks/wild_sums.yaml", PLAIN.partition("metric_list")[0])
        change = """
            from lm_eval.api.registry import METRIC_REGISTRY
            METRIC_REGISTRY["exact_match"] = lambda references, predictions, **_: 3.0
        """
        self.assertEqual(self.evaluated(change)[0], 3.0)
        change = """
            from lm_eval.filters.selection import TakeFirstFilter
            TakeFirstFilter.apply = lambda self, resps, docs: [["6"] for _ in resps]
        """
        evaluate = EVALUATE.replace("bootstrap_iters=0", 'bootstrap_iters=0, compat="0.4"')
        self.assertEqual(self.evaluated(change, evaluate)[0], 0.25)

    def test_sampler(self) -> None:
        """A replaced method of the default sampler draws the examples."""
        shots = "test_split: test\nfewshot_split: test\nnum_fewshot: 1"
        self.write("tasks/wild_sums.yaml", PLAIN.replace("test_split: test", shots))
        change = """
            from lm_eval.api.samplers import ContextSampler
            ContextSampler.sample = lambda self, n, eval_doc=None, **_: list(self.df)[1:1 + n]
        """
        self.assertEqual(self.evaluated(change)[3], "3+3 = 6\n\n2+2 =")
        evaluate = """
            from lm_eval.api.samplers import ContextSampler
            class Third(ContextSampler):
                def sample(self, n, eval_doc=None, **_):
                    return list(self.df)[2:2 + n]
            tasks = manager.load(["wild_sums"])
            task = tasks["tasks"]["wild_sums"]
            task.sampler = Third(list(task.fewshot_docs()))
            results = lm_eval.evaluate(Base(), tasks)
            print("RESULT", json.dumps(results["samples"]["wild_sums"][0]["arguments"][0][0]))
        """
        self.assertEqual(self.evaluated("", textwrap.dedent(evaluate)), "1+3 = 4\n\n2+2 =")

    def test_default_metrics(self) -> None:
        """Changing the default metrics in place is noticed, too."""
        self.refused(
            "from lm_eval.api.registry import DEFAULT_METRIC_REGISTRY\nDEFAULT_METRIC_REGISTRY['generate_until'] = ['acc']\n",
            "DEFAULT_METRIC_REGISTRY",
        )

    def test_refused(self) -> None:
        """Functions of modules whose work the engine does are refused by name, with what to do instead."""
        for change, name, instead in (
            ("import lm_eval.api.metrics as m\nm.mean = lambda values: 0\n", "lm_eval.api.metrics.mean", "register_"),
            ("import lm_eval.evaluator as e\ne.evaluate = lambda *_, **__: {}\n", "lm_eval.evaluator.evaluate", "call"),
            ("import lm_eval.evaluator as e\ne.get_task_dict = lambda *_: {}\n", "lm_eval.evaluator.get_task_dict", ""),
            ("from lm_eval.api.instance import Instance\nInstance.args = 3\n", "Instance.args", "construct_requests"),
            ("from lm_eval.api.group import Group\nGroup.aggregate = None\n", "Group.aggregate", "results"),
            ("import lm_eval.utils as u\nu.apply_template = lambda *_: ''\n", "lm_eval.utils.apply_template", "doc_to_text"),
            ("from lm_eval.scorers import GenScorer\nGenScorer.score_doc = None\n", "GenScorer.score_doc", "register_scorer"),
            ("from lm_eval.api.metrics.corpus import Bleu\nBleu.aggregation = max\n", "Bleu.aggregation", "register_"),
            ("from lm_eval.api.filter import FilterEnsemble\nFilterEnsemble.apply = None\n", "FilterEnsemble.apply", ""),
        ):
            with self.subTest(name):
                self.refused(change, f"`{name}`", instead)

    def test_irrelevant_changes(self) -> None:
        """Marks of a script, its helpers, and functions that only scripts call disturb nothing."""
        change = """
            import lm_eval.evaluator, lm_eval.utils, logging
            from lm_eval.api.task import Task
            from lm_eval.models.openai_completions import LocalCompletionsAPI
            Task._monkey_patched = True
            Task.my_helper = lambda self: 1
            LocalCompletionsAPI._create_payload = None
            lm_eval.utils.make_table = lambda *_: ""
            lm_eval.evaluator.eval_logger = logging.getLogger("mine")
            inner = lm_eval.evaluator.simple_evaluate
            lm_eval.evaluator.simple_evaluate = lambda *args, **kwargs: inner(*args, **kwargs)
        """
        self.assertEqual(self.evaluated(change)[0], 0.5)

    def test_unchanged_package(self) -> None:
        """An evaluation changes nothing itself."""
        evaluate = EVALUATE + "\nfrom lm_eval import _patches\nprint('RESULT', json.dumps(list(map(str, _patches.changes()))))\n"
        self.assertEqual(self.evaluated("", evaluate), [])


class WithServer(Patched):
    """Scripts that evaluate a model on a server."""

    def setUp(self) -> None:
        """Start a server."""
        super().setUp()
        Server.bodies.clear()
        server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}/v1/completions"
        self.server = f"model=m,base_url={self.url},tokenizer_backend=None"


class Models(WithServer):
    """Classes and registry entries of models."""

    ARGUMENTS = ("--tasks", "wild_sums", "--include_path", "tasks", "--format", "json")

    WITHOUT_SEED = """
        from lm_eval.__main__ import cli_evaluate
        from lm_eval.models import openai_completions
        before = openai_completions.LocalCompletionsAPI._create_payload
        def without_seed(self, *args, **kwargs):
            body = before(self, *args, **kwargs)
            body.pop("seed", None)
            return {**body, "tag": 1}
        openai_completions.LocalCompletionsAPI._create_payload = without_seed
    """

    def test_payload_on_the_command_line(self) -> None:
        """A method of a server's class that is replaced in place makes the requests of `cli_evaluate()`."""
        words = ("--model", "local-completions", "--model_args", self.server)
        self.run_script(textwrap.dedent(self.WITHOUT_SEED) + "cli_evaluate()\n", *self.ARGUMENTS, *words)
        self.assertEqual([(body.get("tag"), "seed" in body) for body in Server.bodies], [(1, False)] * 4)

    def test_payload_of_an_evaluation(self) -> None:
        """The same by name in `simple_evaluate`, for a class made earlier, and for one object."""
        evaluate = f"""
            simple_evaluate = lambda model, **given: lm_eval.simple_evaluate(
                model=model, tasks=["wild_sums"], task_manager=manager, **given)
            simple_evaluate("local-completions", model_args="{self.server}")
            openai_completions.LocalCompletionsAPI._create_payload = before
            lm = openai_completions.LocalCompletionsAPI(model="m", base_url="{self.url}", tokenizer_backend=None)
            openai_completions.LocalCompletionsAPI._create_payload = without_seed
            simple_evaluate(lm)
            openai_completions.LocalCompletionsAPI._create_payload = before
            lm.parse_generations = lambda outputs, **_: ["18" for _ in outputs["choices"]]
            results = simple_evaluate(lm)
            print("RESULT", json.dumps(results["results"]["wild_sums"]["exact_match,none"]))
        """
        score = self.evaluated(self.WITHOUT_SEED, textwrap.dedent(evaluate))
        self.assertEqual([body.get("tag") for body in Server.bodies], [1] * 8 + [None] * 4)
        self.assertEqual(score, 0.25)

    def test_attributes_of_a_served_model(self) -> None:
        """Attributes that a script sets in a model that the engine serves are used."""
        evaluate = f"""
            from lm_eval.models.openai_completions import LocalCompletionsAPI
            lm = LocalCompletionsAPI(model="m", base_url="{self.url}", tokenizer_backend=None)
            evaluate = lambda: lm_eval.simple_evaluate(model=lm, tasks=["wild_sums"], task_manager=manager)
            evaluate()
            lm.model = "other"
            evaluate()
            print("RESULT 1")
        """
        self.evaluated("", textwrap.dedent(evaluate))
        self.assertEqual([body["model"] for body in Server.bodies], ["m"] * 4 + ["other"] * 4)

    CREATE = """
        from lm_eval.models.huggingface import HFLM
        HFLM.create_from_arg_obj = classmethod(lambda cls, arguments, additional=None: Base(arguments["answer"]))
    """

    def test_constructor_of_hf(self) -> None:
        """`HFLM.create_from_arg_obj` makes the model `hf`, by name and on the command line."""
        evaluate = """
            results = lm_eval.simple_evaluate("hf", "answer=6", ["wild_sums"], task_manager=manager)
            print("RESULT", json.dumps(results["results"]["wild_sums"]["exact_match,none"]))
        """
        self.assertEqual(self.evaluated(self.CREATE, textwrap.dedent(evaluate)), 0.25)
        program = textwrap.dedent(self.CREATE) + "from lm_eval.__main__ import cli_evaluate\ncli_evaluate()\n"
        printed = self.run_script(program, *self.ARGUMENTS, "--model", "hf", "--model_args", "answer=6")
        self.assertEqual(json.loads(printed)["results"]["wild_sums"]["exact_match,none"], 0.25)

    def test_registry_entry(self) -> None:
        """A class assigned to `MODEL_REGISTRY["hf"]` is the model `hf`; so is one that `get_model` returns."""
        for change in (
            "from lm_eval.api.registry import MODEL_REGISTRY\nMODEL_REGISTRY['hf'] = Base\n",
            "import lm_eval.api.registry\nlm_eval.api.registry.get_model = lambda name: Base\n",
        ):
            evaluate = """
                results = lm_eval.simple_evaluate("hf", "answer=6", ["wild_sums"], task_manager=manager)
                print("RESULT", json.dumps(results["results"]["wild_sums"]["exact_match,none"]))
            """
            self.assertEqual(self.evaluated(change, textwrap.dedent(evaluate)), 0.25)

    def test_cached_answers_belong_to_the_code(self) -> None:
        """Answers that a class gave before it was changed are not reused afterwards."""
        evaluate = f"""
            from lm_eval.models.openai_completions import LocalCompletionsAPI
            evaluate = lambda: lm_eval.simple_evaluate(
                "local-completions", "{self.server}", ["wild_sums"], task_manager=manager, use_cache="cache")
            before = LocalCompletionsAPI._create_payload
            for tag in (1, 2):
                exec(f'''def own(self, *args, **kwargs):
                    return {{{{**before(self, *args, **kwargs), "tag": {{tag}}}}}}''')
                LocalCompletionsAPI._create_payload = locals()["own"]
                evaluate()
                evaluate()
            print("RESULT 1")
        """
        self.evaluated("", textwrap.dedent(evaluate))
        self.assertEqual([body["tag"] for body in Server.bodies], [1] * 4 + [2] * 4)

    def test_refused(self) -> None:
        """Methods that 0.4.13 calls and this package does not."""
        for change in (
            "LocalCompletionsAPI.amodel_call = lambda *_, **__: None\nMine = LocalCompletionsAPI\n",
            "class Mine(LocalCompletionsAPI):\n    def amodel_call(self, *args, **kwargs):\n        pass\n",
        ):
            evaluate = f"""
                lm = Mine(model="m", base_url="{self.url}", tokenizer_backend=None)
                lm_eval.simple_evaluate(model=lm, tasks=["wild_sums"], task_manager=manager)
            """
            change = "from lm_eval.models.openai_completions import LocalCompletionsAPI\n" + change
            self.refused(change, "amodel_call", "model_call", evaluate=textwrap.dedent(evaluate))
        self.assertEqual(Server.bodies, [])

    def test_plugins(self) -> None:
        """A plug-in's change of a model class acts in its process; other changes stop the run."""
        self.write("plugin.py", textwrap.dedent(self.WITHOUT_SEED.replace("cli_evaluate", "main")))
        words = ("run", "--model", "local-completions", "--model_args", self.server, *self.ARGUMENTS)
        words = (*words, "--plugins", "plugin.py", "--python", sys.executable)
        engine.run(*words, cwd=self.folder)
        self.assertEqual([body.get("tag") for body in Server.bodies], [1] * 4)
        self.write("plugin.py", "import lm_eval.api.metrics\nlm_eval.api.metrics.mean = max\n")
        with self.assertRaises(subprocess.CalledProcessError) as caught:
            engine.run(*words, cwd=self.folder)
        self.assertIn("lm_eval.api.metrics.mean", caught.exception.stderr)
