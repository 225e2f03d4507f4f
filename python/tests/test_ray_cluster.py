"""`lm-eval ray run` on a real cluster of several nodes; `ray_chaos.py` has the scenarios."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import unittest

from tests import engine, ray_cluster


def setUpModule() -> None:
    """Without Ray, skip the module and name the command that runs it."""
    if importlib.util.find_spec("ray") is None:
        if os.environ.get("CI") == "true" and not os.environ.get("LM_EVAL_RAY_PYTHON"):
            raise AssertionError("The tests of clusters need Ray: `scripts/test` installs it into `.rayenv`")
        raise unittest.SkipTest("Ray is not installed here; `scripts/test` runs these tests in `.rayenv`")
    engine.set_up()


class ClusterTest(unittest.TestCase):
    """Each test is a process in namespaces of its own, with its own cluster."""

    def check(self, scenario: str) -> str:
        """Run a scenario, which must succeed; return its output."""
        with tempfile.TemporaryDirectory() as folder:
            done = ray_cluster.in_namespace("tests.ray_chaos", scenario, folder)
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:])
        return done.stdout

    def test_workers_survive_kills(self) -> None:
        """Results are those of one process, no answered request is sent again, nothing is left."""
        self.assertRegex(self.check("workers"), "(8|20) kills")

    def test_servers_survive_kills(self) -> None:
        """The same for servers that the run starts."""
        self.assertRegex(self.check("servers"), "(5|8) kills")

    def test_stops_cleanly(self) -> None:
        """Ctrl-C, a killed driver of a local cluster, and replicas that cannot start."""
        self.check("stops")
