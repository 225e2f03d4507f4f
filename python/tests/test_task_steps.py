"""The steps of an evaluation, run by a script, give the numbers of a run."""

from __future__ import annotations

import unittest
from typing import Any

import lm_eval
from lm_eval.api.metrics import Metric, mean
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.config.task import TaskConfig
from lm_eval.scorers import GenScorer
from lm_eval.tasks import TaskManager

from tests import engine
from tests.step_tasks import (
    DEFINITIONS,
    Model,
    answer,
    definition,
    evaluated,
    process_results,
    scores,
)


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Steps(unittest.TestCase):
    """Requests, answers, filters, scores, results."""

    def _compare(self, task: Task, spec: Any, **settings: Any) -> None:
        expected, results = evaluated(spec, **settings)
        task.build_all_requests()
        answer(Model(), task)
        task.process_instances()
        found, count = task.aggregate(bootstrap_iters=100)
        self.assertEqual(found, scores(expected))
        self.assertEqual(count, expected["sample_len"])
        (samples,) = results["samples"].values()
        by_pipeline = {(sample["filter"], sample["doc_id"]): sample for sample in samples}
        for scorer in task.scorers:
            for doc_id, values in scorer.reduced_docs.items():
                sample = by_pipeline[scorer.name, doc_id]
                self.assertEqual(values, {name: sample[name] for name in sample["metrics"]})
        for instance in task.instances or []:
            for name, filtered in instance.filtered_resps.items():
                sample = by_pipeline[name, instance.doc_id]
                self.assertEqual(instance.args, sample["arguments"][instance.idx])
                self.assertEqual(filtered, sample["filtered_resps"][instance.idx])
        directions = results["higher_is_better"][task.config._qualified_name or task.task_name]
        self.assertLessEqual(set(directions.items()), {*task.higher_is_better().items(), *directions.items()})
        self.assertLessEqual(set(task.higher_is_better()), {*directions})

    def test_numbers(self) -> None:
        """A loaded task, a `Task` of a `TaskConfig`, and `from_config` all give the numbers of a run."""
        for name in DEFINITIONS:
            (loaded,) = TaskManager().load([definition(name)])["tasks"].values()
            for task in (
                loaded,
                Task(TaskConfig(**definition(name))),
                ConfigurableTask.from_config(definition(name)),
            ):
                with self.subTest(name, kind=type(task).__name__):
                    self._compare(task, definition(name))

    def test_functions_of_a_loaded_definition(self) -> None:
        """The functions are unchanged, so the task can be called directly."""
        given = {**definition("processed"), "doc_to_text": lambda doc: doc["q"] + "!"}
        (task,) = TaskManager().load([given])["tasks"].values()
        self.assertIs(task.config.process_results, process_results)
        self.assertEqual(task.doc_to_text(task.test_docs()[0]), "0+1!")
        self.assertEqual(task.process_results({}, ["Tx"]), {"length": 2, "first": 1.0})

    def test_evaluates_replaced_documents(self) -> None:
        """Documents that a script puts into `dataset` are evaluated."""
        (loaded,) = TaskManager().load([definition("generated")])["tasks"].values()
        for task in (loaded, Task(TaskConfig(**definition("generated")))):
            with self.subTest(type(task).__name__):
                self.assertFalse(task._has_own_data)
                self.assertEqual(len(task.test_docs()), 9)
                self.assertFalse(task._has_own_data)
                task.dataset["test"] = [task.dataset["test"][index] for index in (8, 3)]
                task.build_all_requests()
                self.assertEqual([instance.doc["q"] for instance in task.instances or []], ["8+1", "3+1"])
                results = lm_eval.evaluate(Model(), {"generated": task}, bootstrap_iters=0)
                self.assertEqual([sample["doc"]["q"] for sample in results["samples"]["generated"][:2]], ["8+1", "3+1"])

    def test_class_formats_its_own_turns(self) -> None:
        """A class that formats its own examples has its method called."""

        class Dashed(ConfigurableTask):
            def build_qa_turn(self, **parts: Any) -> Any:
                return super().build_qa_turn(**{**parts, "q": f"- {parts['q']}"})

        task = Dashed(config={**definition("generated"), "task": "dashed"})
        task.build_all_requests(limit=1)
        (instance,) = task.instances or []
        self.assertTrue(instance.args[0].startswith("- Q: 10"))
        self.assertTrue(instance.args[0].endswith("\n\n- Q: 0+1\nA:"))
        results = lm_eval.simple_evaluate(model=Model(), tasks=[task], limit=1, bootstrap_iters=0)
        self.assertEqual(results["samples"]["dashed"][0]["arguments"][0], instance.args)

    def test_document_selection(self) -> None:
        """`limit`, `samples` and the shares of several processes."""
        task = Task(TaskConfig(**definition("chosen")))
        ids = lambda: sorted({instance.doc_id for instance in task.instances or []})
        task.build_all_requests(limit=4)
        self.assertEqual(ids(), [0, 1, 2, 3])
        task.build_all_requests(samples=[1, 5, 7])
        self.assertEqual(ids(), [1, 5, 7])
        task.build_all_requests(limit=5, rank=1, world_size=2)
        self.assertEqual(ids(), [1, 3])
        self.assertEqual(task.build_all_requests(limit=1), task.instances)

    def test_ranks(self) -> None:
        """Values of several processes are merged and aggregated."""
        whole = Task(TaskConfig(**definition("processed")))
        parts = [Task(TaskConfig(**definition("processed"))) for _ in range(2)]
        merged: dict[str, dict[int, Any]] = {}
        for rank, part in enumerate(parts):
            part.build_all_requests(rank=rank, world_size=2)
            answer(Model(), part)
            part.process_instances()
            for name, values in part._export_reduced().items():
                merged.setdefault(name, {}).update(values)
        whole._import_reduced({name: dict(sorted(values.items())) for name, values in merged.items()})
        self.assertEqual(whole.aggregate(100)[0], scores(evaluated(definition("processed"))[0]))

    def test_settings(self) -> None:
        """Repeats, examples, the seed, a single metric and a system prompt, as in the arguments of a run."""
        task = Task(TaskConfig(**definition("repeated")))
        task.set_repeats(2)
        task.set_num_fewshot(3)
        task.set_fewshot_seed(5)
        task.config.filter_list = task.config.filter_list[:1]
        spec = {**definition("repeated"), "filter_list": DEFINITIONS["repeated"]["filter_list"][:1]}
        self._compare(task, spec, repeats=2, num_fewshot=3, fewshot_random_seed=5)
        task = Task(TaskConfig(**definition("chosen")))
        task.set_repeats(3)
        self.assertEqual(task.config.repeats, 1)
        pinned = Task(TaskConfig(**{**definition("chosen"), "num_fewshot": 0}))
        pinned.set_num_fewshot(3)
        self.assertEqual(pinned.config.num_fewshot, 0)
        task = Task(TaskConfig(**definition("generated")))
        task.override_metric("bypass")
        task.build_all_requests(limit=2)
        answer(Model(), task)
        task.process_instances()
        self.assertEqual([scorer.name for scorer in task.scorers], ["none"])
        self.assertEqual(set(task.aggregate(0)[0]), {"bypass,none", "bypass_stderr,none"})

    def test_changed_metrics_apply_to_pipelines(self) -> None:
        """Changed metrics of the task apply to its pipelines, unless these have their own."""
        (loaded,) = TaskManager().load([definition("generated")])["tasks"].values()
        changed = [{"metric": "exact_match", "ignore_case": True}, {"metric": "chrf"}]
        spec = {**definition("generated"), "metric_list": changed}
        for task in (loaded, Task(TaskConfig(**definition("generated")))):
            with self.subTest(type(task).__name__):
                self.assertEqual([metric.name for metric in task.scorers[0].metrics or ()], ["exact_match", "bleu"])
                task.set_config("metric_list", changed)
                self._compare(task, spec)
                self.assertEqual([metric.name for metric in task.scorers[0].metrics or ()], ["exact_match", "chrf"])
                self.assertEqual([metric.name for metric in task.scorers[1].metrics or ()], ["exact_match"])
                results = lm_eval.evaluate(Model(), {"generated": task}, bootstrap_iters=100)
                self.assertEqual(scores(results["results"]["generated"]), task.aggregate(100)[0])

    def test_chat(self) -> None:
        """Conversations are those of a run."""
        task = Task(TaskConfig(**definition("generated")))
        lm = Model()
        task.build_all_requests(
            limit=3,
            system_instruction="Be brief.",
            apply_chat_template=True,
            fewshot_as_multiturn=True,
            chat_template=lm.apply_chat_template,
        )
        results = lm_eval.simple_evaluate(
            model=lm,
            tasks=[definition("generated")],
            limit=3,
            system_instruction="Be brief.",
            apply_chat_template=True,
            bootstrap_iters=0,
        )
        prompts = [sample["arguments"][0][0] for sample in results["samples"]["generated"][:3]]
        self.assertEqual([instance.args[0] for instance in task.instances or []], prompts)
        self.assertIn("<user>Q: 0+1\nA:", prompts[0])
        with self.assertRaisesRegex(ValueError, "chat_template"):
            task.build_all_requests(apply_chat_template=True)

    def test_apply_filters_only(self) -> None:
        """`apply_filters` fills `filtered_resps` and scores nothing."""
        task = Task(TaskConfig(**definition("generated")))
        task.build_all_requests(limit=2)
        answer(Model(), task)
        task.apply_filters()
        for instance in task.instances or []:
            digit = instance.resps[0].split()[-1].strip(".")
            self.assertEqual(instance.filtered_resps, {"number": [digit], "flexible": instance.resps})
        self.assertEqual(dict(task.scorers[0].reduced_docs), {})

    def test_missing_answers_are_an_error(self) -> None:
        """A missing answer is an error that names the document, not a zero."""
        task = Task(TaskConfig(**definition("repeated")))
        with self.assertRaisesRegex(ValueError, "build_all_requests"):
            task.process_instances()
        task.build_all_requests(limit=2)
        with self.assertRaisesRegex(ValueError, "document 0 of `repeated` has 0 answers, not 4"):
            task.process_instances()

    def test_replaces_invalid_unicode_in_answers(self) -> None:
        """Characters that UTF-8 cannot encode are replaced, as in a run."""
        task = Task(TaskConfig(**definition("own")))
        for instance in task.build_all_requests(limit=2):
            instance.resps.append("a\ud800b")
        task.process_instances()
        self.assertEqual(task.aggregate(0)[0]["common_words,none"], 3.0)

    def test_uses_changed_scorers(self) -> None:
        """Scorers that a script has changed are used."""
        task = Task(TaskConfig(**definition("generated")))
        self.assertFalse(task._has_own_scorers)
        (task.scorers[0].metrics or []).append(
            Metric(name="letters", fn=lambda references, predictions: float(len(predictions[0])), aggregation=mean)
        )
        self.assertTrue(task._has_own_scorers)
        task.build_all_requests()
        answer(Model(), task)
        task.process_instances()
        found, count = task.aggregate(bootstrap_iters=100)
        expected = scores(evaluated(definition("generated"))[0])
        self.assertEqual({name: found[name] for name in expected}, expected)
        self.assertEqual((found["letters,number"], count), (1.0, 9))
        with self.assertRaisesRegex(NotImplementedError, "process_instances"):
            lm_eval.evaluate(Model(), {"generated": task})

    def test_aggregate_of_a_scorer(self) -> None:
        """`aggregate` of a scorer receives the arguments it has parameters for."""

        class Bare(GenScorer):
            def aggregate(self, reduced_docs: Any, **kwargs: Any) -> Any:  # type: ignore[override]
                return {"names": sorted(kwargs)}, len(reduced_docs)

        class Iterations(GenScorer):
            def aggregate(self, reduced_docs: Any, *, bootstrap_iters: Any = 1) -> Any:  # type: ignore[override]
                return {"iterations": bootstrap_iters}, len(reduced_docs)

        task = Task(TaskConfig(**definition("generated")))
        for scorer, expected in (
            (Bare, {"names": ["aggregation_overrides", "bootstrap_iters"]}),
            (Iterations, {"iterations": 7}),
        ):
            own = scorer.from_dict({"name": "own", "filter": [], "metric_list": []}, output_type="generate_until")
            own.import_reduced({0: {"a": 1.0}})
            task.scorers[:] = [own]
            self.assertEqual(task.aggregate(7), (expected, 1))

    def test_python_scorers(self) -> None:
        """The scorers of a task give the engine's numbers, as far as they know the metrics."""
        for name in DEFINITIONS:
            task = Task(TaskConfig(**definition(name)))
            task.build_all_requests()
            answer(Model(), task)
            expected = scores(evaluated(definition(name))[0])
            task.scorers[0].context = {**task.scorers[0].context}
            self.assertFalse(task._has_own_scorers)
            task._scorers_built = (task._scorers_built[0], None)
            self.assertTrue(task._has_own_scorers)
            with self.subTest(name):
                if name == "native":
                    with self.assertRaisesRegex(NotImplementedError, "`rouge1` is computed by the engine"):
                        task.process_instances()
                    continue
                task.process_instances()
                self.assertEqual(task.aggregate(100)[0], expected)

    def test_code_needs_consent(self) -> None:
        """Generated code runs only when that is confirmed."""
        task = Task(TaskConfig(**{**definition("own"), "unsafe_code": True}))
        task.build_all_requests(limit=2)
        answer(Model(), task)
        with self.assertRaisesRegex(ValueError, "confirm_run_unsafe_code"):
            task.process_instances()
        task.process_instances(confirm_run_unsafe_code=True)
        self.assertIn("common_words,none", task.aggregate(0)[0])


if __name__ == "__main__":
    unittest.main()
