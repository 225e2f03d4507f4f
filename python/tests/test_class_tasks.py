"""How a worker uses classes: task objects, samplers, and splits that are loaded on demand."""

from __future__ import annotations

import copy
import os
import random
import unittest
from typing import Any

from lm_eval import _class_tasks, _dataset, _host
from lm_eval._loader import Loader
from lm_eval._protocol import Reference
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.samplers import ContextSampler
from lm_eval.api.task import ConfigurableTask, MultipleChoiceTask, PerplexityTask, Task

ROWS = [{"q": f"q{number}", "a": number % 2} for number in range(6)]


class Counting(ConfigurableTask):
    """A class that has a configuration, loads its documents and makes requests."""

    VERSION = 2

    def __init__(self, config: Any) -> None:
        self.extra = config["extra"]
        super().__init__(config=config)
        self.config.repeats = 3

    def validation_docs(self) -> Any:
        """Return a split loaded by the engine."""
        return self.dataset["validation"]

    def has_validation_docs(self) -> bool:
        """Return true."""
        return True

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
        """Return the question with the prefix from the task file."""
        return f"{self.extra} {super().doc_to_text(doc, doc_to_text)}"

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """Return one request."""
        return Instance(
            request_type="loglikelihood",
            doc=doc,
            arguments=(ctx, " yes"),
            idx=0,
            metadata=kwargs["metadata"],
        )

    def aggregation(self) -> Any:
        """Return a built-in and a custom aggregation."""
        return {"m": mean, "own": lambda values: 5}


class Drawing(Counting):
    """A class that draws random numbers itself."""

    def fewshot_context(self, doc: Any, num_fewshot: int, **kwargs: Any) -> str:
        """Return a random number."""
        assert self.fewshot_rnd is not None
        return str(self.fewshot_rnd.random())


class Lines(PerplexityTask):
    """Documents that are strings."""

    def has_validation_docs(self) -> bool:
        """Return true."""
        return True

    def validation_docs(self) -> Any:
        """Return strings."""
        return ["one two", "three"]


