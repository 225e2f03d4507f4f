"""Models distributed over several processes, as launchers such as `accelerate launch` start them.

The first process runs the evaluation. It splits the requests of each call among all processes and gathers their
answers; the other processes only answer their share.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from lm_eval.models import _table

__all__ = ["Finished", "Group", "is_shared", "size_of"]


def is_shared(name: str | None) -> bool:
    """Whether each process of a launcher makes the model with this name, and the first one evaluates it with all of them."""
    return is_launched() and name in _table.OWN["huggingface:HFLM"]


def is_launched() -> bool:
    """Whether a launcher has started several processes."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1")


class Finished(BaseException):
    """Tells a process that it has answered its share of the requests."""


def size_of(lm: Any) -> int:
    """Return the number of processes that share a model's requests."""
    return int(getattr(lm, "world_size", 1) or 1)


class Group:
    """The processes of a model."""

    def __init__(self, lm: Any) -> None:
        self._lm = lm
        self.rank = int(lm.rank)
        self.size = size_of(lm)
        self._gather = _gathering(lm)

    def distribute(self, method: str, call: Callable[[list[Any]], Any], requests: list[Any]) -> list[Any]:
        """Return all processes' answers to the requests. Called in the first process."""
        # Every process makes the same number of calls, since models may synchronise in them.
        longest = -(-len(requests) // self.size)
        shares = [requests[rank :: self.size] for rank in range(self.size)]
        padded = [share + [requests[-1]] * (longest - len(share)) for share in shares]
        self._broadcast((method, padded))
        parts = self._gather(_attempt(call, padded[0]), 0)
        answers: list[Any] = [None] * len(requests)
        for rank, (part, error) in enumerate(parts or []):
            if error is not None:
                raise error
            if len(part) != longest:
                raise ValueError(f"Process {rank} returned {len(part)} answers to {longest} requests")
            answers[rank :: self.size] = part[: len(shares[rank])]
        return answers

    def follow(self) -> None:
        """Answer shares of requests until the first process is done. Called in the other processes."""
        while True:
            message = self._broadcast(None)
            if message is None:
                return
            method, shares = message
            self._gather(_attempt(getattr(self._lm, method), shares[self.rank]), 0)

    def dismiss(self) -> None:
        """Release the other processes. Called in the first one."""
        self._broadcast(None)

    def _broadcast(self, value: Any) -> Any:
        """Broadcast a value from the first process."""
        mine = value
        for rank in range(1, self.size):
            values = self._gather(value if self.rank == 0 else None, rank)
            if rank == self.rank and values:
                mine = values[0]
        return mine


def _attempt(call: Callable[[list[Any]], Any], requests: list[Any]) -> tuple[list[Any], Exception | None]:
    """Return the answers, or the exception instead, so that no process waits for one that failed."""
    try:
        return list(call(requests)), None
    except Exception as error:  # noqa: BLE001
        return [], error


def _gathering(lm: Any) -> Callable[[Any, int], Any]:
    """Return a function that gathers one object of each process in one of them."""
    from lm_eval.api.model import LM

    if getattr(type(lm), "gather_object", LM.gather_object) is not LM.gather_object:
        return lambda value, rank: lm.gather_object(value, dst=rank)
    try:
        from torch import distributed
    except ImportError:
        distributed = None
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        raise NotImplementedError(
            f"`{type(lm).__name__}` reports {size_of(lm)} processes but has no way to gather their answers; "
            "define `gather_object(obj, dst)`, or initialise `torch.distributed`"
        )

    def gather(value: Any, rank: int) -> Any:
        values = [None] * distributed.get_world_size() if distributed.get_rank() == rank else None
        distributed.gather_object(value, values, dst=rank)
        return values

    return gather
