"""Kills workers, servers, nodes and drivers of `lm-eval ray run` at random moments: `python -m tests.ray_chaos SCENARIO FOLDER`."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import engine
from tests.ray_cluster import (
    FIXTURE,
    Cluster,
    Work,
    kill,
    own_processes,
    processes,
    wait_until,
)

TESTS = Path(__file__).resolve().parent
MODEL = ["--model", "hf", "--model_args", f"pretrained={FIXTURE},device=cpu,max_length=600"]
SEED = int(os.environ.get("LM_EVAL_FUZZ_SEED", "22"))
PACE = 0.05
"""Seconds per answer while something is killed."""

VICTIMS: dict[str, Callable[[list[str]], bool]] = {
    "worker": lambda words: words[0].endswith("lm-eval") and words[1] == "worker",
    "server": lambda words: any("ray_server.py" in word for word in words[:2]),
    "guard": lambda words: words[1:3] == ["-I", "-c"] and "_SUBREAPER" in words[3],
    "actor": lambda words: words[0].startswith("ray::Replica"),
}
"""Processes that are killed, by their command lines."""


def plan(**kinds: int) -> list[str]:
    """Return what to kill: a third of each kind, rounded up, or all of it with `LM_EVAL_RAY_KILLS=all`, which a weekly job sets."""
    share = 1 if os.environ.get("LM_EVAL_RAY_KILLS") == "all" else 3
    return [kind for kind, count in kinds.items() for _ in range(math.ceil(count / share))]


class Chaos:
    """One evaluation that is killed again and again, and resumed with the same command."""

    def __init__(self, work: Work, cluster: Cluster, command: list[str]) -> None:
        self.work = work
        self.cluster = cluster
        self.command = command
        self.random = random.Random(SEED)
        self.saved: list[tuple[float, set[Any]]] = []
        self.kills: list[str] = []
        self.driver = self.begin()

    def begin(self) -> subprocess.Popen[bytes]:
        """Start the driver, after noting which answers are saved."""
        self.saved.append((time.monotonic(), set(self.work.journal("out"))))
        environment = {**os.environ, "RAY_ADDRESS": self.cluster.address}
        return self.work.start("ray", "run", *self.command, *self.work.words("out"), env=environment)

    def run(self, plan: list[str], expected: int) -> None:
        """Kill everything in a plan, in random order at random moments, and let the run finish."""
        self.random.shuffle(plan)
        for number, kind in enumerate(plan, 1):
            before = self.work.answered()
            # However slow the machine is, requests are left for everything that is still to be killed.
            self.work.set_pace(PACE, max(before + 1, expected * number // (len(plan) + 1)))
            wait_until("answers arrive", lambda: self.revive() or self.work.answered() > before)  # noqa: B023
            end = time.monotonic() + self.random.uniform(0.0, 0.6)
            while time.monotonic() < end:
                time.sleep(0.02)
                self.revive()
            self.kill(kind)
            self.revive()
        self.work.set_pace(0.0)
        while self.driver.wait() != 0:
            self.revive()
        print(f"{len(self.kills)} kills: {', '.join(self.kills)}", flush=True)

    def kill(self, kind: str) -> None:
        """Kill something of a kind."""
        if kind == "driver":
            self.driver.kill()
            self.driver.wait()
        elif kind == "node":
            self.cluster.kill_node(self.random)
        else:
            victims: list[int] = []
            while not victims or not kill(self.random.choice(victims)):
                self.revive()
                victims = [process for process, words in processes() if VICTIMS[kind](words)]
        self.kills.append(kind)

    def revive(self) -> None:
        """Start the driver again if it was killed, or lost the node it was attached to."""
        status = self.driver.poll()
        if status is not None:
            assert status != 0, "the run ended before everything was killed"
            # Nothing of the old run may answer the new one.
            wait_until("the old run ends", lambda: not own_processes(), 30)
            self.driver = self.begin()

    def check(self, expected: int, name: Any) -> None:
        """Check that no request was sent again after its answer had arrived or was saved."""
        events = list(self.work.events())
        asked = [(event["time"], name(key)) for event in events if event["what"] == "asked" for key in event["keys"]]
        arrived: dict[Any, float] = {}
        for event in events:
            if event["what"] == "answered":
                for key in event["keys"]:
                    arrived.setdefault(name(key), event["time"])
        starts = [moment for moment, _ in self.saved[1:]]
        for moment, key in asked:
            # An answer that arrived at a run which was killed may not have been saved.
            first = max((start for start in starts if start <= moment), default=0.0)
            assert not first <= arrived.get(key, moment) < moment, f"{key} was asked after its answer"
            for start, saved in self.saved:
                assert moment < start or key not in saved, f"{key} was asked although its answer was saved"
        assert len({key for _, key in asked}) == expected, "requests are missing"
        journal = self.work.journal("out")
        assert len(journal) == len(set(journal)) == expected, len(journal)
        print(f"{expected} requests, sent {len(asked)} times, {len(self.saved)} drivers", flush=True)


def counted(work: Work) -> list[str]:
    """Return the arguments for workers with a real checkpoint, whose requests are counted."""
    command = f"{sys.executable} {TESTS / 'ray_count.py'} {work.log} {engine.binary_path()} worker"
    return ["--worker-command", command, *MODEL]


def workers(folder: Path) -> None:
    """Workers with a real checkpoint."""
    work = Work(folder, "options,draws")
    alone = work.start("run", *MODEL, *work.words("alone"), "--quiet")
    cluster = Cluster(3)
    assert alone.wait() == 0
    expected = len(work.journal("alone"))
    chaos = Chaos(work, cluster, ["--replicas", "3", *counted(work)])
    chaos.run(plan(worker=8, guard=2, actor=3, node=3, driver=4), expected)
    finish(chaos, expected, tuple)


def servers(folder: Path) -> None:
    """Servers that the run starts itself."""
    work = Work(folder, "plain")
    server = f"{sys.executable} {TESTS / 'ray_server.py'} {work.log}"
    port = 31_999
    alone = subprocess.Popen([*server.split(), "--port", str(port)])
    cluster = Cluster(3)
    url = f"model=tiny,tokenizer_backend=none,base_url=http://127.0.0.1:{port}/v1/completions"
    model = ["--model", "local-completions", "--model_args", url]
    assert work.start("run", *model, *work.words("alone"), "--quiet").wait() == 0
    for process in own_processes():
        kill(process)
    alone.wait()
    work.log.unlink()
    command = ["--replicas", "3", "--serve", server, "--model_args", "num_concurrent=6,tokenizer_backend=none"]
    expected = len(work.journal("alone"))
    chaos = Chaos(work, cluster, command)
    chaos.run(plan(server=3, guard=1, actor=1, node=1, driver=2), expected)
    finish(chaos, expected, lambda prompt: ("plain", int(prompt.split()[1]), 0, 0))


def stops(folder: Path) -> None:
    """Runs that are stopped, replicas that cannot start, and a cluster that belongs to the run."""
    work = Work(folder, "options")
    work.set_pace(PACE)
    cluster = Cluster(1)
    command = ["ray", "run", *counted(work), *work.words("out")]
    there = {**os.environ, "RAY_ADDRESS": cluster.address}
    for number in (signal.SIGINT, signal.SIGTERM):
        before = work.answered()
        # One of two replicas has no room, and waits while the other works.
        driver = work.start(*command, "--replicas", "2", env=there)
        wait_until("answers arrive", lambda: work.answered() > before)  # noqa: B023
        driver.send_signal(number)
        assert driver.wait() == 130, driver.returncode
        wait_until("the run leaves nothing", lambda: not own_processes(), 10)
        cluster.check_released()
    broken = ["--serve", "sh -c 'echo no such model; exit 3'", *work.words("out")]
    driver = work.start("ray", "run", *broken, env=there, stderr=subprocess.PIPE)
    _, text = driver.communicate()
    assert driver.returncode == 1, text
    assert text.count(b"no such model") == 5, text
    assert b"No replica is left" in text, text
    cluster.check_released()
    cluster.close()
    before = work.answered()
    # Ray's own agents wait this long for a cluster that is gone; by default a minute.
    quick = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
    driver = work.start(*command, "--address", "local", env=quick)
    wait_until("answers arrive", lambda: work.answered() > before)
    driver.kill()
    driver.wait()
    wait_until("the cluster ends with the driver", lambda: not processes(), 30)


def finish(chaos: Chaos, expected: int, name: Any) -> None:
    """Check the results, the counts, and that everything is gone."""
    work = chaos.work
    wait_until("the run leaves nothing", lambda: not own_processes(), 10)
    chaos.cluster.check_released()
    assert work.results("out") == work.results("alone")
    chaos.check(expected, name)
    chaos.cluster.close()


if __name__ == "__main__":
    {"workers": workers, "servers": servers, "stops": stops}[sys.argv[1]](Path(sys.argv[2]))
