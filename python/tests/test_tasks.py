"""Tasks that are written in Python: documents, prompts, requests."""

from __future__ import annotations

import unittest
from typing import Any

from lm_eval import _host
from lm_eval.api._context import turn
from lm_eval.api.group import ConfigurableGroup, Group
from lm_eval.api.instance import Instance
from lm_eval.api.samplers import ContextSampler, get_sampler
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.api.utils import messages_to_text
from lm_eval.config.task import TaskConfig

DOCS = [{"q": f"Q{number}:", "a": f"A{number}", "c": ["x", "y"], "n": number % 2} for number in range(6)]


def render(template: str, doc: dict[str, Any]) -> str:
    """A minimal template engine: `{{name}}` is a field."""
    for name, value in doc.items():
        template = template.replace("{{" + name + "}}", str(value))
    return template


class Completion(ConfigurableTask):
    """A class task as found in task libraries."""

    VERSION = 2
    DATASET_PATH = "org/data"
    DATASET_NAME = "default"

    def __init__(self, config: Any = None, **kwargs: Any) -> None:
        super().__init__(config={"metadata": {"version": self.VERSION}, **(config or {})})

    def has_training_docs(self) -> bool:
        """Return false."""
        return False

    def has_validation_docs(self) -> bool:
        """Return true."""
        return True

    def has_test_docs(self) -> bool:
        """Return false."""
        return False

    def validation_docs(self) -> Any:
        """Return a split."""
        return self.dataset["validation"]

    def doc_to_text(self, doc: Any) -> str:
        """Return the question."""
        return doc["q"]

    def doc_to_target(self, doc: Any) -> str:
        """Return the answer with a leading space."""
        return " " + doc["a"]

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """Return a generation and a log-likelihood request."""
        kwargs.pop("apply_chat_template", None)
        kwargs.pop("chat_template", None)
        return [
            Instance(
                request_type="generate_until", doc=doc, arguments=(ctx, {"until": ["\n"]}), idx=0, **kwargs
            ),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " none"), idx=0, **kwargs),
        ]

    def process_results(self, doc: Any, results: Any) -> dict[str, Any]:
        """Return whether the answer occurs."""
        return {"contains": int(doc["a"] in results[0])}

    def aggregation(self) -> Any:
        """Return the mean."""
        return {"contains": lambda values: sum(values) / len(values)}

    def higher_is_better(self) -> Any:
        """Return true."""
        return {"contains": True}


class HostTestCase(unittest.TestCase):
    """A process that serves data and templates."""

    def setUp(self) -> None:
        """Serve the documents of this module."""
        self.loads: list[Any] = []

        def load(path: Any, name: Any = None, **options: Any) -> Any:
            self.loads.append((path, name, options))
            return {"train": DOCS[3:], "validation": DOCS[:3], "test": DOCS[:2]}

        _host.set_dataset_loader(load)
        _host.set_template_renderer(render)
        self.addCleanup(_host.set_dataset_loader, None)
        self.addCleanup(_host.set_template_renderer, None)


class ClassTasks(HostTestCase):
    """Subclasses that override hooks."""

    def test_loads_data_on_demand(self) -> None:
        """Once, with the names of the class."""
        task = Completion()
        self.assertEqual((task.VERSION, self.loads), (2, []))
        self.assertEqual(len(task.eval_docs), 3)
        self.assertEqual(len(task.validation_docs()), 3)
        self.assertEqual(self.loads, [("org/data", "default", {})])

    def test_requests(self) -> None:
        """All requests of all documents, with names and indices."""
        task = Completion(config={"task": "completion"})
        task.build_all_requests(limit=2)
        instances = task.instances or []
        self.assertEqual([instance.doc_id for instance in instances], [0, 0, 1, 1])
        self.assertEqual(instances[0].args, ("Q0:", {"until": ["\n"]}))
        self.assertEqual({instance.task_name for instance in instances}, {"completion"})
        self.assertEqual(task.process_results(DOCS[0], ["so A0"]), {"contains": 1})

    def test_hooks(self) -> None:
        """The engine can query which hooks a class overrides."""
        hooks = Completion._overridden_hooks()
        self.assertLessEqual(
            {"doc_to_text", "construct_requests", "process_results", "validation_docs"}, set(hooks)
        )
        self.assertNotIn("fewshot_context", hooks)
        self.assertEqual(ConfigurableTask._overridden_hooks(), [])

    def test_class_loads_its_own_data(self) -> None:
        """A class may load its data itself."""

        class Own(Completion):
            def download(self, *args: Any, **kwargs: Any) -> None:
                self.dataset = {"validation": DOCS[:1]}

        self.assertEqual(len(Own().validation_docs()), 1)
        self.assertEqual(self.loads, [])

    def test_few_shot_examples_with_super(self) -> None:
        """A class may call the prompt of its base class."""

        class Shouting(Completion):
            def fewshot_context(self, doc: Any, **kwargs: Any) -> Any:
                return super().fewshot_context(doc, **kwargs).upper()

        task = Shouting(
            config={"description": "d", "fewshot_split": "train", "fewshot_config": {"sampler": "first_n"}}
        )
        self.assertEqual(task.fewshot_context(DOCS[0], num_fewshot=1), "DQ3:  A3\n\nQ0:")


