"""Metrics and scorers of task folders, run by the binary: their arguments, and which methods are called."""

from __future__ import annotations

from typing import Any

from tests.binary import BinaryTestCase

ROWS = [("What is 1+1?", "2", ["2"]), ("And 2+2, then?", "4", ["5"]), ("3?", "3", ["3"])]

SCORER = """\
    from dataclasses import dataclass
    from lm_eval.api.registry import register_metric, register_scorer
    from lm_eval.scorers import GenScorer, LLScorer, ScoredDoc
    """


class ScorerTestCase(BinaryTestCase):
    """A task folder with Python code."""

    def code(self, text: str, folder: str = "tasks") -> None:
        """Write `utils.py` of a folder."""
        import textwrap

        self.write(f"{folder}/utils.py", textwrap.dedent(SCORER) + textwrap.dedent(text))

    def write_choice(self, name: str, rest: str) -> None:
        """Write a task of two questions with two options, and a recording in which the first option wins."""
        documents = [{"q": "One?", "gold": 0}, {"q": "Which of the two?", "gold": 1}]
        self.write_lines("documents.jsonl", documents)
        recorded = [
            {"type": "loglikelihood", "args": [row["q"], f" {word}"], "response": [score, False]}
            for row in documents
            for word, score in (("yes", -1.0), ("no", -2.0))
        ]
        self.write_lines("answers.jsonl", recorded)
        self.write(
            f"tasks/{name}.yaml",
            f"""\
            task: {name}
            dataset_path: json
            dataset_kwargs: {{data_files: {{test: documents.jsonl}}}}
            test_split: test
            output_type: multiple_choice
            doc_to_text: "{{{{q}}}}"
            doc_to_choice: ["yes", "no"]
            doc_to_target: gold
            """.replace("            ", "")
            + rest,
        )

    def both_ways(self, task: str) -> dict[str, Any]:
        """Return the scores of a task, which must not depend on whether samples are logged."""
        plain = self.scores(task)
        logged = self.scores(task, "--output_path", "out", "--log_samples")
        self.assertEqual(plain, logged)
        return plain


class Prompts(ScorerTestCase):
    """What code receives does not depend on what is logged."""

    def test_metric_of_likelihoods_reads_the_prompt(self) -> None:
        """`predictions.ctx` of a registered metric and of a function."""
        self.code(
            """
            @register_metric(metric="ctxlen", output_type="multiple_choice", aggregation="mean")
            def ctxlen(references, predictions, **kwargs):
                return len(predictions.ctx)

            def ctx_words(references, predictions):
                return len(predictions.ctx.split())
            """
        )
        self.write_choice("t", "metric_list: [{metric: ctxlen}, {metric: !function utils.ctx_words}]\n")
        scores = self.both_ways("t")
        self.assertEqual(scores["ctxlen,none"], (4 + 17) / 2)
        self.assertEqual(scores["ctx_words,none"], (1 + 4) / 2)

    def test_scorer_reads_the_prompt_and_the_document(self) -> None:
        """`args[0]` and `doc` of the requests, at each level."""
        self.code(
            """
            @register_scorer("by_doc")
            class ByDoc(GenScorer):
                def score_doc(self, doc_id, doc_instances):
                    first = doc_instances[0]
                    scores = {"prompt": [len(first.args[0])], "question": [len(first.doc["question"])]}
                    return ScoredDoc(doc_id=doc_id, reference=first.target, scores=scores)

            @register_scorer("judge")
            class Judge(GenScorer):
                def score_instances(self, instances):
                    return {
                        doc_id: ScoredDoc(doc_id=doc_id, reference=None, scores={"prompt": [len(one[0].args[0])]})
                        for doc_id, one in instances.items()
                    }

            @register_scorer("cleaner")
            class Cleaner(GenScorer):
                default_metric_cfg = [{"metric": "exact_match"}]

                def apply_filter(self, instances):
                    for one in instances:
                        one.filtered_resps[self.name] = [str(len(one.args[0]))]
            """
        )
        length = sum(len(question) for question, _, _ in ROWS) / len(ROWS)
        for scorer, metrics in (("by_doc", ("prompt", "question")), ("judge", ("prompt",))):
            self.write_generation(scorer, ROWS, f"scorer: {scorer}\n")
            scores = self.both_ways(scorer)
            for metric in metrics:
                self.assertEqual(scores[f"{metric},none"], length, scorer)
        self.write_generation("cleaner", [("12", "2", ["x"]), ("123", "2", ["y"])], "scorer: cleaner\n")
        self.assertEqual(self.both_ways("cleaner")["exact_match,none"], 0.5)

    def test_process_results_reads_the_document(self) -> None:
        """A function in place of metrics."""
        self.code(
            """
            def process_results(doc, results):
                return {"length": len(doc["question"])}
            """
        )
        rest = "process_results: !function utils.process_results\nmetric_list: [{metric: length, aggregation: mean}]\n"
        self.write_generation("t", ROWS, rest)
        self.assertEqual(self.both_ways("t")["length,none"], sum(len(row[0]) for row in ROWS) / 3)


