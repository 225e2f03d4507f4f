"""`simple_evaluate` and `evaluate` with task objects."""

from __future__ import annotations

import tempfile
import textwrap
import unittest
import warnings
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.tasks import TaskManager, get_task_dict

from tests import engine
from tests.engine import Lengths, scores, sums_task


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class OfClass(Task):
    """A task whose requests and scores are made in Python."""

    VERSION = 3
    OUTPUT_TYPE = "generate_until"

    def __init__(self, numbers: list[int] | None = None, config: Any = None) -> None:
        super().__init__(config=config or {"task": "of_class", "output_type": "generate_until"})
        self.numbers = numbers or [1, 2, 3, 4]

    def has_test_docs(self) -> bool:
        """Return true."""
        return True

    def test_docs(self) -> Any:
        """Return the numbers."""
        return [{"n": number} for number in self.numbers]

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
        """Return a number as a string."""
        return f"{doc['n']}?"

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> str:
        """Return twice the number."""
        return str(2 * doc["n"])

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """Return the only request."""
        kwargs.pop("apply_chat_template", None)
        kwargs.pop("chat_template", None)
        return Instance(
            request_type="generate_until", doc=doc, arguments=(ctx, {"until": ["\n"]}), idx=0, **kwargs
        )

    def process_results(self, doc: Any, results: Any) -> dict[str, float]:
        """Return whether the answer is correct."""
        return {"right": float(results[0] == self.doc_to_target(doc))}

    def aggregation(self) -> Any:
        """Return the aggregation of each metric."""
        return {"right": lambda items: sum(items) / len(items)}

    def higher_is_better(self) -> Any:
        """Return that higher is better."""
        return {"right": True}


