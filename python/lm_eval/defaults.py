"""Default settings."""

from __future__ import annotations

import os
from typing import Any

DEFAULT_MAX_LENGTH = 2048
"""The maximum prompt length, in tokens, of a model that does not state one."""

DEFAULT_MAX_GEN_TOKS = 256
"""The maximum generation length, in tokens."""

DEFAULT_RANDOM_SEED = 0
"""The seed of Python's own generator."""

DEFAULT_OTHER_SEED = 1234
"""The seed of all other generators."""

LOGGING_LEVEL = os.environ.get("LMEVAL_LOG_LEVEL", "INFO").upper()
"""The default level of `setup_logging`."""

LMEVAL_HASHMM = os.environ.get("LMEVAL_HASHMM", "false").lower() in ("1", "true", "yes", "on")
"""Whether images are recorded as hashes."""

DISABLE_MULTIPROC = os.environ.get("LMEVAL_DISABLE_MULTIPROC", "").lower() in ("1", "true", "yes", "on")
"""Whether the environment requests a single process; the engine reads `LM_EVAL_PYTHON_WORKERS=1` instead."""


def default_gen_kwargs(
    until: str | list[str] | None, max_gen_toks: int = DEFAULT_MAX_GEN_TOKS
) -> dict[str, Any]:
    """Return the default generation settings of a task."""
    stops = [] if until is None else [until] if isinstance(until, str) else until
    return {"temperature": 0.0, "do_sample": False, "max_gen_toks": max_gen_toks, "until": stops}