class Steps(ScorerTestCase):
    """Methods that a scorer overrides are called."""

    def test_each_step(self) -> None:
        """`apply_filter`, `reduce`, `aggregate` and `higher_is_better`, one at a time."""
        self.code(
            """
            class Base(GenScorer):
                default_metric_cfg = [{"metric": "exact_match", "aggregation": "mean"}]

            @register_scorer("filters")
            class Filters(Base):
                def apply_filter(self, instances):
                    super().apply_filter(instances)
                    for one in instances:
                        one.filtered_resps[self.name] = [answer.strip("!") for answer in one.filtered_resps[self.name]]

            @register_scorer("reduces")
            class Reduces(Base):
                def reduce(self, scored_docs):
                    reduced = {}
                    for doc_id, scored in scored_docs.items():
                        values = scored.scores["exact_match"]
                        reduced[doc_id] = {"right": float(any(values)), "count": len(values)}
                    return reduced

            @register_scorer("aggregates")
            class Aggregates(Base):
                def aggregate(self, reduced_docs, bootstrap_iters=100000, aggregation_overrides=None):
                    results, count = super().aggregate(reduced_docs, bootstrap_iters, aggregation_overrides)
                    results["total," + self.name] = sum(doc["exact_match"] for doc in reduced_docs.values())
                    results["iterations," + self.name] = bootstrap_iters
                    results["raw," + self.name] = len(self.raw_docs)
                    return results, count

            @register_scorer("turns")
            class Turns(Base):
                @property
                def higher_is_better(self):
                    return {name: not up for name, up in super().higher_is_better.items()}
            """
        )
        rows = [("a", "2", ["2!"]), ("b", "4", ["4"]), ("c", "3", ["x"])]
        self.write_generation("filters", rows, "scorer: filters\n")
        self.assertEqual(self.both_ways("filters")["exact_match,none"], 2 / 3)
        self.write_generation("reduces", rows, "scorer: reduces\n")
        scores = self.both_ways("reduces")
        self.assertEqual((scores["right,none"], scores["count,none"]), (1 / 3, 1.0))
        self.assertNotIn("exact_match,none", scores)
        self.write_generation("aggregates", rows, "scorer: aggregates\n")
        results = self.evaluate("aggregates", "--bootstrap_iters", "77")
        scores = results["results"]["aggregates"]
        self.assertEqual(scores["exact_match,none"], 1 / 3)
        self.assertGreater(scores["exact_match_stderr,none"], 0)
        self.assertEqual([scores[f"{name},none"] for name in ("total", "iterations", "raw")], [1, 77, 3])
        self.assertEqual(results["n-samples"]["aggregates"]["effective"], 3)
        self.write_generation("turns", rows, "scorer: turns\n")
        directions = self.evaluate("turns")["higher_is_better"]["turns"]
        self.assertEqual(directions, {"exact_match": False})

    def test_steps_of_likelihoods(self) -> None:
        """An `LLScorer`, with metrics that the task names."""
        self.code(
            """
            @register_scorer("halves")
            class Halves(LLScorer):
                def reduce(self, scored_docs):
                    reduced = super().reduce(scored_docs)
                    return {doc_id: {name: value / 2 for name, value in doc.items()} for doc_id, doc in reduced.items()}
            """
        )
        self.write_choice("t", "scorer: halves\nmetric_list: [{metric: acc, aggregation: median}]\n")
        self.assertEqual(self.both_ways("t")["acc,none"], 0.5)

    def test_scorer_object_keeps_its_state(self) -> None:
        """One object scores and aggregates all documents of a task, and of no other task."""
        self.code(
            """
            @register_scorer("counts")
            @dataclass
            class Counts(GenScorer):
                seen: int = 0

                def score(self, reference, predictions):
                    self.seen += 1
                    return {"one": [1.0] * len(predictions)}

                def aggregate(self, reduced_docs, **options):
                    return {f"seen,{self.name}": self.seen}, len(reduced_docs)
            """
        )
        rows = [(f"q{number}", "a", ["a"]) for number in range(200)]
        self.write_generation("first", rows, "scorer: counts\n")
        self.write_generation("second", rows, "scorer: counts\n")
        results = self.evaluate("first,second")["results"]
        self.assertEqual([results[task]["seen,none"] for task in ("first", "second")], [200, 200])

    def test_scorer_chooses_its_own_metrics(self) -> None:
        """The metrics set in `from_dict` and `__post_init__` are used."""
        self.code(
            """
            from lm_eval.api.metrics import Metric, mean

            def longest(references, predictions):
                return float(max(len(answer) for answer in predictions))

            @register_scorer("made")
            class Made(GenScorer):
                @classmethod
                def from_dict(cls, cfg, *, output_type=None, **kw):
                    made = super().from_dict(cfg, output_type=output_type, **kw)
                    made.metrics = [Metric("longest", longest, aggregation=mean, output_type={"generate_until"})]
                    return made

            @register_scorer("post")
            @dataclass
            class Post(GenScorer):
                def __post_init__(self):
                    self.metrics = [Metric("longest", longest, aggregation=max, output_type={"generate_until"})]
            """
        )
        rows = [("a", "b", ["cc"]), ("d", "e", ["ffff"])]
        for scorer, expected in (("made", 3.0), ("post", 4.0)):
            self.write_generation(scorer, rows, f"scorer: {scorer}\n")
            scores = self.both_ways(scorer)
            self.assertEqual(scores["longest,none"], expected)
            self.assertNotIn("exact_match,none", scores)

    def test_signatures_of_score(self) -> None:
        """`metric_kwargs` is passed by name, as a dictionary, if the method has that parameter."""
        self.code(
            """
            @register_scorer("two")
            class Two(GenScorer):
                def score(self, reference, predictions):
                    return {"m": [1.0]}

            @register_scorer("any")
            class Any(GenScorer):
                def score(self, reference, predictions, **kwargs):
                    return {"m": [float(kwargs == {"metric_kwargs": {}})]}

            @register_scorer("named")
            class Named(GenScorer):
                def score(self, reference, predictions, *, metric_kwargs=None):
                    return {"m": [float(metric_kwargs == {})]}
            """
        )
        for scorer in ("two", "any", "named"):
            self.write_generation(scorer, ROWS, f"scorer: {scorer}\n")
            self.assertEqual(self.scores(scorer)["m,none"], 1.0, scorer)

    def test_scorers_of_two_folders(self) -> None:
        """Each folder has its own scorer, whichever imports this package first."""
        for folder, value in (("one", 1.0), ("two", 2.0)):
            self.code(
                f"""
                @register_scorer("own_{folder}", "same")
                class Own(GenScorer):
                    default_filter_cfg = [{{"function": "take_first"}}]

                    def score(self, reference, predictions, metric_kwargs=None):
                        return {{"value": [{value}] * len(predictions)}}
                """,
                f"tasks/{folder}",
            )
            for scorer in (f"own_{folder}", "same"):
                name = f"{folder}_{scorer}"
                self.write_generation(name, ROWS, f"scorer: {scorer}\n")
                (self.folder / "tasks" / f"{name}.yaml").rename(self.folder / "tasks" / folder / f"{name}.yaml")
        names = ["one_own_one", "two_own_two", "one_same", "two_same"]
        results = self.evaluate(",".join(names))["results"]
        self.assertEqual([results[name]["value,none"] for name in names], [1.0, 2.0, 1.0, 2.0])


