"""The parts of `lm_eval.ray` that need no cluster: guards, replicas, and the arguments of the engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from lm_eval.ray import _driver, _replica

GUARD = _driver._source("_guard")


def order(command: str, **more: Any) -> dict[str, Any]:
    """Return the order of a server that nobody asks for its health."""
    order = {"kind": "server", "guard": GUARD, "folder": "/", "environment": {}, "command": command}
    return {**order, "health": None, "limit": 60.0, **more}


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@unittest.skipIf(sys.platform != "linux", "processes are found in /proc")
class CommandTest(unittest.TestCase):
    """A command ends with its guard and its owner, together with all it has started."""

    def setUp(self) -> None:
        """Prepare a command that notes the processes of a tree, one of them in another session."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "processes")
        self.tree = f"echo $$ >> {self.file}; setsid sh -c 'echo $$ >> {self.file}; exec sleep 1000' & sleep 1000"

    def processes(self) -> list[int]:
        """Wait for the tree; return its processes."""
        wait_until(lambda: self.file.exists() and len(self.file.read_text().split()) == 2)
        return [int(word) for word in self.file.read_text().split()]

    def assert_gone(self, processes: list[int]) -> None:
        """Check that processes end."""
        wait_until(lambda: not any(map(is_running, processes)))

    def start(self, script: str) -> _replica.Command:
        """Start a shell script."""
        command = _replica.Command(order(""), ["sh", "-c", script], ())
        self.addCleanup(command.close)
        return command

    def test_returns_the_status_and_the_output(self) -> None:
        """Of a command that ends, fails, is killed, or does not exist."""
        for script, status in [("echo yes", 0), ("echo yes; exit 3", 3), ("echo yes; kill -9 $$", 137)]:
            command = self.start(script)
            self.assertEqual(command.wait(), status)
            self.assertEqual(command.output.read(), "yes\n")
        command = _replica.Command(order(""), ["/no/such/command"], ())
        self.addCleanup(command.close)
        self.assertEqual(command.wait(), 127)
        self.assertEqual(command.output.read(), "Cannot start `/no/such/command`: No such file or directory\n")

    def test_leaves_nothing_when_it_ends(self) -> None:
        """Not even processes that have left its session."""
        command = self.start(self.tree)
        first, *others = self.processes()
        os.kill(first, signal.SIGTERM)
        self.assertEqual(command.wait(), 143)
        self.assert_gone(others)

    def test_leaves_nothing_when_it_is_killed(self) -> None:
        """By its owner."""
        command = self.start(self.tree)
        processes = self.processes()
        command.kill()
        self.assertEqual(command.wait(), 137)
        self.assert_gone(processes)

    def test_leaves_nothing_when_the_guard_is_killed(self) -> None:
        """The owner finds the processes by their mark."""
        command = self.start(self.tree)
        processes = self.processes()
        guard = int(Path(f"/proc/{processes[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        self.assertEqual(command.wait(), 137)
        self.assert_gone(processes)

    def test_leaves_nothing_when_the_owner_is_killed(self) -> None:
        """The guard survives its owner, and notices."""
        script = (
            "import json, sys\n"
            "from lm_eval.ray import _replica\n"
            "_replica.Command(json.loads(sys.argv[1]), ['sh', '-c', sys.argv[2]], ()).wait()\n"
        )
        words = [sys.executable, "-c", script, json.dumps(order("")), self.tree]
        owner = subprocess.Popen(words, cwd=Path(__file__).parents[1])
        processes = self.processes()
        owner.kill()
        owner.wait()
        self.assert_gone(processes)

    def test_asks_before_it_kills(self) -> None:
        """A command may finish its work."""
        command = self.start("trap 'echo bye; exit 7' TERM; echo here; while :; do sleep 0.01; done")
        self.assertEqual(command.output.readline(), "here\n")
        command.stop()
        self.assertEqual(command.wait(), 7)
        self.assertEqual(command.output.read(), "bye\n")


@unittest.skipIf(sys.platform != "linux", "processes are found in /proc")
class ReplicaTest(unittest.TestCase):
    """A replica starts its command again, and gives up in the end."""

    def setUp(self) -> None:
        """Do not wait between attempts, and do not ask Ray for the address."""
        for name, value in [("_SHORTEST", 0.01), ("_LONGEST", 0.01), ("node_address", lambda: "127.0.0.1")]:
            patch = mock.patch.object(_replica, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def replica(self, made: dict[str, Any]) -> _replica.Replica:
        """Start a replica."""
        replica = _replica.Replica(made)
        self.addCleanup(replica.stop)
        return replica

    def test_gives_up_a_command_that_fails(self) -> None:
        """After five attempts, with its output each time."""
        replica = self.replica(order("sh -c 'echo no memory; exit 3'"))
        wait_until(lambda: replica._state == "failed")
        events = replica.report()["events"]
        self.assertEqual(len(events), 5)
        self.assertEqual(events[0], "failed with status 3; it is started again:\n    no memory")
        self.assertEqual(events[4], "failed with status 3 5 times in a row and is given up:\n    no memory")

    def test_serves_again_after_a_kill(self) -> None:
        """The address of a server is known while it is ready, with the name of its model."""
        with tempfile.TemporaryDirectory() as folder:
            replica = self.replica(order(f"{sys.executable} {Path(__file__).parent / 'ray_server.py'} {folder}/log"))
            wait_until(lambda: replica._url)
            report = replica.report()
            self.assertEqual((report["state"], report["model"]), ("ready", "tiny"))
            self.assertIsNotNone(_replica.fetch(f"{report['url']}/v1/models"))
            assert replica._command is not None
            replica._command.kill()
            wait_until(lambda: replica._url not in (None, report["url"]))
            self.assertEqual(replica.report()["events"], ["was killed by signal 9; it is started again"])
            url = replica._url
            replica.stop()
            self.assertIsNone(_replica.fetch(f"{url}/v1/models"))

    def test_starts_a_server_that_is_never_ready_again(self) -> None:
        """This is a failure like any other."""
        replica = self.replica(order("sh -c 'sleep 1000'", limit=0.0))
        wait_until(lambda: replica._events)
        self.assertIn("The server did not answer within 0 s", replica.report()["events"][0])

    def test_fills_in_port_and_host(self) -> None:
        """Wherever the command has them; a port is appended if it has none."""
        replica = self.replica(order("sh -c 'sleep 1000'"))
        self.assertEqual(replica._server(5), ["sh", "-c", "sleep 1000", "--port", "5"])
        replica._order = order("serve 'a b' --at={host}:{port}")
        self.assertEqual(replica._server(5), ["serve", "a b", "--at=127.0.0.1:5"])

    def test_names_a_missing_binary(self) -> None:
        """And the flag that helps."""
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}), self.assertRaises(FileNotFoundError) as caught:
            _replica.find_binary("/no/lm-eval")
        self.assertIn("--worker-command", str(caught.exception))


class DriverTest(unittest.TestCase):
    """The arguments of the engine, and the pool file."""

    def driver(self, **settings: Any) -> _driver.Driver:
        """Return a driver of servers."""
        run = {"model": settings.pop("model", "local-completions"), "model_args": settings.pop("model_args", {})}
        given = {"serve": "x", "endpoint": None, "address": None, "ready_timeout": 1800.0, "binary": "lm-eval"}
        driver = _driver.Driver({**given, **settings, "run": run})
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        driver._pool = Path(folder.name, "pool.json")
        return driver

    def arguments(self, served: str | None, **settings: Any) -> dict[str, Any]:
        """Return the model arguments of the engine without the address."""
        arguments: dict[str, Any] = self.driver(**settings)._of_servers(served)["model_args"]
        self.assertTrue(arguments.pop("base_url").startswith("@/"))
        return arguments

    def test_names_the_model_of_the_servers(self) -> None:
        """Unless the user does."""
        self.assertEqual(self.arguments("m"), {"model": "m", "patience": 1800.0})
        given = {"model": "x", "patience": 4}
        self.assertEqual(self.arguments("m", model_args=given), given)
        self.assertEqual(self.arguments(None), {"patience": 1800.0})

    def test_writes_the_settings_of_the_engine(self) -> None:
        """Those of the command, with the address that workers connect to."""
        driver = self.driver(serve=None, model="hf", model_args={"pretrained": "x"})
        driver._listen = "a:1"
        with tempfile.TemporaryFile() as token, mock.patch.object(subprocess, "Popen") as started:
            driver._start_engine(None, token)
            workers = {"listen": "a:1", "token_file": f"/dev/fd/{token.fileno()}"}
        words = started.call_args[0][0]
        self.assertEqual(words[-4:-1], ["lm-eval", "ray", "engine"])
        expected = {"model": "hf", "model_args": {"pretrained": "x"}, "workers": workers}
        self.assertEqual(json.loads(Path(words[-1]).read_text()), expected)

    def test_publishes_the_servers_that_are_ready(self) -> None:
        """With the path of the model's interface."""
        driver = self.driver(model="local-chat-completions")
        for addresses in (["http://a:1", "http://b:2"], []):
            driver._publish(addresses)
            servers = json.loads(driver._pool.read_text())["servers"]
            self.assertEqual([server["url"] for server in servers], [f"{url}/v1/chat/completions" for url in addresses])
        self.assertEqual([path.name for path in driver._pool.parent.iterdir()], ["pool.json"])

    def test_refuses_addresses_for_clients(self) -> None:
        """The hint names `ray job submit`."""
        with self.assertRaises(_driver.DriverError) as caught:
            self.driver(address="ray://head:10001")._connect()
        self.assertIn("ray job submit", caught.exception.hints[0])


if __name__ == "__main__":
    unittest.main()
