"""Runs that are reported to Weights & Biases, Trackio and the hub by the binary."""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

from tests.binary import BinaryTestCase

TOKEN = "hf_stand_in_token_0123456789"

STAND_IN = """
    import json, os, pathlib

    def note(*call):
        with open(os.environ["CALLS"], "a") as file:
            file.write(json.dumps(call) + "\\n")

    class Config(dict):
        def update(self, values):
            note("config", values)

    class Table:
        def __init__(self, columns, data):
            self.columns, self.data = columns, data

    class Artifact:
        def __init__(self, name, type):
            self.name, self.type, self.files = name, type, []

        def add_file(self, path):
            self.files.append(pathlib.Path(path).name)
            json.loads(pathlib.Path(path).read_text().splitlines()[-1] or "null") if path.endswith("l") else None

    class Run:
        config, summary = Config(), Config()

        def log(self, values, step=None):
            if os.environ.get("FAIL") == "log":
                raise RuntimeError("the server is gone, key sk-stand-in-0123456789")
            note("log", {k: [v.columns, len(v.data)] if isinstance(v, Table) else v for k, v in values.items()})

        def define_metric(self, name, step_metric=None):
            note("metric", name, step_metric)

        def log_artifact(self, artifact, name=None, type=None):
            note("artifact", artifact.name, artifact.type, artifact.files)

        def finish(self, exit_code=0):
            note("finish", exit_code)

    def init(**arguments):
        note("init", arguments)
        if os.environ.get("FAIL") == "init":
            raise RuntimeError("no login, key sk-stand-in-0123456789")
        return Run()
"""
"""A package with the part of `wandb` that is used; `FAIL` makes it fail."""


