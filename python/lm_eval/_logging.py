"""Set-up of Python's `logging` for this package. Engine messages go to the logger `lm_eval`."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

__all__ = ["info_once", "maybe_warn", "setup_logging", "warning_once"]

_LEVEL_VARIABLE = "LMEVAL_LOG_LEVEL"


class _Formatter(logging.Formatter):
    """Adds the logger name without the package prefix."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted line of a record."""
        record.short = record.name.removeprefix("lm_eval.")
        return super().format(record)


def setup_logging(verbosity: str | int | None = logging.INFO) -> None:
    """Write messages of this package and of the engine to standard error, from a level on.

    The environment variable `LMEVAL_LOG_LEVEL` overrides `verbosity`.
    """
    given = os.environ.get(_LEVEL_VARIABLE) or verbosity or logging.INFO
    level = logging.getLevelName(given.upper()) if isinstance(given, str) else given
    if not isinstance(level, int):
        raise ValueError(f"`{given}` is not a level of `logging`, such as `INFO` or `WARNING`")
    logger = logging.getLogger("lm_eval")
    logger.setLevel(level)
    if any(isinstance(handler.formatter, _Formatter) for handler in logger.handlers):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Formatter("%(asctime)s %(levelname)-8s [%(short)s:%(lineno)d] %(message)s", "%Y-%m-%d:%H:%M:%S")
    )
    logger.addHandler(handler)
    # The application's handlers would write the same lines again.
    logger.propagate = False


@functools.cache
def warning_once(logger: logging.Logger, msg: str, *args: Any) -> None:
    """Log a warning unless the same one was logged before."""
    logger.warning(msg, *args)


@functools.cache
def info_once(logger: logging.Logger, msg: str, *args: Any) -> None:
    """Log a message unless the same one was logged before."""
    logger.info(msg, *args)


def maybe_warn(msg: str, verbose: bool = True) -> None:
    """Log a warning if `verbose` is set."""
    if verbose:
        logging.getLogger("lm_eval").warning(msg)
