"""A Ray cluster of several nodes on this machine, for tests that kill parts of it.

Ray binds to the address of the machine, so the tests run in a network namespace with loopback alone. It is a namespace of
processes as well: when its first process ends, all others are gone.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests import engine, ray_count

FIXTURE = engine.REPOSITORY / "crates/lmeval-candle/tests/fixtures/llama"
PATIENCE = 90.0
"""Seconds after which something hangs."""

_ENTER = 'ip link set lo up 2>/dev/null || ifconfig lo up; exec "$@"'
_QUICK = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
"""Makes the cluster notice a dead node after two seconds."""


def in_namespace(module: str, scenario: str, folder: str) -> subprocess.CompletedProcess[str]:
    """Run a scenario of a module of the tests in namespaces of its own, with a folder that is also its home."""
    who = [] if os.geteuid() == 0 else ["--map-root-user"]
    namespaces = [*who, "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    environment = {**os.environ, "PYTHONPATH": str(engine.REPOSITORY / "python"), "HOME": folder}
    # The interpreter that the binary finds is this one.
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "VIRTUAL_ENV": sys.prefix}
    environment.pop("RAY_ADDRESS", None)
    return subprocess.run(
        ["unshare", *namespaces, "bash", "-c", _ENTER, "bash", sys.executable, "-m", module, scenario, folder],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
        cwd=engine.REPOSITORY / "python",
    )


def wait_until(what: str, condition: Callable[[], Any], limit: float = PATIENCE) -> None:
    """Wait for a condition."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            listed = "\n".join(f"{process} {' '.join(words)[:150]}" for process, words in processes())
            raise AssertionError(f"{what}: not within {limit:g} s; processes:\n{listed}")
        time.sleep(0.02)


def processes() -> list[tuple[int, list[str]]]:
    """Return the other processes of the namespace with their command lines, without zombies."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")
                if words != [""]:
                    found.append((int(name), words))
    return found


def own_processes() -> list[int]:
    """Return the processes of the run, without those of the cluster."""
    marks = ("ray_count", "ray_server", "ray::Replica", "_SUBREAPER", "sleep")

    def is_own(word: str) -> bool:
        # The repository may be in a folder named `lm-eval`, and Ray is installed below it.
        return word.rsplit("/", 1)[-1] == "lm-eval" or any(mark in word for mark in marks)

    return [process for process, words in processes() if any(map(is_own, words[:6]))]


def kill(process: int) -> bool:
    """Kill a process; return whether it existed."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Cluster:
    """A head node without CPUs and some nodes with one each."""

    def __init__(self, nodes: int) -> None:
        from ray.cluster_utils import Cluster as Nodes

        self._cluster = Nodes(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "_system_config": _QUICK},
        )
        self.address = self._cluster.address
        self._nodes = [self._add() for _ in range(nodes)]

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1, wait=False)

    def kill_node(self, chosen: random.Random) -> None:
        """Kill the raylet of a node, and add another node."""
        node = self._nodes.pop(chosen.randrange(len(self._nodes)))
        raylet = node.all_processes["raylet"][0].process
        raylet.kill()
        raylet.wait()
        self._nodes.append(self._add())

    def check_released(self) -> None:
        """Check that no placement group and no CPU is in use."""
        script = (
            "import ray, sys, time\n"
            "ray.init(address=sys.argv[1], logging_level='ERROR', log_to_driver=False)\n"
            "for _ in range(100):\n"
            "    states = {group['state'] for group in ray.util.placement_group_table().values()}\n"
            "    used = ray.cluster_resources().get('CPU', 0) - ray.available_resources().get('CPU', 0)\n"
            "    if states <= {'REMOVED'} and not used: sys.exit(0)\n"
            "    time.sleep(0.1)\n"
            "sys.exit(f'{states} {used}')\n"
        )
        subprocess.run([sys.executable, "-c", script, self.address], check=True)

    def close(self) -> None:
        """Stop the cluster, and check that every process is gone."""
        self._cluster.shutdown()
        wait_until("all processes end", lambda: not processes(), 30)


class Work:
    """A folder with tasks, and runs of them."""

    DOCUMENTS = 150
    DATA = "dataset_path: json\ndataset_kwargs: {data_files: {test: tasks/numbers.jsonl}}\ntest_split: test\n"
    KINDS = {
        "options": "output_type: multiple_choice\nfewshot_split: test\nnum_fewshot: 2\ndoc_to_choice: '{{o}}'\n"
        "doc_to_target: '{{a}}'\n",
        "draws": "output_type: generate_until\ndoc_to_target: '{{a}}'\nrepeats: 2\n"
        "generation_kwargs: {until: ['a'], max_gen_toks: 8, temperature: 1.0, do_sample: true}\n",
        "plain": "output_type: generate_until\ndoc_to_target: '{{a}}'\n"
        "generation_kwargs: {until: [], max_gen_toks: 8}\n",
    }

    def __init__(self, folder: Path, tasks: str) -> None:
        self.folder = folder
        self.tasks = tasks
        self.log = folder / "log"
        (folder / "tasks").mkdir()
        rows = [{"q": f"Is {n} even?", "o": ["yes", f"no {n}"], "a": n % 2} for n in range(self.DOCUMENTS)]
        (folder / "tasks/numbers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for name, more in self.KINDS.items():
            (folder / f"tasks/{name}.yaml").write_text(f"task: {name}\n{self.DATA}doc_to_text: '{{{{q}}}}'\n{more}")

    def words(self, out: str) -> list[str]:
        """Return the arguments that all runs have."""
        words = f"--tasks {self.tasks} --include_path tasks --library none --output_path {out} --log_samples"
        return words.split()

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start the binary."""
        return subprocess.Popen([engine.binary_path(), *words], cwd=self.folder, **options)

    def set_pace(self, seconds: float, allowed: float = math.inf) -> None:
        """Set the time that an answer takes, and how many answers may be given."""
        new = self.folder / "pace.new"
        new.write_text(f"{seconds} {allowed}")
        new.replace(f"{self.log}.pace")

    def events(self) -> Iterator[dict[str, Any]]:
        """Read the counted requests and answers."""
        if self.log.exists():
            for line in self.log.read_bytes().splitlines():
                yield json.loads(line)

    def answered(self) -> int:
        """Return the number of answers so far."""
        return ray_count.answered(str(self.log))

    def journal(self, out: str) -> list[tuple[Any, ...]]:
        """Return the saved answers by task, document, index and repeat."""
        if not list(self.folder.glob(f"{out}/*/answers.journal")):
            return []
        command = [engine.binary_path(), "journal", "export", out]
        text = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout
        rows = [json.loads(line) for line in text.splitlines()]
        return [tuple(row[name] for name in ("task", "doc_id", "idx", "repeat")) for row in rows]

    def results(self, out: str) -> Any:
        """Return scores, and answers by task and document."""
        found: dict[str, Any] = {}
        newest = max(self.folder.glob(f"{out}/*/results_*.json"))
        found["scores"] = json.loads(newest.read_text())["results"]
        for task in self.tasks.split(","):
            newest = max(self.folder.glob(f"{out}/*/samples_{task}_*.jsonl"))
            samples = [json.loads(line) for line in newest.read_text().splitlines()]
            found[task] = sorted((sample["doc_id"], sample["resps"], sample["target"]) for sample in samples)
        return found
