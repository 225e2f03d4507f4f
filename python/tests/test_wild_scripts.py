"""Scripts in the style of public projects, run as their users run them."""

from __future__ import annotations

import json
import os
import re
import textwrap
import unittest

from tests import engine
from tests.wild import ODD, PLAIN, TASK, Script


def setUpModule() -> None:
    """Use the debug binary."""
    engine.set_up()


class Secrets(Script):
    """API keys in scripts that evaluate."""

    def test_tracker_writes_no_key(self) -> None:
        """A key that a model repeats is in no file; words that are also settings are kept."""
        program = """
            import lm_eval
            from lm_eval.loggers import EvaluationTracker
            tracker = EvaluationTracker(output_path="out")
            results = lm_eval.simple_evaluate(
                model=Base(answer="4 sk-repeated-0123456789 sk-unit-0123456789-ab password"),
                model_args={"api_key": "sk-unit-0123456789-ab"},
                tasks=["wild_sums"],
                task_manager=lm_eval.TaskManager(include_path="tasks"),
                evaluation_tracker=tracker,
            )
            samples = results.pop("samples")
            tracker.save_results_aggregated(results=results, samples=samples)
            tracker.save_results_samples(task_name="wild_sums", samples=samples["wild_sums"])
        """
        environment = {"REPEATED_API_KEY": "sk-repeated-0123456789", "DATABASE_PASSWORD": "password"}
        self.run_script(program, **environment)
        (results,) = self.folder.glob("out/**/results_*.json")
        (samples,) = self.folder.glob("out/**/samples_wild_sums_*.jsonl")
        text = samples.read_text(encoding="utf-8")
        self.assertNotIn("sk-", text + results.read_text(encoding="utf-8"))
        self.assertEqual(json.loads(text.splitlines()[0])["resps"], [["4 *** *** password"]])