class ConfiguredTasks(HostTestCase):
    """Tasks defined entirely by their configuration."""

    def configured(self, **fields: Any) -> Task:
        """Return a task over the documents of this module."""
        return ConfigurableTask(
            config={
                "task": "t",
                "dataset_path": "p",
                "test_split": "test",
                "fewshot_split": "train",
                "doc_to_text": "q",
                "doc_to_target": "a",
                **fields,
            }
        )

    def test_generation(self) -> None:
        """One request with the settings of the task."""
        request = self.configured(generation_kwargs={"until": ["."]}).construct_requests(DOCS[0], "ctx")
        self.assertEqual(request.args, ("ctx", {"until": ["."]}))
        self.assertEqual(request.target, "A0")

    def test_choices(self) -> None:
        """One request per option; no delimiter is added next to whitespace."""
        task = self.configured(output_type="multiple_choice", doc_to_target="n", doc_to_choice="c")
        requests = task.construct_requests(DOCS[1], "Q1:")
        self.assertEqual([request.args for request in requests], [("Q1:", " x"), ("Q1:", " y")])
        self.assertEqual([request.target for request in requests], [1, 1])
        self.assertEqual(requests[0].metadata, {"option_text": "x"})
        self.assertEqual(task.construct_requests(DOCS[1], "Q1: ")[0].args, ("Q1: ", "x"))
        by_text = self.configured(
            output_type="multiple_choice", doc_to_target="{{n}}", doc_to_choice="['u', 'v']"
        )
        self.assertEqual(by_text.doc_to_choice(DOCS[1]), ["u", "v"])
        self.assertEqual(by_text.doc_to_target(DOCS[1]), 1)

    def test_examples_are_drawn_as_specified(self) -> None:
        """The generator state carries over from document to document."""
        task = self.configured(num_fewshot=2)
        task.set_fewshot_seed(1234)
        sampler = get_sampler("default")(list(range(10)), rnd=1234)  # type: ignore[arg-type]
        self.assertEqual([sampler.sample(3) for _ in range(3)], [[7, 1, 0], [1, 0, 9], [1, 5, 3]])
        context = task.fewshot_context(DOCS[0], num_fewshot=2)
        self.assertEqual(context.count("\n\n"), 2)
        self.assertTrue(context.endswith("Q0:"))

    def test_excludes_the_evaluated_document(self) -> None:
        """One extra example is drawn; copies of the document are never used."""
        pool = [{"k": 1}, {"k": 1}, {"k": 2}, {"k": 3}]
        for seed in range(20):
            drawn = ContextSampler(pool, rnd=seed).sample(2, eval_doc={"k": 1})
            self.assertEqual(sorted(doc["k"] for doc in drawn), [2, 3])

    def test_chat(self) -> None:
        """Turns become messages, or one message."""
        task = self.configured(fewshot_config={"sampler": "first_n"})

        def template(messages: Any, add_generation_prompt: bool) -> str:
            text = "".join(f"<{message['role']}>{message['content']}" for message in messages)
            return text + ("<assistant>" if add_generation_prompt else "")

        options: dict[str, Any] = {
            "apply_chat_template": True,
            "chat_template": template,
            "system_instruction": "S",
        }
        several = task.fewshot_context(DOCS[0], 1, fewshot_as_multiturn=True, **options)
        self.assertEqual(several, "<system>S<user>Q3:<assistant>A3<user>Q0:<assistant>")
        single = task.fewshot_context(DOCS[0], 1, gen_prefix="GP", **options)
        self.assertEqual(single, "<system>S<user>Q3: A3\n\nQ0:<assistant>GP")

    def test_turns(self) -> None:
        """Each row of the specification."""
        for question, prefix, answer, expected in (
            ("Why?", None, "Yes", "Why?=>Yes|"),
            ("Why?", None, None, "Why?"),
            ("Why?", "So", None, "Why?=>So"),
            ("Why?", "So", "Yes", "Why?=>So Yes|"),
            ("Why? ", "So", "Yes", "Why? So Yes|"),
            ("Why?", " So", None, "Why? So"),
            ("Why?", "So ", "Yes", "Why?=>So Yes|"),
            ("Why? ", None, " Yes", "Why? => Yes|"),
            ("", "So", "Yes", "So Yes|"),
        ):
            messages = turn(
                question, answer, None, prefix=prefix, target_delimiter="=>", fewshot_delimiter="|"
            )
            self.assertEqual(messages_to_text(messages), expected, (question, prefix, answer))