class Engine:
    """A fake engine: a channel that answers queries immediately."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.definition = definition
        self.asked: list[Any] = []

    def write(self, message: Any) -> None:
        """Take a query."""
        self.asked.append(message["ask"])

    def read(self) -> Any:
        """Return the answer to the last query."""
        question = self.asked[-1]
        kind = question["kind"]
        if kind == "class":
            return {"ok": self.definition}
        if kind == "dataset" and question["path"] == "data":
            return {"ok": {"number": 0, "names": ["train", "validation"]}}
        if kind == "split":
            rows = ROWS[:3] if question["name"] == "train" else ROWS[3:]
            return {"ok": {"documents": rows, "columns": ["q", "a"], "features": None}}
        if kind == "render":
            return {"ok": question["template"].upper()}
        if kind == "pool":
            return {"ok": {"documents": ROWS}}
        return {"error": "no"}


class Worker:
    """A fake worker."""

    def __init__(self, made: Any = None, config: Any = None, settings: Any = None) -> None:
        self.loader = Loader([])
        self.channel = Engine({"class": made, "config": config or {}, "settings": settings or {}})
        self._process = os.getpid()
        self.objects = _class_tasks.Objects(self)  # type: ignore[arg-type]

    def ask(self, operation: str, reference: str = "class:0:m.C", **message: Any) -> Any:
        """Return the answer to a message."""
        function = self.loader.resolve("", reference)
        run: Any = _class_tasks.OPERATIONS[operation]
        return next(run(self, function, {"function": ["", reference], **message}))


class WorkerTestCase(unittest.TestCase):
    """Resets the engine after each test."""

    def setUp(self) -> None:
        """Reset the engine afterwards."""
        self.addCleanup(_host.set_dataset_loader, None)
        self.addCleanup(_host.set_template_renderer, None)
        self.addCleanup(_host.set_aggregator, None)


class Objects(WorkerTestCase):
    """Task objects."""

    def counting(self) -> Worker:
        """Return a worker with a task."""
        config = {"task": "counting", "class": Counting, "extra": "!", "dataset_path": "data", "doc_to_text": "q"}
        return Worker(Counting, {**config, "num_fewshot": 1}, {"num_fewshot": 4, "fewshot_seed": 3})

    def test_description(self) -> None:
        """The description has the class's configuration unchanged, and references to its methods."""
        worker = self.counting()
        answer = worker.ask("describe_class")
        expected = {"dataset_path": "data", "doc_to_text": "q", "num_fewshot": 1, "repeats": 3}
        self.assertEqual(answer["config"], expected)
        self.assertEqual(answer["fields"], {"doc_to_text": Reference("", "class:0:m.C/doc_to_text")})
        self.assertEqual(answer["aggregation"]["m"], "mean")
        self.assertEqual(worker.loader.resolve(*answer["aggregation"]["own"])([]), 5)
        self.assertTrue(answer["makes_requests"] and answer["is_configurable"] and answer["excludes_evaluated"])
        self.assertFalse(answer["makes_context"])
        self.assertEqual(answer["version"], 2)
        task = worker.loader.resolve("", "class:0:m.C")
        self.assertEqual((task.config.num_fewshot, task.config.task), (4, "counting"))

    def test_loads_splits_once_and_on_demand(self) -> None:
        """Only the requested split is loaded."""
        worker = self.counting()
        docs = worker.loader.resolve("", "class:0:m.C/eval_docs")
        self.assertEqual([doc["q"] for doc in docs()], ["q3", "q4", "q5"])
        self.assertEqual(len(list(docs())), 3)
        kinds = [question["kind"] for question in worker.channel.asked]
        self.assertEqual(kinds, ["class", "dataset", "split"])

    def test_requests(self) -> None:
        """Fields are rendered by the engine's templates; the target is that of the task."""
        worker = self.counting()
        text = worker.loader.resolve("", "class:0:m.C/doc_to_text")
        self.assertEqual(text({"q": "why"}), "! why")
        self.assertEqual(text({"other": 1}), "! Q")
        made = worker.ask(
            "class_requests",
            document=ROWS[0],
            doc_id=7,
            context="ctx",
            makes_context=False,
            system_instruction=None,
            apply_chat_template=False,
            fewshot_as_multiturn=False,
            examples=[],
        )
        (request,) = made["instances"]
        self.assertEqual((request["arguments"], request["repeats"]), (["ctx", " yes"], 3))

    def test_seeds_of_drawing_classes(self) -> None:
        """Draws depend on the seed of the run and the document; the object keeps its own seed."""
        rest = {"system_instruction": None, "apply_chat_template": False, "fewshot_as_multiturn": False}

        def drawn(seed: int, numbers: list[int]) -> dict[int, str]:
            config = {"task": "drawing", "class": Drawing, "extra": "", "doc_to_text": "q", "doc_to_target": "a"}
            worker = Worker(Drawing, config, {"fewshot_seed": seed})
            task = worker.loader.resolve("", "class:0:m.C")
            contexts = {}
            for number in numbers:
                message = {"document": ROWS[number], "doc_id": number, "context": "", "examples": [], **rest}
                made = worker.ask("class_requests", makes_context=True, **message)
                contexts[number] = made["instances"][0]["arguments"][0]
                self.assertEqual(task._fewshot_seed, seed)
                self.assertEqual(task.fewshot_rnd.getstate(), random.Random(seed).getstate())
            return contexts

        first = drawn(1, [0, 1, 2])
        self.assertEqual(len(set(first.values())), 3)
        self.assertEqual(first, drawn(1, [2, 1, 0]))
        self.assertNotEqual(first[0], drawn(2, [0])[0])

    def test_wraps_documents_that_are_not_dictionaries(self) -> None:
        """They are wrapped for transport and unwrapped for the class."""
        worker = Worker(Lines, {"task": "lines"})
        docs = worker.loader.resolve("", "class:0:m.C/eval_docs")()
        self.assertEqual(docs[1], {_class_tasks.WRAPPED: "three"})
        score = worker.loader.resolve("", "class:0:m.C/process_results")
        self.assertEqual(score(docs[0], [-2.0])["word_perplexity"], (-2.0, 2))

    def test_rejects_classes_that_are_not_tasks(self) -> None:
        """The error names the class."""
        with self.assertRaisesRegex(TypeError, "`Worker` is not a subclass"):
            Worker(Worker).ask("describe_class")

    def test_engine_error_is_raised(self) -> None:
        """The error has the engine's reason."""
        worker = Worker()
        with self.assertRaisesRegex(_host.EngineError, "no"):
            worker.objects.query("something")


class OlderClasses(unittest.TestCase):
    """Base classes of the 0.4 line."""

    def test_choices(self) -> None:
        """One request per choice, scored unnormalised and normalised by length."""

        class Choices(MultipleChoiceTask):
            pass

        task: Task = Choices()
        doc = {"choices": ["a", "bbbb"], "gold": 1}
        requests = task.construct_requests(doc, "ctx", apply_chat_template=False, chat_template=None)
        self.assertEqual([request.args for request in requests], [("ctx", " a"), ("ctx", " bbbb")])
        self.assertEqual(task.OUTPUT_TYPE, "loglikelihood")
        scores = task.process_results(doc, [(-1.0, True), (-2.0, False)])
        self.assertEqual(scores, {"acc": 0.0, "acc_norm": 1.0})
        self.assertEqual(task.doc_to_target(doc), " bbbb")

    def test_perplexity_tasks(self) -> None:
        """Perplexity tasks have no context and no examples."""
        task = Lines()
        self.assertEqual(task.construct_requests("text", "").args, ("text",))
        with self.assertRaises(ValueError):
            task.fewshot_context("text", num_fewshot=1)
        self.assertEqual(set(task.aggregation()), {"word_perplexity", "byte_perplexity", "bits_per_byte"})


