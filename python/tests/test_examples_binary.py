"""Python examples of the documentation, run by the binary: task files and the modules next to them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from lm_eval.api.metrics import bootstrap_stderr, mean_stderr

from tests.binary import BinaryTestCase

QUESTIONS = [("Is ice cold?", "yes", ["yes"]), ("Is fire cold?", "no", ["yes"]), ("Is it 5?", "no", ["no"])]

MY_METRIC = '''
    from lm_eval.api.registry import register_metric

    @register_metric(
        metric="my_metric",
        higher_is_better=True,
        output_type="generate_until",  # or "multiple_choice", etc.
        aggregation="mean",
    )
    def my_metric_fn(references, predictions, **kwargs):
        """Score a single document."""
        return 1.0 if predictions == references else 0.0
'''


class Metrics(BinaryTestCase):
    """Metrics, aggregations and reductions."""

    def test_registered_metric(self) -> None:
        """A metric of `utils.py`, with its registered options."""
        self.write("tasks/utils.py", MY_METRIC)
        self.write_generation("mine", QUESTIONS, "metric_list: [{metric: my_metric}]\n")
        results = self.evaluate("mine")
        scores = results["results"]["mine"]
        self.assertEqual(scores["my_metric,none"], 2 / 3)
        self.assertEqual(scores["my_metric_stderr,none"], mean_stderr([1.0, 0.0, 1.0]))
        self.assertEqual(results["higher_is_better"]["mine"], {"my_metric": True})

    def test_options_in_the_task_file(self) -> None:
        """The task file overrides the aggregation and the direction."""
        self.write("tasks/utils.py", MY_METRIC)
        override = "metric_list: [{metric: my_metric, aggregation: median, higher_is_better: false}]\n"
        self.write_generation("mine", QUESTIONS, override)
        results = self.evaluate("mine", "--bootstrap_iters", "0")
        self.assertEqual(results["results"]["mine"]["my_metric,none"], 1.0)
        self.assertEqual(results["higher_is_better"]["mine"], {"my_metric": False})

    def test_metric_function_of_task_file(self) -> None:
        """An unregistered metric treats its arguments as strings."""
        self.write(
            "tasks/utils.py",
            """
            def my_custom_metric(references, predictions, **kwargs):
                return 1.0 if predictions.strip() == references.strip() else 0.0
            """,
        )
        rest = "metric_list: [{metric: !function utils.my_custom_metric, aggregation: mean}]\n"
        self.write_generation("mine", [("Q1", "a", [" a "]), ("Q2", "b", ["c"])], rest)
        self.assertEqual(self.scores("mine")["my_custom_metric,none"], 0.5)

    def test_pass_through_metric(self) -> None:
        """Pairs of labels go to an aggregation; a plug-in may define a built-in metric again."""
        self.write(
            "plug.py",
            """
            import sklearn.metrics
            from lm_eval.api.registry import register_aggregation, register_metric

            @register_metric(
                metric="mcc",
                higher_is_better=True,
                output_type="multiple_choice",
                aggregation="matthews_corrcoef",
            )
            def mcc_fn(items):
                return items  # Passthrough — aggregation handles the actual computation

            @register_aggregation("matthews_corrcoef")
            def matthews_corrcoef(items):
                print("aggregating", len(items))
                unzipped = list(zip(*items))
                golds = unzipped[0]
                preds = unzipped[1]
                return sklearn.metrics.matthews_corrcoef(golds, preds)
            """,
        )
        # A minimal `sklearn.metrics`, so that the test does not need the package.
        self.write("sklearn/__init__.py", "")
        self.write(
            "sklearn/metrics.py",
            """
            def matthews_corrcoef(golds, preds):
                count = lambda g, p: sum((a, b) == (g, p) for a, b in zip(golds, preds))
                tp, tn, fp, fn = count(1, 1), count(0, 0), count(0, 1), count(1, 0)
                spread = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
                return (tp * tn - fp * fn) / spread**0.5 if spread else 0.0
            """,
        )
        likelihoods = [(0, -1, -2), (1, -2, -1), (1, -1, -3), (0, -1, -4)]
        self.write_lines("documents.jsonl", [{"q": f"Q{i}", "gold": row[0]} for i, row in enumerate(likelihoods)])
        recorded = [
            {"type": "loglikelihood", "args": [f"Q{i}", f" {option}"], "response": [row[1 + index], False]}
            for i, row in enumerate(likelihoods)
            for index, option in enumerate(["no", "yes"])
        ]
        self.write_lines("answers.jsonl", recorded)
        self.write(
            "tasks/labels.yaml",
            """
            task: labels
            dataset_path: json
            dataset_kwargs: {data_files: {test: documents.jsonl}}
            test_split: test
            output_type: multiple_choice
            doc_to_text: "{{q}}"
            doc_to_choice: ["no", "yes"]
            doc_to_target: gold
            metric_list: [{metric: mcc}, {metric: acc}]
            """,
        )
        built_in = self.scores("labels", "--bootstrap_iters", "1000")
        own = self.scores("labels", "--bootstrap_iters", "1000", "--plugins", "plug.py")
        self.assertEqual(own["mcc,none"], 0.5773502691896258)
        self.assertEqual(own["acc,none"], 0.75)
        self.assertAlmostEqual(own["mcc,none"], built_in["mcc,none"], delta=1e-12)
        self.assertAlmostEqual(own["mcc_stderr,none"], built_in["mcc_stderr,none"], delta=1e-12)
        output = self.run_binary(
            *("run", "--library", "none", "--include_path", "tasks", "--tasks", "labels", "--model", "dummy"),
            *("--bootstrap_iters", "0", "--plugins", "plug.py"),
        )
        self.assertIn("aggregating 4", output.stderr)
        self.assertIn("replaces the built-in one", output.stderr)

    def test_aggregation(self) -> None:
        """A registered aggregation, with a bootstrapped standard error."""
        self.write(
            "tasks/utils.py",
            '''
            from lm_eval.api.registry import register_aggregation

            @register_aggregation("my_aggregation")
            def my_aggregation(items):
                """Aggregate per-document scores into a single value."""
                return sum(items) / len(items)  # Simple mean
            ''',
        )
        rest = "metric_list: [{metric: exact_match, aggregation: my_aggregation}]\n"
        self.write_generation("mine", QUESTIONS, rest)
        scores = self.scores("mine", "--bootstrap_iters", "2500")
        self.assertEqual(scores["exact_match,none"], 2 / 3)
        drawn = bootstrap_stderr(lambda items: sum(items) / len(items), [1, 0, 1], 2500)
        self.assertEqual(scores["exact_match_stderr,none"], drawn)

    def test_reduction(self) -> None:
        """The most common repeat, as a function and by name."""
        self.write(
            "tasks/utils.py",
            '''
            from lm_eval.api.registry import register_reduction

            def my_reduction(references, predictions):
                """Reduce multiple predictions per document to one."""
                # Example: return the most common prediction
                from collections import Counter
                counts = Counter(predictions)
                return counts.most_common(1)[0][0]

            register_reduction("most_common")(my_reduction)
            ''',
        )
        rows = [("Q1", "a", ["a", "b", "a"]), ("Q2", "a", ["b", "a", "c"])]
        for reduction in ("!function utils.my_reduction", "most_common"):
            rest = f"repeats: 3\nmetric_list: [{{metric: exact_match, reduction: {reduction}}}]\n"
            self.write_generation("mine", rows, rest)
            self.assertEqual(self.scores("mine")["exact_match,none"], 0.5, reduction)
        self.write_generation("mine", rows, "repeats: 3\nmetric_list: [{metric: exact_match, reduction: mean}]\n")
        self.assertEqual(self.scores("mine")["exact_match,none"], 0.5)


class Filters(BinaryTestCase):
    """Filters."""

    def test_filter_with_an_argument(self) -> None:
        """A filter class by name, with arguments."""
        self.write(
            "tasks/utils.py",
            '''
            from lm_eval.api.filter import Filter
            from lm_eval.api.registry import register_filter

            @register_filter("normalize_answer")
            class NormalizeAnswerFilter(Filter):
                """Normalize answers by stripping whitespace and lowercasing."""

                def __init__(self, strip_punct=False):
                    self.strip_punct = strip_punct

                def apply(self, resps, docs):
                    filtered = []
                    for doc_resps in resps:
                        normed = []
                        for r in doc_resps:
                            r = r.strip().lower()
                            if self.strip_punct:
                                r = r.rstrip(".,;:!?")
                            normed.append(r)
                        filtered.append(normed)
                    return filtered
            ''',
        )
        rest = """\
            filter_list:
              - name: "clean-match"
                filter:
                  - function: "normalize_answer"
                    kwargs:
                      strip_punct: true
                  - function: "take_first"
              - name: "loose"
                filter:
                  - function: "normalize_answer"
                  - function: "take_first"
            metric_list: [{metric: exact_match}]
            """
        self.write_generation("mine", [("Q1", "yes", [" Yes! "]), ("Q2", "no", ["NO"])], rest)
        scores = self.scores("mine")
        self.assertEqual((scores["exact_match,clean-match"], scores["exact_match,loose"]), (1.0, 0.5))

    def test_filter_metric_and_pipeline_together(self) -> None:
        """The complete example."""
        self.write(
            "tasks/utils.py",
            r"""
            from lm_eval.api.filter import Filter
            from lm_eval.api.registry import register_filter, register_metric, register_aggregation

            @register_filter("extract_number")
            class ExtractNumberFilter(Filter):
                def apply(self, resps, docs):
                    import re
                    return [
                        [re.search(r"(\d+)", r).group(1) if re.search(r"(\d+)", r) else ""
                         for r in doc_resps]
                        for doc_resps in resps
                    ]

            @register_metric(
                metric="numeric_match",
                higher_is_better=True,
                output_type="generate_until",
                aggregation="mean",
            )
            def numeric_match(references, predictions, tolerance=0):
                try:
                    ref = float(references)
                    pred = float(predictions)
                    return 1.0 if abs(ref - pred) <= tolerance else 0.0
                except (ValueError, TypeError):
                    return 0.0
            """,
        )
        rest = """\
            filter_list:
              - name: "numeric"
                filter:
                  - function: "extract_number"
                  - function: "take_first"
            metric_list:
              - metric: numeric_match
                tolerance: 0.01
            """
        rows = [("2+2", "4", ["It is 4."]), ("1+1", "2", ["3"]), ("1+0", "1", ["None"]), ("9-9", "0.005", ["0"])]
        self.write_generation("my_math_task", rows, rest)
        self.assertEqual(self.scores("my_math_task")["numeric_match,numeric"], 0.5)


SCORERS = """
    from dataclasses import dataclass
    from lm_eval.api.registry import register_scorer
    from lm_eval.scorers import GenScorer, ScoredDoc

    @register_scorer("last_number")
    @dataclass
    class LastNumberScorer(GenScorer):
        default_filter_cfg = [
            {"function": "regex", "kwargs": {"regex_pattern": "([0-9]+)", "group_select": -1}},
            {"function": "take_first"},
        ]
        default_metric_cfg = [{"metric": "exact_match", "aggregation": "mean"}]

    @register_scorer("custom_match")
    @dataclass
    class CustomMatchScorer(GenScorer):
        bonus: float = 0.0

        def score(self, reference, predictions, metric_kwargs=None):
            scores = {"custom_match": [float(reference in p) + self.bonus for p in predictions]}
            return {**scores, **super().score(reference, predictions, metric_kwargs)}

    @register_scorer("ranked")
    class RankedScorer(GenScorer):
        def score_instances(self, instances):
            inputs = {did: self._extract_inputs(insts) for did, insts in instances.items()}
            order = sorted(inputs, key=lambda did: len(inputs[did][1][0]))
            return {
                did: ScoredDoc(doc_id=did, reference=inputs[did][0], scores={"rank": [float(order.index(did))]})
                for did in instances
            }
