"""The command line, as a class."""

from __future__ import annotations

from lm_eval._cli.harness import HarnessCLI

__all__ = ["HarnessCLI"]