class TrackerTestCase(BinaryTestCase):
    """A run of the built-in tasks, and the calls that a stand-in for a tracker gets."""

    def track(self, *arguments: str, model: str = "ngram", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the binary with packages of the folder."""
        base = ["run", "--model", model, "--tasks", "demo_capitals", "--python", sys.executable]
        packages = {"PYTHONPATH": str(self.folder / "packages"), "CALLS": str(self.folder / "calls.jsonl")}
        return self.run_binary(*base, *arguments, **packages, **environment)

    def calls(self) -> list[list[Any]]:
        """Return the calls of the stand-in so far."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def results(self, folder: str = "out") -> list[Path]:
        """Return the results files of a run."""
        return list((self.folder / folder).rglob("results_*.json"))


class WandbTest(TrackerTestCase):
    """`--wandb_args`."""

    def test_everything_is_logged(self) -> None:
        """Configuration, scores, tables of samples, and files."""
        self.write("packages/wandb.py", STAND_IN)
        words = ["--wandb_args", "project=p,step=3", "--wandb_config_args", "lr=0.5"]
        done = self.track(*words, "--output_path", "out", "--log_samples")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Logged to Weights & Biases", done.stderr)
        calls = self.calls()
        self.assertEqual(calls[0], ["init", {"project": "p"}])
        self.assertEqual(calls[1], ["config", {"lr": 0.5}])
        self.assertEqual(calls[-1], ["finish", 0])
        config = calls[2][1]
        self.assertEqual(config["cli_configs"]["model"], "ngram")
        self.assertIn("demo_capitals", config["task_configs"])
        logged: dict[str, Any] = {}
        for kind, *values in calls:
            if kind == "log":
                logged.update(values[0])
        self.assertEqual(logged["demo_capitals/acc"], 0.3)
        columns, rows = logged["demo_capitals_eval_results"]
        self.assertEqual((columns[:2], rows), (["id", "data"], 40))
        files = [call[1:] for call in calls if call[0] == "artifact"]
        (results,) = self.results()
        (samples,) = results.parent.glob("samples_*.jsonl")
        self.assertEqual(files[0], ["results", "eval_results", [results.name]])
        self.assertEqual(files[1], ["demo_capitals", "samples_by_task", [samples.name]])

    def test_results_need_no_folder(self) -> None:
        """Without `--output_path`, the tracker still gets the results file."""
        self.write("packages/wandb.py", STAND_IN)
        done = self.track("--wandb_args", "project=p")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [call[3] for call in self.calls() if call[0] == "artifact"]
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0][0], r"^results_.*\.json$")
        self.assertFalse(any(self.folder.rglob("results_*.json")))

    def test_a_failed_login_ends_before_the_run(self) -> None:
        """Nothing is evaluated, and the key of the message is masked."""
        self.write("packages/wandb.py", STAND_IN)
        words = ["--wandb_args", "project=p", "--output_path", "out"]
        done = self.track(*words, FAIL="init", WANDB_API_KEY="sk-stand-in-0123456789")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no login", done.stderr)
        self.assertNotIn("sk-stand-in-0123456789", done.stderr + done.stdout)
        self.assertEqual((done.stdout, self.results()), ("", []))

    def test_a_failed_upload_keeps_the_results(self) -> None:
        """The error is printed, the exit status is 1, and thresholds are still checked."""
        self.write("packages/wandb.py", STAND_IN)
        words = ["--wandb_args", "project=p", "--output_path", "out", "--fail_under", "demo_capitals:acc=0.9"]
        done = self.track(*words, FAIL="log", WANDB_API_KEY="sk-stand-in-0123456789")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("could not be reported to wandb: RuntimeError: the server is gone", done.stderr)
        self.assertIn("FAIL: demo_capitals acc,none is 0.3, required >= 0.9", done.stderr)
        self.assertNotIn("sk-stand-in-0123456789", done.stderr + done.stdout)
        self.assertEqual(len(self.results()), 1)
        self.assertIn("|demo_capitals|", done.stdout)
        self.assertEqual(self.calls()[-1], ["finish", 1])

    def test_a_failed_evaluation_closes_the_run(self) -> None:
        """The tracker's run is marked as failed."""
        self.write("packages/wandb.py", STAND_IN)
        done = self.track("--wandb_args", "project=p", "--num_fewshot", "99")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([call[0] for call in self.calls()], ["init", "finish"])
        self.assertEqual(self.calls()[-1], ["finish", 1])

    def test_settings_file(self) -> None:
        """A settings file and `--wandb_config_args` alone."""
        self.write("packages/wandb.py", STAND_IN)
        self.write("run.yaml", "wandb_args: {project: from_file}\nlimit: 3\n")
        done = self.track("--config", "run.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls()[0], ["init", {"project": "from_file"}])
        done = self.track("--wandb_config_args", "a=1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("needs `--wandb_args`", done.stderr)

    def test_real_package_offline(self) -> None:
        """The real package writes a complete offline run."""
        words = ["--wandb_args", "project=p,mode=offline", "--output_path", "out", "--log_samples"]
        done = self.track(*words, WANDB_SILENT="true", WANDB_DIR=str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = self.folder.glob("wandb/offline-run-*")
        (binary,) = run.glob("run-*.wandb")
        self.assertGreater(binary.stat().st_size, 1000)
        (table,) = run.glob("files/media/table/demo_capitals_eval_results*.table.json")
        self.assertEqual(len(json.loads(table.read_text())["data"]), 40)


class TrackioTest(TrackerTestCase):
    """`--trackio_args`."""

    def test_everything_is_logged(self) -> None:
        """Scores, tables of samples and files, in the usual project."""
        module = textwrap.dedent(STAND_IN) + textwrap.dedent("""
            _run = Run()
            log = _run.log
            def log_artifact(path, name, type):
                note("artifact", name, type, [pathlib.Path(path).name])
            def finish():
                note("finish", 0)
            """)
        self.write("packages/trackio.py", module)
        done = self.track("--trackio_args", "name=r", "--output_path", "out", "--log_samples")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = self.calls()
        self.assertEqual(calls[0], ["init", {"project": "lm-eval-harness", "name": "r"}])
        self.assertEqual(calls[-1], ["finish", 0])
        kinds = [call[0] for call in calls]
        self.assertEqual(kinds.count("artifact"), 2)
        self.assertIn("Logged to Trackio: project `lm-eval-harness`", done.stderr)

    def test_missing_package(self) -> None:
        """Exit status 2 before the run, with the command that installs the package."""
        # Hides a package that may be installed.
        self.write("packages/sitecustomize.py", "import sys\nsys.modules['trackio'] = None\n")
        done = self.track("--trackio_args", "project=p", "--output_path", "out")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("The package `trackio` is not installed", done.stderr)
        self.assertIn("pip install trackio", done.stderr)
        self.assertEqual((done.stdout, self.results()), ("", []))


class WatchTest(TrackerTestCase):
    """Steps of `lm-eval watch`."""

    def watch(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Evaluate what is there, with packages of the folder."""
        base = ["watch", "ck", "--tasks", "demo_capitals", "--device", "cpu", "--once", "--settle", "0", "--limit", "4"]
        packages = {"PYTHONPATH": str(self.folder / "packages"), "CALLS": str(self.folder / "calls.jsonl")}
        return self.run_binary(*base, "--python", sys.executable, *arguments, **packages, **environment)

    def write_checkpoint(self, step: int) -> None:
        """Copy a tiny model."""
        model = Path(__file__).parents[2] / "crates/lmeval-candle/tests/fixtures/llama"
        shutil.copytree(model, self.folder / "ck" / f"checkpoint-{step}")

    def test_steps_are_logged_once_to_one_run(self) -> None:
        """A restarted watcher continues the run of the tracker, and reports what is new."""
        self.write("packages/wandb.py", STAND_IN)
        self.write_checkpoint(20)
        self.write_checkpoint(10)
        done = self.watch("--wandb_args", "project=p")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Logged to Weights & Biases", done.stderr)
        first = self.calls()
        init = first[0][1]
        self.assertEqual((init["project"], init["name"], init["resume"], len(init["id"])), ("p", "ck", "allow", 16))
        self.assertIn(["metric", "*", "global_step"], first)
        logged = [call[1] for call in first if call[0] == "log"]
        self.assertEqual([values["global_step"] for values in logged], [10, 20])
        self.assertIn("demo_capitals/acc", logged[0])
        self.assertIn("demo_capitals/acc_stderr", logged[0])
        self.assertEqual([call[0] for call in first].count("finish"), 1)
        self.write_checkpoint(15)
        done = self.watch("--wandb_args", "project=p")
        self.assertEqual(done.returncode, 0, done.stderr)
        later = self.calls()[len(first) :]
        self.assertEqual(later[0][1]["id"], init["id"])
        self.assertEqual([call[1]["global_step"] for call in later if call[0] == "log"], [15])

    def test_a_failed_report_is_made_again(self) -> None:
        """The evaluation counts, a warning names the step, and the next watcher reports it."""
        self.write("packages/wandb.py", STAND_IN)
        self.write_checkpoint(10)
        done = self.watch("--wandb_args", "project=p", FAIL="log", WANDB_API_KEY="sk-stand-in-0123456789")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Step 10 could not be reported to wandb", done.stderr)
        self.assertNotIn("sk-stand-in-0123456789", done.stderr)
        done = self.watch("--wandb_args", "project=p")
        self.assertNotIn("Evaluating", done.stderr)
        self.assertEqual([call[1]["global_step"] for call in self.calls() if call[0] == "log"], [10])

    def test_trackio_gets_the_step(self) -> None:
        """One run in the usual project, whose name stays the same."""
        module = textwrap.dedent(STAND_IN) + textwrap.dedent("""
            def log(values, step=None):
                note("log", values, step)
            def finish():
                note("finish", 0)
            """)
        self.write("packages/trackio.py", module)
        self.write_checkpoint(10)
        done = self.watch("--trackio_args", "project=p")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = self.calls()
        self.assertEqual((calls[0][1]["project"], calls[0][1]["resume"]), ("p", "allow"))
        self.assertRegex(calls[0][1]["name"], "^ck-[0-9a-f]{6}$")
        self.assertEqual([call[2] for call in calls if call[0] == "log"], [10])
        self.assertEqual(calls[-1], ["finish", 0])


class Hub(http.server.ThreadingHTTPServer):
    """The part of the hub's interface that uploads need."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, str | None, Any]] = []
        self.refuse = ""
        self.files = [".gitattributes"]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def committed(self) -> dict[str, bytes]:
        """Return the files of all commits."""
        found = {}
        for _, path, _, body in self.seen:
            if "/commit/" in path:
                for line in body.decode().splitlines():
                    entry = json.loads(line)
                    if entry["key"] == "file":
                        found[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        return found


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Hub

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        hub, path = self.server, self.path
        hub.seen.append((self.command, path, self.headers.get("authorization"), body))
        status, answer = 200, b"{}"
        if hub.refuse and hub.refuse in path:
            status, answer = 403, b'{"error": "Forbidden: not yours"}'
        elif path.startswith("/api/whoami"):
            known = self.headers.get("authorization") == f"Bearer {TOKEN}"
            status, answer = (200, b'{"name": "me", "type": "user"}') if known else (401, b'{"error": "Invalid"}')
        elif path == "/api/repos/create":
            name = json.loads(body)["name"]
            answer = json.dumps({"url": f"{hub.endpoint}/datasets/me/{name}"}).encode()
        elif "/tree/" in path:
            listed = [{"type": "file", "oid": "c" * 40, "size": 1, "path": name} for name in hub.files]
            answer = json.dumps(listed).encode()
        elif "/preupload/" in path:
            modes = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            answer = json.dumps({"files": [{**mode, "shouldIgnore": False} for mode in modes]}).encode()
        elif "/commit/" in path:
            url = f"{hub.endpoint}/datasets/me/x/commit/{'a' * 40}"
            answer = json.dumps({"success": True, "commitOid": "a" * 40, "commitUrl": url}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_HEAD = _answer

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class HubTest(TrackerTestCase):
    """`--hf_hub_log_args`, with the real package and a stand-in for the hub."""

    def setUp(self) -> None:
        """Start the stand-in."""
        super().setUp()
        self.hub = Hub()
        threading.Thread(target=self.hub.serve_forever, daemon=True).start()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)

    def push(self, arguments: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run with `--hf_hub_log_args`."""
        words = ["--hf_hub_log_args", arguments, "--output_path", "out", *more]
        settings = {"HF_ENDPOINT": self.hub.endpoint, "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0"}
        return self.track(*words, **{**settings, **environment})

    def test_results_and_samples_are_pushed(self) -> None:
        """To the named repositories, with a card."""
        arguments = (
            "push_results_to_hub=True,push_samples_to_hub=True,hub_results_org=lab,details_repo_name=details,"
            "results_repo_name=scores,gated=True,leaderboard_url=http://board,point_of_contact=me@lab"
        )
        done = self.push(arguments, "--log_samples")
        self.assertEqual(done.returncode, 0, done.stderr)
        created = [json.loads(body) for _, path, _, body in self.hub.seen if path == "/api/repos/create"]
        self.assertEqual([one["name"] for one in created], ["scores-private", "details-private"])
        self.assertEqual({one["organization"] for one in created}, {"lab"})
        gated = [path for _, path, _, body in self.hub.seen if body == b'{"gated":"auto"}']
        self.assertEqual(gated, ["/api/datasets/lab/details-private/settings"])
        files = self.hub.committed()
        (results,) = self.results()
        (samples,) = results.parent.glob("samples_*.jsonl")
        self.assertEqual(files[f"ngram/{results.name}"], results.read_bytes())
        self.assertEqual(files[f"ngram/{samples.name}"], samples.read_bytes())
        card = files["README.md"].decode()
        self.assertIn('data_files: "ngram/samples_demo_capitals_*.jsonl"', card)
        self.assertIn("http://board", card)
        self.assertIn("me@lab", card)
        self.assertIn(f"{self.hub.endpoint}/datasets/lab/scores-private", done.stderr)
        self.assertNotIn(TOKEN, done.stderr + done.stdout)

    def test_public_results_in_the_own_account(self) -> None:
        """The defaults of the names; a token of the arguments is used without `HF_TOKEN`."""
        done = self.push(f"push_results_to_hub=True,public_repo=True,token={TOKEN}", HF_TOKEN="")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(any("/api/datasets/me/lm-eval-results/commit/" in path for _, path, *_ in self.hub.seen))
        self.assertNotIn(TOKEN, done.stderr + done.stdout)
        for path in (self.folder / "out").rglob("*"):
            self.assertFalse(path.is_file() and TOKEN.encode() in path.read_bytes(), path)

    def test_tokens_are_checked_before_the_run(self) -> None:
        """No token, a wrong one, and a hub that cannot be reached."""
        cache = str(self.folder / "hf")
        for environment, message in (
            ({"HF_TOKEN": "", "HF_HOME": cache}, "needs a token"),
            ({"HF_TOKEN": "hf_wrong_0123456789"}, "Invalid user token"),
            ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "refused"),
        ):
            with self.subTest(message):
                done = self.push("push_results_to_hub=True", **environment)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertNotIn("hf_wrong_0123456789", done.stderr)
                self.assertEqual((done.stdout, self.results()), ("", []))

    def test_a_refused_upload_keeps_the_results(self) -> None:
        """The exit status is 1."""
        self.hub.refuse = "/commit/"
        done = self.push("push_results_to_hub=True")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("could not be reported to hub", done.stderr)
        self.assertIn("403", done.stderr)
        self.assertEqual(len(self.results()), 1)

    def test_samples_need_records(self) -> None:
        """`push_samples_to_hub` without `--log_samples`, and arguments that push nothing."""
        done = self.push("push_samples_to_hub=True")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--log_samples", done.stderr)
        done = self.push("hub_results_org=lab")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pushes nothing", done.stderr)
        self.assertEqual(self.hub.seen, [])

    def test_evaluation_tracker_pushes(self) -> None:
        """`EvaluationTracker` pushes what it saves."""
        script = """
            import sys
            from lm_eval.loggers import EvaluationTracker
            tracker = EvaluationTracker(output_path="api", push_results_to_hub=True, push_samples_to_hub=True)
            tracker.general_config_tracker.log_experiment_args("hf", "pretrained=a/b", None, None, False)
            tracker.save_results_aggregated({"results": {"t": {"acc,none": 1.0}}})
            sample = {"doc_id": 0, "arguments": [("q",)], "resps": [["a"]], "filtered_resps": ["a"], "target": "a"}
            tracker.save_results_samples("t", [sample])
            tracker.recreate_metadata_card()
            """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LM_EVAL")}
        package = str(Path(__file__).resolve().parents[1])
        settings = {"HF_ENDPOINT": self.hub.endpoint, "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0", "HOME": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            cwd=self.folder,
            env={**kept, **settings, "PYTHONPATH": package},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        names = [Path(path).name.rpartition("_")[0] for path in self.hub.committed() if path.startswith("a__b/")]
        self.assertEqual(names, ["results", "samples_t"])
