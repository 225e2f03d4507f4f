"""The replicas of a run: where they are, whether they are ready, and how they come back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from lm_eval.ray import _replica

_PERIOD = 0.5
"""Seconds between two reports of a replica."""

_SILENCE = 120.0
"""A replica that has reported before and says nothing for this many seconds is replaced."""

_REMIND = (20.0, 300.0)
"""Seconds until a replica that cannot be placed is mentioned, and between later reminders."""

_END_LIMIT = 15.0

# Nodes need not have this package, or may have another release of it.
cloudpickle.register_pickle_by_value(_replica)


class Slot:
    """The place of one replica: a placement group with one actor, both replaced when the node or the actor is lost."""

    def __init__(self, name: str, resources: dict[str, float], order: dict[str, Any], note: Callable[[str], None]):
        self.name = name
        self.state = "waiting"
        self.url: str | None = None
        self.model: str | None = None
        self._resources = resources
        self._order = order
        self._note = note
        self._group: Any = None
        self._actor: Any = None
        self._report: Any = None
        self._next = 0.0
        self._asked = 0.0
        self._has_reported = False
        self._losses = 0
        self._reminder = 0.0

    def tick(self) -> None:
        """Start the replica, or look at its last report."""
        now = time.monotonic()
        if self.state == "failed" or now < self._next:
            return
        if self._actor is None:
            self._start(now)
            return
        if self._report is None:
            self._report, self._asked = self._actor.report.remote(), now
        if not ray.wait([self._report], timeout=0)[0]:
            self._wait(now)
            return
        try:
            report = ray.get(self._report)
        except RayError as error:
            self._lose(_reason(error))
            return
        self._report, self._next = None, now + _PERIOD
        self._has_reported, self._losses = True, 0
        self.state, self.url = report["state"], report["url"]
        self.model = report["model"] or self.model
        for event in report["events"]:
            self._note(f"warning: {self.name} on {report['node']} {event}")

    def _start(self, now: float) -> None:
        self._group = placement_group([self._resources], strategy="STRICT_PACK")
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=0)
        made = ray.remote(_replica.Replica).options(
            num_cpus=self._resources.get("CPU", 0),
            num_gpus=self._resources.get("GPU", 0),
            scheduling_strategy=strategy,
            max_restarts=0,
        )
        self._actor = made.remote(self._order)
        self._report, self._asked, self._has_reported = self._actor.report.remote(), now, False
        self._reminder = now + _REMIND[0]
        self.state = "waiting"

    def _wait(self, now: float) -> None:
        """Notice a replica that does not answer, and remind of one that cannot be placed."""
        if self._has_reported:
            if now - self._asked >= _SILENCE:
                self._lose(f"it said nothing for {_SILENCE:g} s")
        elif now >= self._reminder:
            self._reminder = now + _REMIND[1]
            state = placement_group_table(self._group).get("state")
            if state != "CREATED":
                needs = ", ".join(f"{amount:g} {name}" for name, amount in self._resources.items())
                self._note(f"{self.name} waits for a node with {needs}")

    def _lose(self, reason: str) -> None:
        self._note(f"warning: {self.name} was lost: {reason}; it is placed again")
        self.release()
        self.state = "waiting"
        self._next = time.monotonic() + min(0.5 * 2**self._losses, 30.0)
        self._losses += 1

    def ask_to_stop(self) -> Any:
        """Ask the replica to end its process; return a reference, or `None` if it has not started."""
        if self._actor is None or not self._has_reported:
            return None
        return self._actor.stop.remote()

    def release(self) -> None:
        """Remove the actor and its placement group. A cluster that is gone needs no cleanup."""
        with contextlib.suppress(Exception):
            if self._actor is not None:
                ray.kill(self._actor)
        with contextlib.suppress(Exception):
            if self._group is not None:
                remove_placement_group(self._group)
        self._actor = self._group = self._report = self.url = None


class Fleet:
    """All replicas of a run."""

    def __init__(
        self, count: int, resources: dict[str, float], order: dict[str, Any], note: Callable[[str], None]
    ) -> None:
        self.slots = [Slot(f"Replica {number + 1}", resources, order, note) for number in range(count)]

    def tick(self) -> None:
        """Look after all replicas once."""
        for slot in self.slots:
            slot.tick()

    def ready(self) -> int:
        """Return the number of replicas whose process runs; of servers, those that answer."""
        return sum(slot.state in ("ready", "done") for slot in self.slots)

    def have_failed(self) -> bool:
        """Whether every replica was given up."""
        return all(slot.state == "failed" for slot in self.slots)

    def urls(self) -> list[str]:
        """Return the addresses of servers that are ready."""
        return [slot.url for slot in self.slots if slot.url]

    def model(self) -> str | None:
        """Return the name under which the servers offer their model."""
        return next((slot.model for slot in self.slots if slot.model), None)

    def close(self) -> None:
        """Stop all replicas and give their resources back."""
        with contextlib.suppress(Exception):
            asked = [ref for slot in self.slots if (ref := slot.ask_to_stop()) is not None]
            if asked:
                ray.wait(asked, num_returns=len(asked), timeout=_END_LIMIT)
        for slot in self.slots:
            slot.release()


def _reason(error: RayError) -> str:
    """Return the first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