class Lists(ScorerTestCase):
    """A metric that returns a list for one answer."""

    FUNCTIONS = """
        def marks(references, predictions, **kwargs):
            return [1.0, 0.0, 0.0] if predictions[0] == references[0] else [0.0]

        def named_marks(references, predictions, **kwargs):
            return {"marks": marks(references, predictions)}

        def all_marks(items):
            flat = [mark for item in items for mark in item]
            return sum(flat) / len(flat)

        def process_results(doc, results):
            return {"marks": [1.0, 0.0] if results[0] == doc["answer"] else [0.0, 0.0]}
        """

    def test_custom_aggregation_receives_lists(self) -> None:
        """It gets the values of all documents, including single numbers."""
        self.code(self.FUNCTIONS)
        for function in ("marks", "named_marks"):
            rest = f"metric_list: [{{metric: !function utils.{function}, aggregation: !function utils.all_marks}}]\n"
            self.write_generation(function, ROWS, rest)
            for compat in ("0.5", "0.4"):
                scores = self.scores(function, "--compat", compat)
                key = "marks,none" if "marks,none" in scores else f"{function},none"
                self.assertEqual(scores[key], 2 / 7, (function, compat))

    def test_aggregation_that_rejects_lists_fails_with_details(self) -> None:
        """The message names the task, the metric, the aggregation and the document; there is no score."""
        self.code(self.FUNCTIONS)
        rests = {
            "metric": "metric_list: [{metric: !function utils.marks, aggregation: mean}]\n",
            "process": "process_results: !function utils.process_results\n"
            "metric_list: [{metric: marks, aggregation: mean}]\n",
        }
        for name, rest in rests.items():
            self.write_generation(name, ROWS, rest)
            done = self.run_binary(
                *("run", "--library", "none", "--include_path", "tasks", "--tasks", name, "--format", "json"),
                *("--model", "replay", "--model_args", "path=answers.jsonl"),
            )
            self.assertNotEqual(done.returncode, 0)
            for part in (f"`{name}`", "`marks`", "`mean`", "document 0", "[1.0, 0.0"):
                self.assertIn(part, done.stderr)

    def test_reduces_one_value_per_answer(self) -> None:
        """A list with one value for each of several answers is reduced."""
        self.code(
            """
            def right(references, predictions, **kwargs):
                return [float(answer == references[0]) for answer in predictions]

            def best(references, predictions, **kwargs):
                return [max(right(references, predictions))]
            """
        )
        rows = [("a", "1", ["1", "2"]), ("b", "1", ["1", "1"])]
        rest = (
            "repeats: 2\nmetric_list: [{metric: !function utils.right, aggregation: mean, reduction: mean},"
            " {metric: !function utils.best, aggregation: mean}]\n"
        )
        self.write_generation("t", rows, rest)
        scores = self.scores("t")
        self.assertEqual((scores["right,none"], scores["best,none"]), (0.75, 1.0))


class Errors(ScorerTestCase):
    """An exception of a scorer in a worker is shown with its traceback."""

    def test_failures_of_steps(self) -> None:
        """Each step shows the exception."""
        self.code(
            """
            @register_scorer("bad")
            class Bad(GenScorer):
                def aggregate(self, reduced_docs, **options):
                    raise ArithmeticError("no sums today")

            def fails(items):
                raise ArithmeticError("no sums today")
            """
        )
        for name, rest in (
            ("bad", "scorer: bad\n"),
            ("fails", "metric_list: [{metric: exact_match, aggregation: !function utils.fails}]\n"),
        ):
            self.write_generation(name, ROWS, rest)
            done = self.run_binary(
                *("run", "--library", "none", "--include_path", "tasks", "--tasks", name),
                *("--model", "replay", "--model_args", "path=answers.jsonl"),
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("ArithmeticError: no sums today", done.stderr)
            self.assertIn("utils.py", done.stderr)
