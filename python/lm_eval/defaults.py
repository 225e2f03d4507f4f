"""Default settings."""

from __future__ import annotations

from typing import Any

DEFAULT_MAX_LENGTH = 2048
"""The longest prompt of a model that does not say, in tokens."""

DEFAULT_MAX_GEN_TOKS = 256
"""The longest generated text, in tokens."""

DEFAULT_RANDOM_SEED = 0
"""The seed of Python's own generator."""

DEFAULT_OTHER_SEED = 1234
"""The seed of all other generators."""


def default_gen_kwargs(
    until: str | list[str] | None, max_gen_toks: int = DEFAULT_MAX_GEN_TOKS
) -> dict[str, Any]:
    """Return the generation settings of a task that gives none."""
    stops = [] if until is None else [until] if isinstance(until, str) else until
    return {"temperature": 0.0, "do_sample": False, "max_gen_toks": max_gen_toks, "until": stops}