"""


class Scorers(BinaryTestCase):
    """The three levels of scorers."""

    def test_configuration_only(self) -> None:
        """Default filters and metrics."""
        self.write("tasks/utils.py", SCORERS)
        self.write_generation("mine", [("Q1", "7", ["3 and 7"]), ("Q2", "1", ["1, 2"])], "scorer: last_number\n")
        self.assertEqual(self.scores("mine")["exact_match,none"], 0.5)

    def test_per_document(self) -> None:
        """A custom score in addition to that of the metrics."""
        self.write("tasks/utils.py", SCORERS)
        rows = [("Q1", "a", ["bab"]), ("Q2", "a", ["a"]), ("Q3", "a", ["c"])]
        rest = "scorer: {type: custom_match, kwargs: {bonus: 1}}\nmetric_list: [{metric: exact_match}]\n"
        self.write_generation("mine", rows, rest)
        scores = self.scores("mine")
        self.assertEqual((scores["custom_match,none"], scores["exact_match,none"]), (5 / 3, 1 / 3))
        # The documentation writes arguments next to the type.
        self.write_generation("mine", rows, "scorer: {type: custom_match, bonus: 1}\n")
        self.assertEqual(self.scores("mine")["custom_match,none"], 5 / 3)

    def test_batch(self) -> None:
        """A scorer that receives all documents at once."""
        self.write("tasks/utils.py", SCORERS)
        rows = [("Q1", "a", ["ccc"]), ("Q2", "a", ["b"]), ("Q3", "a", ["dd"])]
        rest = "scorer: ranked\nmetric_list: [{metric: rank, aggregation: median, higher_is_better: false}]\n"
        self.write_generation("mine", rows, rest)
        results = self.evaluate("mine", "--bootstrap_iters", "0", "--log_samples", "--output_path", "out")
        self.assertEqual(results["results"]["mine"]["rank,none"], 1.0)
        samples = next(self.folder.glob("out/**/samples_mine_*.jsonl")).read_text().splitlines()
        self.assertEqual([json.loads(line)["rank"] for line in samples], [2.0, 0.0, 1.0])

    def test_judge(self) -> None:
        """All answers go to a judge, which is a server."""
        asked: list[Any] = []

        class Judge(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append(body)
                ratings = {key: float(wanted == found) for key, (wanted, found) in body["pairs"].items()}
                answer = json.dumps(ratings).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Judge)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.write(
            "tasks/utils.py",
            f"""
            import json
            import urllib.request
            from dataclasses import dataclass
            from lm_eval.api.registry import register_scorer
            from lm_eval.scorers import GenScorer, ScoredDoc

            def batch_judge(model, pairs):
                body = json.dumps({{"model": model, "pairs": pairs}}).encode()
                url = "http://127.0.0.1:{server.server_port}/"
                with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
                    return {{int(key): rating for key, rating in json.load(answer).items()}}

            @register_scorer("ai_judge")
            @dataclass
            class AIJudgeScorer(GenScorer):
                judge_model: str = "claude-sonnet-4-6"

                def score_instances(self, instances):
                    inputs = {{did: self._extract_inputs(insts)
                              for did, insts in instances.items()}}
                    ratings = batch_judge(self.judge_model,
                                          {{did: (ref, preds[0])
                                           for did, (ref, preds, _) in inputs.items()}})
                    return {{
                        did: ScoredDoc(
                            doc_id=did, reference=ref,
                            scores={{"judge": [ratings[did]]}})
                        for did, (ref, preds, _) in inputs.items()
                    }}
            """,
        )
        self.write_generation("mine", QUESTIONS, "scorer: {type: ai_judge, kwargs: {judge_model: stand-in}}\n")
        scores = self.scores("mine")
        self.assertEqual(scores["judge,none"], 2 / 3)
        self.assertEqual(scores["judge_stderr,none"], mean_stderr([1.0, 0.0, 1.0]))
        self.assertEqual([(body["model"], len(body["pairs"])) for body in asked], [("stand-in", 3)])


class Finding(BinaryTestCase):
    """Where names are looked up."""

    def test_plug_ins(self) -> None:
        """A plug-in given as a module, as a file, and as an entry point of an installed package."""
        self.write("my_plugin.py", MY_METRIC)
        self.write_generation("mine", QUESTIONS, "metric_list: [{metric: my_metric}]\n")
        for plugin in ("my_plugin", "my_plugin.py", str(self.folder / "my_plugin.py")):
            self.assertEqual(self.scores("mine", "--plugins", plugin)["my_metric,none"], 2 / 3, plugin)
        self.write("run.yaml", "plugins: [my_plugin]\n")
        self.assertEqual(self.scores("mine", "--config", "run.yaml")["my_metric,none"], 2 / 3)
        self.write("site/their_plugin.py", MY_METRIC)
        self.write("site/their_plugin-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: their-plugin\nVersion: 1.0\n")
        self.write("site/their_plugin-1.0.dist-info/entry_points.txt", "[lm_eval.plugins]\ntheirs = their_plugin\n")
        found = self.scores("mine", PYTHONPATH=str(self.folder / "site"))
        self.assertEqual(found["my_metric,none"], 2 / 3)

    def test_folders_are_independent(self) -> None:
        """A name may have different meanings in two folders."""
        for folder, value in (("one", 1.0), ("two", 2.0)):
            self.write_generation(folder, QUESTIONS, "metric_list: [{metric: own}]\n")
            (self.folder / "tasks" / folder).mkdir()
            (self.folder / "tasks" / f"{folder}.yaml").rename(self.folder / "tasks" / folder / "task.yaml")
            source = f"""
                from lm_eval.api.registry import register_metric

                @register_metric(metric="own", output_type="generate_until", aggregation="mean")
                def own_{folder}(references, predictions):
                    return {value}
                """
            self.write(f"tasks/{folder}/utils.py", source)
        results = self.evaluate("one,two")["results"]
        self.assertEqual((results["one"]["own,none"], results["two"]["own,none"]), (1.0, 2.0))

    def test_unknown_names(self) -> None:
        """An unknown name is an error that lists the known ones; validating a task runs none of its code."""
        self.write("tasks/utils.py", "print('imported')\n" + "\n".join(line[4:] for line in MY_METRIC.splitlines()))
        self.write_generation("mine", QUESTIONS, "metric_list: [{metric: my_metrik}]\n")
        run = ("run", "--model", "dummy", "--tasks", "mine", "--library", "none", "--include_path", "tasks")
        done = self.run_binary(*run)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("`my_metrik` is not a known metric", done.stderr)
        self.assertIn("Python code registers `my_metric`", done.stderr)
        checked = self.run_binary("validate", "--tasks", "mine", "--library", "none", "--include_path", "tasks")
        self.assertNotIn("imported", checked.stdout + checked.stderr)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("may register it when Python imports it", checked.stdout + checked.stderr)

    def test_failures(self) -> None:
        """A failing import names the module and shows the traceback."""
        self.write("tasks/utils.py", "from lm_eval.api.registry import register_metric\nraise ValueError('not today')\n")
        self.write_generation("mine", QUESTIONS, "metric_list: [{metric: my_metric}]\n")
        run = ("run", "--model", "dummy", "--tasks", "mine", "--library", "none", "--include_path", "tasks")
        done = self.run_binary(*run)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError: not today", done.stderr)
        self.assertIn("utils.py", done.stderr)
        self.write("bad_plugin.py", "import a_package_that_is_not_there\n")
        done = self.run_binary(*run, "--plugins", "bad_plugin")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot import the plug-in `bad_plugin`", done.stderr)
        self.assertIn("bad_plugin.py", done.stderr)
