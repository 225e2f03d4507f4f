"""The command line, as a class."""

from __future__ import annotations

import argparse
import sys

__all__ = ["HarnessCLI"]


class HarnessCLI:
    """Parses and runs the command line of this process, with the classes it registered."""

    def parse_args(self) -> argparse.Namespace:
        """Return the arguments of the command line; the engine parses them."""
        return argparse.Namespace(words=sys.argv[1:])

    def execute(self, args: argparse.Namespace) -> None:
        """Run a command line; a failure exits the process with its status."""
        from lm_eval import _command

        given = getattr(args, "words", None)
        status = _command.run(_command.words_of(args) if given is None else given)
        if status:
            sys.exit(status)