class Samplers(WorkerTestCase):
    """Samplers that are classes."""

    def draw(self, worker: Worker, made: Any, state: Any = None, **message: Any) -> Any:
        """Return the examples that a sampler draws for two documents."""
        run: Any = _class_tasks.OPERATIONS["sample"]
        given = {"sampler": 1, "seed": 5, "state": state, "count": 2, "evaluated": [None, ROWS[0]], **message}
        return next(run(worker, made, given))

    def test_sampler_state_carries_over(self) -> None:
        """Another worker continues with the state of the first one."""
        first, second = Worker(), Worker()
        answer = self.draw(first, ContextSampler)
        expected = ContextSampler(ROWS, rnd=5)
        drawn = [expected.sample(2), expected.sample(2, eval_doc=ROWS[0])]
        self.assertEqual([[ROWS[index] for index in draw] for draw in answer["draws"]], drawn)
        self.assertEqual(
            self.draw(first, ContextSampler, answer["state"])["draws"],
            self.draw(second, ContextSampler, answer["state"])["draws"],
        )

    def test_global_generators(self) -> None:
        """Global generators depend only on the document."""

        class Global(ContextSampler):
            def sample(self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any) -> Any:
                return random.sample(list(self.df), n)

        self.assertEqual(self.draw(Worker(), Global)["draws"], self.draw(Worker(), Global)["draws"])


class LightDataset(unittest.TestCase):
    """Our replacement of the library `datasets`."""

    def test_duplicate_column(self) -> None:
        """A column that exists cannot be added."""
        with self.assertRaisesRegex(ValueError, "^there already is a column 't'$"):
            _dataset.Dataset([{"t": "x"}], ["t"]).add_column("t", ["y"])

    def test_method_of_the_library(self) -> None:
        """A method that only the library has is named, with the package to install."""
        split = _dataset.Dataset([{"t": "x"}], ["t"])
        with self.assertRaisesRegex(AttributeError, "`Dataset.train_test_split` needs the package `datasets`"):
            split.train_test_split(test_size=0.5)
        self.assertEqual(list(copy.deepcopy(split)), [{"t": "x"}])

    def test_labels(self) -> None:
        """Label names stay with their columns as long as the values are ids."""
        label = _dataset.ClassLabel(names=["no", "yes"])
        split = _dataset.Dataset([{"l": 0, "t": "x"}, {"l": 1, "t": "y"}], ["l", "t"], {"l": label})
        self.assertEqual(split.filter(lambda doc: doc["l"]).features["l"], label)
        self.assertEqual(split.rename_column("l", "m").features["m"].int2str(1), "yes")
        self.assertEqual(split.remove_columns("l").features, {"t": _dataset.Value("string")})
        named = split.map(lambda doc: {"l": label.int2str(doc["l"])})
        self.assertEqual(named.features["l"], _dataset.Value("string"))
        self.assertEqual(named.cast_column("l", label)["l"], [0, 1])
        self.assertEqual(label.str2int(["yes", "0"]), [1, 0])
        for wrong in (lambda: label.int2str(2), lambda: label.str2int("maybe")):
            with self.assertRaises(ValueError):
                wrong()

    def test_splits(self) -> None:
        """Every way of accessing a split loads it."""
        loaded: list[str] = []

        def load(name: str) -> dict[str, Any]:
            loaded.append(name)
            return {"documents": [{"n": name}], "columns": ["n"], "features": None}

        splits = _dataset.splits(["a", "b"], load)
        self.assertEqual((list(splits), len(splits), "a" in splits, loaded), (["a", "b"], 2, True, []))
        self.assertEqual(splits["a"][0], {"n": "a"})
        self.assertEqual(splits.get("c"), None)
        self.assertEqual([len(split) for split in splits.values()], [1, 1])
        self.assertEqual(loaded, ["a", "b"])
        self.assertEqual({name: split["n"][0] for name, split in splits.items()}, {"a": "a", "b": "b"})
        self.assertEqual(splits.pop("b")[0], {"n": "b"})
        self.assertEqual(list(splits.map(lambda doc: {"n": doc["n"] * 2})["a"]["n"]), ["aa"])


if __name__ == "__main__":
    unittest.main()
