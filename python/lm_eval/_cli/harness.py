"""The command line, as a class."""

from __future__ import annotations

import argparse
import sys

__all__ = ["HarnessCLI"]


class HarnessCLI:
    """Reads the command line of this process and runs it, with what the process has registered."""

    def parse_args(self) -> argparse.Namespace:
        """Return the words of the command line; the engine reads them."""
        return argparse.Namespace(words=sys.argv[1:])

    def execute(self, args: argparse.Namespace) -> None:
        """Run a command line; a failure ends the process with its exit status."""
        from lm_eval import _command

        given = getattr(args, "words", None)
        status = _command.run(_command.words_of(args) if given is None else given)
        if status:
            sys.exit(status)
