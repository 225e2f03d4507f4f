"""Asking the judges of a run from a scorer, filter or metric written in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval import _host

__all__ = ["ask_judge"]


def ask_judge(
    role: str,
    prompts: str | Sequence[str],
    *,
    system: str | None = None,
    samples: int = 1,
    generation_kwargs: Mapping[str, Any] | None = None,
) -> list[str]:
    """Ask the model that `--judge ROLE=…` binds to a role, and return its answers in the order of the prompts.

    With several `samples`, the answers to a prompt are next to each other; set a temperature to get different ones.
    Questions are saved, resumed, retried and counted like those of the scorer `judge`. Ask about many answers at once:
    they are sent together.
    """
    given = dict(generation_kwargs or {})
    defaults = {"until": [], "max_gen_toks": 1024, "temperature": 0.0, "do_sample": bool(given.get("temperature"))}
    listed = [prompts] if isinstance(prompts, str) else list(prompts)
    return _host.ask_judge(role, listed, system=system, samples=samples, generation={**defaults, **given})