class Objects(unittest.TestCase):
    """Tasks that are objects."""

    def test_objects_as_tasks(self) -> None:
        """`simple_evaluate` takes objects mixed with names and definitions."""
        plain = ConfigurableTask(config=sums_task(task="plain"))
        results = simple_evaluate(
            model=Lengths("4"), tasks=["demo_capitals", plain, OfClass([2, 3]), sums_task()], limit=3
        )
        self.assertEqual(list(results["results"]), ["demo_capitals", "plain", "of_class", "sums"])
        self.assertEqual(scores(results, "plain"), scores(results, "sums"))
        self.assertEqual(results["results"]["of_class"]["right,none"], 0.5)

    def test_chat_templates(self) -> None:
        """A task that builds its own contexts receives the template of a model of this process."""

        class Chat(Lengths):
            def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
                return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)

            def chat_template(self, chat_template: bool | str = False) -> str:
                return "the template"

        class Turns(OfClass):
            def fewshot_context(self, doc: Any, num_fewshot: int, chat_template: Any = None, **_: Any) -> Any:
                return chat_template([{"role": "user", "content": self.doc_to_text(doc)}])

        results = simple_evaluate(model=Chat(), tasks=[Turns([2, 3])], apply_chat_template=True)
        prompts = [sample["arguments"][0][0] for sample in results["samples"]["of_class"]]
        self.assertEqual(prompts, ["<user>2?", "<user>3?"])

    def test_seeds_of_examples(self) -> None:
        """Objects use the seed of the run; `evaluate` requires one seed for all tasks with examples."""

        class Drawing(OfClass):
            def fewshot_context(self, doc: Any, num_fewshot: int, **kwargs: Any) -> str:
                assert self.fewshot_rnd is not None
                return str(self.fewshot_rnd.random())

        def prompts(seed: int) -> list[str]:
            task = Drawing([1, 2, 3])
            results = simple_evaluate(model=Lengths("4"), tasks=[task], fewshot_random_seed=seed)
            self.assertEqual(task._fewshot_seed, seed)
            return [sample["arguments"][0][0] for sample in results["samples"]["of_class"]]

        self.assertEqual(prompts(1), prompts(1))
        self.assertNotEqual(prompts(1), prompts(2))
        tasks = {name: ConfigurableTask(config=sums_task(task=name, num_fewshot=1)) for name in ("one", "two")}
        tasks["two"].set_fewshot_seed(7)
        with self.assertRaisesRegex(ValueError, "`one` has 1234 and `two` has 7"):
            lm_eval.evaluate(Lengths("4"), {"tasks": tasks})
        tasks["one"].set_config("num_fewshot", 0)
        two = lm_eval.evaluate(Lengths("4"), {"tasks": tasks}, limit=2)
        alone = simple_evaluate(model=Lengths("4"), tasks=[tasks["two"]], limit=2, fewshot_random_seed=7)
        self.assertEqual(two["samples"]["two"], alone["samples"]["two"])

    def test_one_name_several_times(self) -> None:
        """Objects of one name are separate tasks, under the names that the caller gives them."""
        manager = lm_eval.TaskManager()
        first, second = (manager.load(["demo_capitals"])["tasks"]["demo_capitals"] for _ in range(2))
        second.config.num_fewshot = 2
        for tasks in ({"none": first, "two": second}, {"tasks": {"none": first, "two": second}}):
            results = lm_eval.evaluate(Lengths("4"), tasks, limit=2, bootstrap_iters=0)
            self.assertEqual(results["n-shot"], {"none": 0, "two": 2})
            self.assertEqual({*results["results"]}, {"none", "two"})
            self.assertEqual({*results["samples"]}, {"none", "two"})
        first.config.task = "renamed"
        results = lm_eval.evaluate(Lengths("4"), {"renamed": first, "two": second}, limit=2, bootstrap_iters=0)
        self.assertEqual(results["n-shot"], {"renamed": 0, "two": 2})
        inline = [ConfigurableTask(config=sums_task(num_fewshot=count)) for count in (0, 1)]
        results = lm_eval.evaluate(Lengths("4"), {"a": inline[0], "b": inline[1]}, bootstrap_iters=0)
        self.assertEqual(results["n-shot"], {"a": 0, "b": 1})

    def test_objects_with_data(self) -> None:
        """The engine loads the data of an object and renders its templates."""

        class Louder(ConfigurableTask):
            def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
                return str(super().doc_to_text(doc, doc_to_text)).upper()

        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder, "rows.jsonl")
            rows.write_text('{"q": "three", "a": "3"}\n{"q": "four", "a": "4"}\n', encoding="utf-8")
            fields = sums_task(
                task="louder",
                custom_dataset=None,
                fewshot_split=None,
                dataset_path="json",
                dataset_kwargs={"data_files": {"test": str(rows)}},
            )
            results = simple_evaluate(model=Lengths("4"), tasks=[Louder(config=fields)])
        self.assertEqual(results["samples"]["louder"][0]["arguments"][0][0], "THREE =")
        self.assertEqual(scores(results, "louder"), {"exact_match,none": 0.5})

    def test_classes_of_task_files(self) -> None:
        """A task file may name a class, which the manager instantiates."""
        code = """
            from lm_eval.api.task import ConfigurableTask

            class Mine(ConfigurableTask):
                def __init__(self, config=None):
                    super().__init__(config={**{k: v for k, v in config.items() if k != "class"}})

                def has_test_docs(self):
                    return True

                def test_docs(self):
                    return [{"q": "1", "a": "4"}, {"q": "2", "a": "5"}]
        """
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(textwrap.dedent(code), encoding="utf-8")
            Path(folder, "mine.yaml").write_text(
                "task: mine\nclass: !function mine.Mine\ndoc_to_text: q\ndoc_to_target: a\n"
                "output_type: generate_until\nmetric_list: [{metric: exact_match}]\n",
                encoding="utf-8",
            )
            manager = TaskManager(include_path=folder, include_defaults=False)
            loaded = manager.load("mine")
            self.assertEqual(type(loaded["tasks"]["mine"]).__name__, "Mine")
            results = lm_eval.evaluate(Lengths("4"), loaded)
            again = simple_evaluate(model=Lengths("4"), tasks=["mine"], task_manager=manager)
        self.assertEqual(scores(results, "mine"), {"exact_match,none": 0.5})
        self.assertEqual(results["results"], again["results"])

    def test_loaded_tasks(self) -> None:
        """`evaluate` takes loaded tasks, including later changes."""
        loaded = TaskManager().load(["demo_choice", "demo_arithmetic"])
        loaded["tasks"]["demo_arithmetic"].set_config("num_fewshot", 0)
        loaded["tasks"]["demo_arithmetic"].set_config("generation_kwargs", {"max_gen_toks": 3}, update=True)
        results = lm_eval.evaluate(Lengths(), loaded, limit=2)
        self.assertEqual(results["n-shot"]["demo_arithmetic"], 0)
        arguments = results["samples"]["demo_arithmetic"][0]["arguments"][0]
        self.assertEqual((arguments[0].count("Problem:"), arguments[1]["max_gen_toks"]), (1, 3))
        self.assertEqual(list(results["groups"]), ["demo_choice"])
        self.assertNotIn("config", results)
        expected = simple_evaluate(model=Lengths(), tasks=["demo_choice"], limit=2)
        self.assertEqual(results["groups"], expected["groups"])
        self.assertEqual(results["group_subtasks"], expected["group_subtasks"])

    def test_formats(self) -> None:
        """A prompt format is kept, and a field changed later overrides it."""
        loaded = TaskManager().load(["demo_facts@generate"])
        task = next(iter(loaded["tasks"].values()))
        expected = simple_evaluate(model=Lengths(), tasks=["demo_facts@generate"], limit=2)
        results = lm_eval.evaluate(Lengths(), loaded, limit=2)
        self.assertEqual(results["samples"], expected["samples"])
        task.set_config("doc_to_text", "CHANGED")
        changed = lm_eval.evaluate(Lengths(), loaded, limit=1)["samples"]
        self.assertIn("CHANGED", next(iter(changed.values()))[0]["arguments"][0][0])

    def test_numbers_of_examples(self) -> None:
        """One task with several numbers of examples has several keys, whichever way they are written."""
        words: list[Any] = ["demo_capitals:2", "demo_capitals:0"]
        dicts: list[Any] = [
            {"task": "demo_capitals", "num_fewshot": 2, "task_alias": "two"},
            {"task": "demo_capitals", "num_fewshot": 0},
        ]
        shots = {"demo_capitals:2": 2, "demo_capitals:0": 0}
        for compat in ("0.5", "0.4"):
            for specs in (words, dicts):
                results = simple_evaluate("ngram", tasks=specs, limit=2, num_fewshot=1, compat=compat)
                self.assertEqual(results["n-shot"], shots)
        self.assertEqual(results["results"]["demo_capitals:2"]["alias"], "two")
        alone = simple_evaluate("ngram", tasks=["demo_capitals:2"], limit=2)
        self.assertEqual(alone["n-shot"], {"demo_capitals": 2})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            tasks = get_task_dict(words)
        self.assertEqual({name: task.config.num_fewshot for name, task in tasks.items()}, shots)
        results = lm_eval.evaluate(Lengths(), tasks, limit=2)
        self.assertEqual(results["n-shot"], shots)
        # Levanter's way: objects under names of their own, changed since.
        tasks["demo_capitals:2"].config.num_fewshot = 1
        renamed = {"two": tasks["demo_capitals:2"], "zero": tasks["demo_capitals:0"]}
        results = lm_eval.evaluate(Lengths(), renamed, limit=2)
        self.assertEqual(results["n-shot"], {"two": 1, "zero": 0})

    def test_nested_dictionaries(self) -> None:
        """The older form has groups as keys and short names."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nested = get_task_dict(["demo_choice", "demo_capitals@mcqa"], TaskManager())
        self.assertEqual([warning.category for warning in caught], [DeprecationWarning])
        results = lm_eval.evaluate(Lengths(), nested, limit=2)
        self.assertEqual(
            results["group_subtasks"], {"demo_choice": ["demo_capitals", "demo_facts", "demo_sentiment"]}
        )
        expected = simple_evaluate(model=Lengths(), tasks=["demo_choice"], limit=2)
        self.assertEqual(results["groups"], expected["groups"])
        with self.assertRaisesRegex(TypeError, "LM"):
            lm_eval.evaluate("ngram", nested)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
