"""`python -m lm_eval`: the program `lm-eval`, and the command line for scripts that register things of their own."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

__all__ = ["cli_evaluate", "main", "parse_eval_args", "setup_parser"]


def main() -> NoReturn:
    """Become the program, with the arguments of this process."""
    from lm_eval._engine import find_program

    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])


def cli_evaluate(args: argparse.Namespace | None = None) -> None:
    """Run the command line of this process, with the models, metrics, filters and scorers that it registered.

    `args` is what a parser of `setup_parser` has read, or a namespace with the same names; without it, the words
    after the script count. A run that fails ends the process with its exit status.
    """
    from lm_eval import _command

    status = _command.run(sys.argv[1:] if args is None else _command.words_of(args))
    if status:
        sys.exit(status)


def setup_parser() -> argparse.ArgumentParser:
    """Return a parser with the options of a run, to which a script can add its own."""
    from lm_eval import _command

    return _command.parser()


def parse_eval_args(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line of this process; without words, show help and end."""
    if len(sys.argv) == 1:
        parser.print_help()
        sys.exit(1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