class Configuration(unittest.TestCase):
    """Normalisation of a configuration."""

    def test_metrics_and_filters(self) -> None:
        """Options move under `kwargs`; pipelines inherit the metrics of the task."""
        config = TaskConfig(
            task="t",
            metric_list=[
                {"metric": "exact_match", "ignore_case": True, "kwargs": {"a": 1, "ignore_case": False}}
            ],
            filter_list=[
                {"name": "x", "filter": [{"function": "regex", "regex_pattern": "x"}], "dropped": 1},
                {"name": "y", "filter": [], "metric_list": None},
            ],
            scorer="regex",
        )
        metrics = [{"metric": "exact_match", "kwargs": {"ignore_case": False, "a": 1}}]
        self.assertEqual(config.metric_list, metrics)
        steps = [{"function": "regex", "kwargs": {"regex_pattern": "x"}}]
        self.assertEqual(config.filter_list[0], {"name": "x", "filter": steps, "metric_list": metrics})
        self.assertEqual(config.filter_list[1], {"name": "y", "filter": [], "metric_list": []})
        self.assertEqual(config.scorer, {"type": "regex"})

    def test_generation_settings(self) -> None:
        """Defaults apply only where nothing is given."""
        defaults = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": ["\n\n"]}
        self.assertEqual(TaskConfig(task="t").generation_kwargs, defaults)
        given = TaskConfig(task="t", generation_kwargs={"temperature": "0.7"})
        self.assertEqual(given.generation_kwargs, {"temperature": 0.7, "until": ["\n\n"]})
        with self.assertRaises(TypeError):
            TaskConfig(batch_size=1)  # type: ignore[call-arg]

    def test_few_shot_inheritance_and_dump(self) -> None:
        """The few-shot configuration inherits the task's fields; functions are written as source."""

        def process(docs: Any) -> Any:
            return docs

        config = TaskConfig(
            task="t", doc_to_text="q", process_docs=process, fewshot_config={"split": "train"}
        )
        self.assertEqual((config.fewshot_config.split, config.fewshot_config.doc_to_text), ("train", "q"))
        dumped = config.to_dict()
        self.assertIn("def process", dumped["process_docs"])
        self.assertEqual(len(dumped["fewshot_config"]), 11)
        self.assertNotIn("scorer", dumped)
        config["repeats"] = 3
        self.assertEqual((config["repeats"], config.get("unknown", 1)), (3, 1))


class Groups(unittest.TestCase):
    """Groups."""

    def test_members(self) -> None:
        """Tasks of inner groups belong to the outer one."""
        outer = Group.from_config(
            {"group": "outer", "aggregate_metric_list": {"metric": "acc", "filter_list": "none"}}
        )
        inner = Group("inner")
        task = ConfigurableTask(config={"task": "t"})
        inner.add(task)
        outer.add(inner)
        self.assertEqual(outer.get_all_tasks(), [task])
        self.assertEqual((outer.child_names, outer.has_aggregation, outer.version), (["inner"], True, "N/A"))
        self.assertEqual((outer.aggregate_metric_list or [])[0].filter_list, ["none"])
        with self.assertRaises(ValueError):
            Group.from_config(
                {"group": "g", "aggregate_metric_list": {"metric": "acc", "aggregation": "median"}}
            )

    def test_deprecated_names(self) -> None:
        """They work with a warning."""
        with self.assertWarns(DeprecationWarning):
            group = ConfigurableGroup({"group": "g", "group_alias": "G"})
        self.assertEqual((group.group_name, group.group_alias, {group: 1}[group]), ("g", "G", 1))


if __name__ == "__main__":
    unittest.main()