class CommandLine(Script):
    """`@register_model` and `cli_evaluate()`."""

    REGISTERING = """
        from lm_eval.__main__ import cli_evaluate
        from lm_eval.api.filter import Filter
        from lm_eval.api.registry import register_filter, register_metric, register_model

        @register_model("wild-model")
        class Mine(Base):
            pass

        @register_filter("wild_shout")
        class Shout(Filter):
            def apply(self, resps, docs):
                return [[answer + "!" for answer in answers] for answers in resps]

        @register_metric(metric="wild_exclaims", higher_is_better=True, output_type="generate_until")
        def exclaims(references, predictions, **kwargs):
            return float(predictions[0].endswith("!"))

        if __name__ == "__main__":
            cli_evaluate()
    """

    def _arguments(self, *more: str) -> tuple[str, ...]:
        return ("--tasks", "wild_sums", "--include_path", "tasks", "--format", "json", *more)

    def test_registered_model_metric_and_filter(self) -> None:
        """Classes registered by the script are used; results go to standard output and to the requested files."""
        self.write("tasks/wild_sums.yaml", TASK)
        arguments = self._arguments(
            "--model", "wild-model", "--model_args", "answer=6", "--output_path", "out"
        )
        printed = self.run_script(self.REGISTERING, *arguments, "--log_samples")
        results = json.loads(printed)
        self.assertEqual(results["results"]["wild_sums"]["wild_exclaims,shouted"], 1.0)
        self.assertEqual(results["config"]["model"], "wild-model")
        (samples,) = self.folder.glob("out/*/samples_wild_sums_*.jsonl")
        record = json.loads(samples.read_text(encoding="utf-8").splitlines()[0])
        self.assertEqual((record["resps"], record["filtered_resps"]), ([["6"]], [["6!"]]))
        self.assertEqual(len(list(self.folder.glob("out/*/results_*.json"))), 1)

    def test_back_end_of_the_engine(self) -> None:
        """A script need not register anything."""
        printed = self.run_script(self.REGISTERING, *self._arguments("--model", "dummy"))
        self.assertIn("exact_match,none", json.loads(printed)["results"]["wild_sums"])

    def test_exit_status(self) -> None:
        """Invalid usage and a failing run exit the script with the status of the command."""
        done = self.start(self.REGISTERING, *self._arguments("--model", "wild-modle"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("wild-modle", done.stderr)
        done = self.start(self.REGISTERING, "run", "--no-such-flag")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(self.start(self.REGISTERING, "--help").returncode, 0)

    def test_usage_error_hides_keys(self) -> None:
        """The error about invalid arguments does not show the keys among them."""
        arguments = self._arguments("--model", "dummy", "--progress", "api_key=sk-typed-1234")
        done = self.start(self.REGISTERING, *arguments)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--progress", done.stderr)
        self.assertNotIn("sk-typed-1234", done.stderr + done.stdout)

    def test_last_event(self) -> None:
        """With `--progress json` the last event has the exit status of the run, as without a script."""
        done = self.start(self.REGISTERING, *self._arguments("--model", "dummy", "--progress", "json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        last = [event for event in events if event["event"] == "finished"]
        self.assertEqual([(event["status"], event["exit_status"]) for event in last], [("success", 0)])

    def test_failing_model(self) -> None:
        """An exception of the model is shown with its traceback."""
        program = self.REGISTERING.replace(
            "class Mine(Base):\n            pass",
            "class Mine(Base):\n            def generate_until(self, requests):\n"
            "                raise ValueError('my own')",
        )
        done = self.start(program, *self._arguments("--model", "wild-model", "--max_failures", "0"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError: my own", done.stderr)

    def test_own_options(self) -> None:
        """A script adds its own options to those of a run."""
        program = """
            from lm_eval.__main__ import cli_evaluate, parse_eval_args, setup_parser
            from lm_eval.api.registry import register_model

            @register_model("wild-model")
            class Mine(Base):
                pass

            parser = setup_parser()
            parser.add_argument("--checkpoint", default=None)
            args = parse_eval_args(parser)
            args.model = "wild-model"
            args.model_args = {"answer": args.checkpoint}
            args.seed = [1, 2, 3, 4]
            cli_evaluate(args)
        """
        printed = self.run_script(program, *self._arguments("--checkpoint", "18", "--limit", "4"))
        results = json.loads(printed)
        self.assertEqual(results["results"]["wild_sums"]["exact_match,none"], 0.25)
        self.assertEqual(results["config"]["random_seed"], 1)

    def test_parser_has_every_option(self) -> None:
        """The parser knows the options in `lm-eval run --help`."""
        from lm_eval.__main__ import setup_parser

        shown = set(
            re.findall(r"--([a-z][a-z_]+)", engine.run("run", "--help").stdout.partition("Exit status")[0])
        )
        known = {action.dest for action in setup_parser()._actions}
        self.assertEqual(shown - known, set())
        self.assertGreater(len(shown), 30)

    def test_harness_cli(self) -> None:
        """`HarnessCLI` does the same."""
        program = """
            from lm_eval._cli import HarnessCLI
            cli = HarnessCLI()
            cli.execute(cli.parse_args())
        """
        printed = self.run_script(program, *self._arguments("--model", "dummy"))
        self.assertIn("wild_sums", json.loads(printed)["results"])


class Notebooks(Script):
    """Typical notebooks and evaluation scripts."""

    def test_attributes_of_the_package(self) -> None:
        """`import lm_eval` is enough; results become a table and files."""
        program = """
            import json, lm_eval
            manager = lm_eval.tasks.TaskManager(include_path="tasks")
            results = lm_eval.evaluator.simple_evaluate(
                model=Base(), tasks=["wild_sums"], task_manager=manager, log_samples=True, limit=2
            )
            print(lm_eval.utils.make_table(results))
            tracker = lm_eval.loggers.EvaluationTracker(output_path="out")
            tracker.general_config_tracker.log_experiment_args("mine", "model=mine", None, None, False)
            samples = results.pop("samples")
            tracker.save_results_aggregated(results=results, samples=samples)
            for task, records in samples.items():
                tracker.save_results_samples(task_name=task, samples=records)
            text = json.dumps(results, default=lm_eval.utils.handle_non_serializable)
            print(json.loads(text)["results"]["wild_sums"]["exact_match,none"])
        """
        printed = self.run_script(program)
        self.assertIn("|wild_sums|", printed)
        self.assertEqual(printed.splitlines()[-1], "0.5")
        files = [str(path) for path in self.folder.rglob("*") if path.is_file()]
        from lm_eval import utils

        latest = utils.get_latest_filename(utils.get_results_filenames(files))
        self.assertIn("results_", latest)
        (samples,) = utils.get_sample_results_filenames(files)
        self.assertEqual(utils.get_file_task_name(os.path.basename(samples)), "wild_sums")

    def test_task_dictionaries(self) -> None:
        """`get_task_dict` and `evaluate`, as older scripts call them."""
        program = """
            import warnings
            warnings.simplefilter("ignore")
            import lm_eval
            from lm_eval.tasks import TaskManager, get_task_dict, get_task_name_from_object
            tasks = get_task_dict(["wild_sums"], TaskManager("INFO", include_path="tasks"))
            assert get_task_name_from_object(tasks["wild_sums"]) == "wild_sums"
            from lm_eval.evaluator import get_task_list
            assert [one.task.OUTPUT_TYPE for one in get_task_list(tasks)] == ["generate_until"]
            results = lm_eval.evaluate(lm=Base(answer=6), task_dict=tasks, limit=4)
            print(results["results"]["wild_sums"]["exact_match,none"])
        """
        self.assertEqual(self.run_script(program).splitlines()[-1], "0.25")

    def test_messages_go_to_logging(self) -> None:
        """With `logging` set up, engine messages have levels and a logger."""
        self.write("tasks/wild_odd.yaml", ODD)
        program = """
            import json, logging
            records = []
            class Keep(logging.Handler):
                def emit(self, record):
                    records.append((record.name, record.levelname, record.getMessage()))
            logging.getLogger().addHandler(Keep())
            logging.getLogger("lm_eval").setLevel("INFO")
            import lm_eval
            manager = lm_eval.TaskManager(include_path="tasks")
            lm_eval.simple_evaluate(model="dummy", tasks=["wild_odd"], task_manager=manager, write_out=True)
            print(json.dumps(records))
        """
        done = self.start(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        records = json.loads(done.stdout)
        warned = [text for name, level, text in records if (name, level) == ("lm_eval", "WARNING")]
        self.assertTrue(any("neither a name nor a function" in text for text in warned), records)
        self.assertFalse(any(text.startswith("warning:") for text in warned))
        self.assertTrue(any(level == "INFO" and "2+2" in text for _, level, text in records), records)
        self.assertNotIn("neither a name", done.stderr)

    def test_messages_without_logging(self) -> None:
        """Without handlers, messages go to standard error unchanged."""
        self.write("tasks/wild_odd.yaml", ODD)
        program = """
            import lm_eval
            manager = lm_eval.TaskManager(include_path="tasks")
            lm_eval.simple_evaluate(model="dummy", tasks=["wild_odd"], task_manager=manager)
        """
        done = self.start(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: `metric_list[0].aggregation` is neither a name", done.stderr)

    def test_setup_logging(self) -> None:
        """`setup_logging` writes lines with level and logger; the environment overrides the level."""
        program = """
            import logging
            from lm_eval.utils import setup_logging
            setup_logging("DEBUG")
            setup_logging("DEBUG")
            logging.getLogger("lm_eval.models").info("found %d", 3)
        """
        self.assertRegex(
            self.start(program).stderr, r"^[-:0-9]+ INFO +\\[models:\\d+\\] found 3\n$".replace("\\\\", "\\")
        )
        self.assertEqual(self.start(program, LMEVAL_LOG_LEVEL="ERROR").stderr, "")

    def test_wandb(self) -> None:
        """`WandbLogger` logs scores, tables and files to the package of that name."""
        self.write(
            "wandb.py",
            textwrap.dedent(
                """
                import re
                calls, run = [], None
                class Config(dict):
                    def update(self, values):
                        calls.append(("config", values))
                class Table:
                    def __init__(self, columns, data):
                        self.columns, self.data = columns, data
                class Artifact:
                    def __init__(self, name, type):
                        assert re.fullmatch(r"[a-zA-Z0-9_.-]+", name), name
                        self.name = name
                    def new_file(self, name, mode="w", encoding=None):
                        return open(name, mode, encoding=encoding)
                class Run:
                    def __init__(self):
                        self.config = Config()
                        self.summary = Config()
                    def log(self, values, step=None):
                        calls.append(("log", values))
                    def log_artifact(self, artifact):
                        calls.append(("artifact", artifact.name))
                    def finish(self):
                        calls.append(("finish", None))
                def init(**kwargs):
                    global run
                    calls.append(("init", kwargs))
                    run = Run()
                    return run
                """
            ),
        )
        program = """
            import lm_eval, wandb
            from lm_eval.loggers import WandbLogger
            from lm_eval.utils import simple_parse_args_string
            results = lm_eval.simple_evaluate(
                model=Base(), tasks=["wild_sums"], task_manager=lm_eval.TaskManager(include_path="tasks")
            )
            logger = WandbLogger(init_args=simple_parse_args_string("project=wild,job_type=eval"))
            logger.post_init(results)
            logger.log_eval_result()
            logger.log_eval_samples(results["samples"])
            logger.log_eval_samples({"group::wild_sums": results["samples"]["wild_sums"]})
            logger.run.finish()
            kinds = [kind for kind, _ in wandb.calls]
            assert wandb.calls[0] == ("init", {"project": "wild", "job_type": "eval"}), wandb.calls[0]
            logged = {}
            for kind, values in wandb.calls:
                if kind == "log":
                    logged.update(values)
            assert logged["wild_sums/exact_match"] == 0.5, logged
            table = logged["evaluation/eval_results"]
            assert ["wild_sums", "Yaml", "none", 0, "exact_match", "0.5"] == list(table.data[-1][:6]), table.data
            samples = logged["wild_sums_eval_results"]
            assert len(samples.data) == 4 and samples.data[0][:2] == [0, "2+2 ="], samples.data
            assert "group::wild_sums_eval_results" in logged
            assert ("artifact", "group__wild_sums") in wandb.calls
            assert ("artifact", "results") in wandb.calls and kinds[-1] == "finish"
            print("done")
        """
        self.assertEqual(self.run_script(program).splitlines()[-1], "done")
        self.assertIn("wild_sums", json.loads((self.folder / "results.json").read_text())["results"])
        self.assertEqual(len(json.loads((self.folder / "group__wild_sums_eval_samples.json").read_text())), 4)

    def test_wandb_is_missing(self) -> None:
        """Without the package, the error says what to install."""
        program = """
            import sys
            from lm_eval.loggers import TrackioLogger, WandbLogger
            # Hides packages that may be installed.
            sys.modules["wandb"] = sys.modules["trackio"] = None
            for logger, name in ((WandbLogger, "wandb"), (TrackioLogger, "trackio")):
                try:
                    logger({})
                except ImportError as error:
                    assert f"pip install {name}" in str(error), error
                    print(name)
        """
        self.assertEqual(self.run_script(program).split(), ["wandb", "trackio"])

    def test_helpers_of_installed_tasks(self) -> None:
        """`lm_eval.tasks.FOLDER.utils` is that of the installed library."""
        self.write(
            "library/wild_math/utils.py",
            "def is_equiv(left, right):\n    return left.strip() == right.strip()\n",
        )
        self.write("library/wild_math/wild_math.yaml", PLAIN.replace("wild_sums", "wild_math"))
        home = {"LM_EVAL_HOME": str(self.folder / "home")}
        engine.run(
            "tasks", "pull", "mine", "--from", str(self.folder / "library"), env={**os.environ, **home}
        )
        program = """
            from lm_eval.tasks.wild_math.utils import is_equiv
            import lm_eval.tasks
            print(is_equiv("1 ", "1"))
            try:
                import lm_eval.tasks.no_such_folder
            except ModuleNotFoundError as error:
                print(error.name)
        """
        self.assertEqual(self.run_script(program, **home).split(), ["True", "lm_eval.tasks.no_such_folder"])
        self.assertEqual(self.start(program, LM_EVAL_HOME=str(self.folder / "empty")).returncode, 1)


if __name__ == "__main__":
    unittest.main()
